"""A companion as a kubelet would start it: cells in, output and values back, against a service of the test's."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from scheduler_service.wire.signing import is_signed_result, load_or_create_key, sign_cell

FAIL_SAFE_S = 90
UID = "pod-uid"
OVER = {"succeeded", "failed", "interrupted", "lost"}
pytestmark = pytest.mark.process


class Handler(BaseHTTPRequestHandler):
    """The routes of one companion."""

    protocol_version = "HTTP/1.1"

    @property
    def desk(self) -> Desk:
        found: Desk = self.server.desk  # type: ignore[attr-defined]
        return found

    def log_message(self, *_: object) -> None: ...

    def answer(self, body: bytes = b"") -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path.endswith("/payload"):
            self.answer(self.desk.payloads[path.split("/")[-2]])
            return
        asked = dict(part.split("=") for part in query.split("&"))
        orders = self.desk.orders(asked["busy"], int(asked["interrupts"]))
        with contextlib.suppress(OSError):
            self.answer(json.dumps(orders).encode())

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.desk.reports.setdefault(told["id"], []).append(told)
        self.answer()

    def do_PUT(self) -> None:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        self.desk.results[self.path.split("/")[-2]] = body, self.headers["X-Kai-Signature"]
        self.answer()


class Desk:
    """The service's routes for one companion, and what was told of its cells."""

    def __init__(self) -> None:
        self.payloads: dict[str, bytes] = {}
        self.queue: list[dict[str, str]] = []
        self.interrupts: dict[str, int] = {}
        self.reports: dict[str, list[Any]] = {}
        self.results: dict[str, tuple[bytes, str]] = {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.desk = self  # type: ignore[attr-defined]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def orders(self, busy: str, interrupts: int) -> Any:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            if busy and self.interrupts.get(busy, 0) > interrupts:
                return {"cell": None, "interrupts": self.interrupts[busy]}
            if not busy and self.queue:
                return {"cell": self.queue[0], "interrupts": 0}
            time.sleep(0.01)
        return {"cell": None, "interrupts": interrupts}

    def last(self, cell: str) -> Any:
        """Return the last report of a cell that has ended."""
        until(lambda: any(one["state"] in OVER for one in self.reports.get(cell, ())), "it ends")
        self.queue = [one for one in self.queue if one["id"] != cell]
        return self.reports[cell][-1]

    def output(self, cell: str, stream: str = "stdout") -> str:
        pieces = {
            piece["seq"]: piece["text"]
            for report in self.reports.get(cell, ())
            for piece in report["output"]
            if piece["stream"] == stream
        }
        return "".join(pieces[seq] for seq in sorted(pieces))


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + FAIL_SAFE_S
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Notebook:
    """The person's side: cells that are signed, or not."""

    def __init__(self, folder: Path) -> None:
        self.desk = Desk()
        self.key = load_or_create_key(folder / "signing.key")
        token = folder / "token"
        token.write_text("t")
        port = self.desk.server.server_address[1]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "scheduler_service.runner.in_pod",
                "--hold",
                "--workdir",
                str(folder),
            ],
            env={
                **os.environ,
                "KAI_SERVICE_URL": f"http://127.0.0.1:{port}",
                "KAI_POD_TOKEN_FILE": str(token),
                "KAI_POD_FOLDER": str(folder / "work"),
                "KAI_SIGNING_KEY_FILE": str(folder / "signing.key"),
                "KAI_INCARNATION": UID,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.count = 0

    def send(
        self, source: str, *, out: tuple[str, ...] = (), key: bytes = b"", **variables: Any
    ) -> str:
        body = cloudpickle.dumps(
            {
                "kind": "cell",
                "source": source,
                "filename": "Cell [1]",
                "imports": "import os",
                "variables": variables,
                "out": list(out),
                "path": [],
            }
        )
        self.count += 1
        cell, digest = f"{self.count:032x}", hashlib.sha256(body).hexdigest()
        self.desk.payloads[cell] = body
        signature = sign_cell(key or self.key, UID, cell, digest)
        self.desk.queue.append({"id": cell, "payload_sha256": digest, "signature": signature})
        return cell

    def run(self, source: str, **more: Any) -> Any:
        return self.desk.last(self.send(source, **more))


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    found = Notebook(tmp_path)
    yield found
    found.process.kill()
    found.process.communicate()
    found.desk.server.shutdown()
    found.desk.server.server_close()


def test_variables_stay_and_named_ones_come_back_signed(notebook: Notebook) -> None:
    assert notebook.run("y = x + 1", x=1)["state"] == "succeeded"
    last = notebook.run("y += 1\nprint('now')\ny", out=("y",))
    assert last["results"][0]["name"] == "y"
    assert notebook.desk.output(last["id"]) == "now\n3\n"
    body, signature = notebook.desk.results[last["id"]]
    assert is_signed_result(notebook.key, f"{UID}/{last['id']}", body, signature)
    assert cloudpickle.loads(body)["values"] == {"y": 3}


def test_a_failure_has_its_line_and_the_next_cell_runs(notebook: Notebook) -> None:
    last = notebook.run("a = 1\na / 0")
    assert last["state"] == "failed"
    assert (last["failure"]["message"], last["failure"]["cell_line"]) == (
        "ZeroDivisionError: division by zero",
        2,
    )
    assert notebook.run("import sys; sys.exit(3)")["state"] == "failed"
    notebook.run("print(a)")
    assert notebook.desk.output(f"{3:032x}") == "1\n"


def test_an_interrupt_ends_the_cell_alone(notebook: Notebook) -> None:
    cell = notebook.send("kept = 1\nimport time\nprint('on')\ntime.sleep(600)")
    until(lambda: notebook.desk.output(cell) == "on\n", "it runs")
    notebook.desk.interrupts[cell] = 1
    assert notebook.desk.last(cell)["state"] == "interrupted"
    assert notebook.run("kept")["state"] == "succeeded"


def test_what_was_told_is_told_again_and_runs_once(notebook: Notebook) -> None:
    cell = notebook.send("n = globals().get('n', 0) + 1\nprint(n)")
    first = notebook.desk.last(cell)
    again = dict(notebook.desk.queue[0]) if notebook.desk.queue else None
    assert again is None
    count = len(notebook.desk.reports[cell])
    body = notebook.desk.payloads[cell]
    digest = hashlib.sha256(body).hexdigest()
    signature = sign_cell(notebook.key, UID, cell, digest)
    notebook.desk.queue.append({"id": cell, "payload_sha256": digest, "signature": signature})
    until(lambda: len(notebook.desk.reports[cell]) > count, "it is told again")
    assert notebook.desk.last(cell) == first
    assert notebook.run("n")["state"] == "succeeded"
    assert notebook.desk.output(f"{2:032x}") == "1\n"


def test_what_the_person_did_not_sign_is_not_run(notebook: Notebook) -> None:
    last = notebook.run("print('run')", key=b"k" * 32)
    assert last["state"] == "failed"
    assert "not signed with your key" in last["failure"]["message"]
    assert notebook.desk.output(last["id"]) == ""


def test_a_python_that_dies_is_told_and_another_one_begins(notebook: Notebook) -> None:
    notebook.run("v = 1")
    last = notebook.run("import signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert last["state"] == "lost"
    assert "signal SIGKILL" in last["text"]
    assert "variables are gone" in last["text"]
    assert notebook.run("'v' in globals()")["state"] == "succeeded"
    assert notebook.desk.output(f"{3:032x}") == "False\n"


def test_told_to_end_it_says_so_of_the_cell_and_ends_all_it_started(notebook: Notebook) -> None:
    cell = notebook.send(
        "import subprocess, time\nchild = subprocess.Popen(['sleep', '600'])\nprint(child.pid)\ntime.sleep(600)"
    )
    until(lambda: notebook.desk.output(cell).endswith("\n"), "it runs")
    child = int(notebook.desk.output(cell))
    notebook.process.send_signal(signal.SIGTERM)
    last = notebook.desk.last(cell)
    assert (last["state"], last["text"]) == (
        "lost",
        "The companion was told to end while the cell ran.",
    )
    assert notebook.process.wait(FAIL_SAFE_S) == 0
    until(lambda: not Path(f"/proc/{child}").exists(), "nothing of it is left")


def test_without_a_cell_it_ends_at_once(notebook: Notebook) -> None:
    assert notebook.process.stdout is not None
    notebook.process.stdout.readline()
    notebook.process.send_signal(signal.SIGTERM)
    assert notebook.process.wait(FAIL_SAFE_S) == 0
