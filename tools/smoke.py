"""`make smoke`: start exactly what `make lab` starts, check that it works, stop all of it."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.cell import Outputs, Server, run_cell
from tools.lab import command, environment
from tools.progress import ROOT, StepError, step
from tools.served import POLL_S, free_port, isolated, started

PATIENCE_S = 120
ASK = "%load_ext kai_jupyter\n%gpu 0.5"
SHOW_DEVICES = "import os; print('devices:', os.environ.get('KAI_GPU_DEVICES'))"


def main() -> int:
    """Run the checks; return the exit status."""
    try:
        with tempfile.TemporaryDirectory(prefix="kai-smoke-") as name:
            folder = Path(name)
            own = isolated(environment(), folder)
            start = command(opens_window=False, port=free_port())
            with started(start, folder, own, cwd=ROOT) as server:
                run_checks(server)
    except StepError as failure:
        print(f"smoke failed: {failure}")
        return 1
    print("smoke passed: everything that `make lab` starts works")
    return 0


def run_checks(server: Server) -> None:
    """Check a running JupyterLab with kai-jupyter in it, link by link.

    Raises:
        StepError: with the first link that does not hold.
    """
    for title, check in CHECKS:
        with step(title):
            check(server)


def _page_answers(server: Server) -> None:
    if "jupyter-config-data" not in server.get("lab"):
        raise StepError("the page of JupyterLab holds no configuration")


def _extension_is_there(server: Server) -> None:
    if "@kai/jupyter" not in server.get("lab"):
        raise StepError("the page does not load the lab extension; see `jupyter labextension list`")


def _service_answers(server: Server) -> None:
    _observe(lambda: json.loads(server.get("kai/nodes")), "a node of the service")


def _cell_is_granted(server: Server) -> None:
    """Half a GPU is asked for, granted, seen by the kernel, released."""
    kernel = json.loads(server.post("api/kernels", {"name": "python3"}))["id"]
    _cell(server, kernel, ASK)
    _observe(lambda: _leases(server, "Running"), "a granted lease")
    shown = _cell(server, kernel, SHOW_DEVICES).text()
    if "devices: GPU-" not in shown:
        raise StepError(f"the kernel does not know its devices: {shown}")
    _cell(server, kernel, "%gpu release")
    _observe(lambda: not _leases(server, "Running"), "the end of the lease")
    server.delete(f"api/kernels/{kernel}")


def _cell(server: Server, kernel: str, code: str) -> Outputs:
    outputs = run_cell(server, kernel, code)
    if outputs.error:
        raise StepError(f"the cell {code!r} ended in {outputs.error}")
    return outputs


def _leases(server: Server, state: str) -> list[Any]:
    groups = json.loads(server.get("kai/pod-groups"))["items"]
    return [group for group in groups if group["kind"] == "lease" and group["state"] == state]


def _observe(look: Callable[[], object], what: str) -> None:
    """Look until there is something to see."""
    deadline = time.monotonic() + PATIENCE_S
    failure: StepError | None = None
    while time.monotonic() < deadline:
        try:
            if look():
                return
        except StepError as error:
            failure = error
        time.sleep(POLL_S)
    raise StepError(f"no sign of {what} within {PATIENCE_S} s; last answer: {failure}")


CHECKS: tuple[tuple[str, Callable[[Server], None]], ...] = (
    ("Looking at the page", _page_answers),
    ("Looking for the lab extension", _extension_is_there),
    ("Asking the service", _service_answers),
    ("Running a cell on half a GPU", _cell_is_granted),
)


if __name__ == "__main__":
    sys.exit(main())
