"""Real processes for tests: in a state directory of their own, waited for by what they say, ended by pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from scheduler_service.wire import locate

FAIL_SAFE_S = 60.0
KAI = (sys.executable, "-c", "from scheduler_service.cli import main; main()")
FAKE_SERVER = (sys.executable, "-m", "tests.fakes.api_server")
ROOT = Path(__file__).parents[2]


def until(happened: Callable[[], object], what: str) -> None:
    """Return once `happened` is true; the fail-safe fails the test and says what did not come."""
    deadline = time.monotonic() + FAIL_SAFE_S
    while not happened():
        assert time.monotonic() < deadline, f"not within {FAIL_SAFE_S:.0f} s: {what}"
        time.sleep(0.02)


def _hear_ctrl_c() -> None:
    """Undo what a shell does to whatever it starts in the background: such a child ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class World:
    """A state directory, and the processes that were started in it."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.started: list[subprocess.Popen[str]] = []
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KAI_")}
        self.environment = clean | {"KAI_STATE_DIR": str(state), "PYTHONPATH": str(ROOT)}

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment | variables,
            cwd=ROOT,
            preexec_fn=_hear_ctrl_c,  # noqa: PLW1509 - sets the default of a signal, nothing else
        )
        self.started.append(process)
        return process

    def kai(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `kai` to its end."""
        process = self.start(*KAI, *arguments, **variables)
        out, err = process.communicate(timeout=FAIL_SAFE_S)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def lock(self) -> locate.LockFile | None:
        return locate.read_lock(self.state)

    def serve(self, *command: str) -> subprocess.Popen[str]:
        """Start a service and wait until it can be found."""
        process = self.start(*command)
        until(lambda: self.lock() or process.poll() is not None, "the service's lock file")
        assert process.poll() is None, process.communicate()
        return process

    def end(self) -> None:
        """End what was started, runners that outlive their service too."""
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
