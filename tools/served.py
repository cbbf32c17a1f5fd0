"""Start a JupyterLab with all of its state in one folder, and stop it and the service with it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.cell import Server
from tools.progress import StepError, step

PATIENCE_S = 120
POLL_S = 0.2
STOP_S = 30
LOG_TAIL = 4000


@contextmanager
def started(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], *, cwd: Path
) -> Iterator[Server]:
    """Run `command`, a `jupyter lab`, until the block ends; give the server once it listens.

    Raises:
        StepError: when it does not come up, or from the block, with the end of its log added.
    """
    log = folder / "jupyter.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environment),
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    try:
        with step("Starting JupyterLab"):
            server = _listening(Path(environment["JUPYTER_RUNTIME_DIR"]), process)
        yield server
    except StepError as failure:
        tail = log.read_text(errors="replace")[-LOG_TAIL:]
        raise StepError(f"{failure}\nThe end of JupyterLab's log:\n{tail}") from failure
    finally:
        with step("Stopping it"):
            _stop(process)
            _stop_service(Path(command[0]).parent / "kai", environment)


def isolated(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return an environment in which nothing reads or writes a person's own folders."""
    own = {
        "HOME": "home",
        "IPYTHONDIR": "ipython",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "KAI_STATE_DIR": "state",
    }
    (folder / "home").mkdir()
    outside = {name: value for name, value in environment.items() if name[:4] != "KAI_"}
    return outside | {name: str(folder / part) for name, part in own.items()}


def free_port() -> int:
    """Return a port of the loopback interface that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listening(runtime: Path, process: subprocess.Popen[bytes]) -> Server:
    """Return the server once it has written where it listens."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise StepError(f"JupyterLab ended at once (exit {process.returncode})")
        for file in runtime.glob("jpserver-*.json"):
            found = json.loads(file.read_text())
            return Server(url=found["url"], token=found["token"])
        time.sleep(POLL_S)
    raise StepError(f"JupyterLab did not say where it listens within {PATIENCE_S} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask JupyterLab to end; insist after a while."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _stop_service(kai: Path, environment: Mapping[str, str]) -> None:
    """End the service, which a Jupyter server leaves running on purpose."""
    subprocess.run([kai, "stop"], env=dict(environment), capture_output=True, check=False)
