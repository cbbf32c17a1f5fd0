"""Processes that end with the tests: on stop, on Ctrl-C, and when the tests themselves are killed.

Each is started in a session of its own (Ctrl-C reaches the tests alone) with the kernel's word to
end it when the thread that started it ends: start them from the main thread.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

FAIL_SAFE_S = 180.0
PAUSE_S = 0.05
TAIL_LINES = 30
GRACE_S = 20.0

_started: weakref.WeakSet[Process] = weakref.WeakSet()


class Failed(Exception):
    """Something of the test cluster did not come up or did not happen; the text says what."""


class Process:
    """One program with its log file; `start` again after `stop` or `kill` runs it anew."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self._environment = dict(os.environ if environment is None else environment)
        self._popen: subprocess.Popen[bytes] | None = None
        self._over = True
        _started.add(self)

    @property
    def pid(self) -> int:
        """The process id of the running program."""
        if self._popen is None:
            raise Failed(f"{self.name} was not started")
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether the program runs now."""
        return self._popen is not None and self._popen.poll() is None

    @property
    def exit_code(self) -> int | None:
        """What the program ended with; None while it runs or before it was started."""
        return None if self._popen is None else self._popen.poll()

    def start(self) -> Process:
        """Run the program; its output is appended to the log."""
        if threading.current_thread() is not threading.main_thread():
            raise Failed(f"{self.name} would end with this thread; start it from the main one")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._popen = subprocess.Popen(
                [*_ends_with_us(), *self.command],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._over = False
        return self

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program itself (not to its children)."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def stop(self, *, grace_s: float = GRACE_S) -> None:
        """End the program and what is left of its session; returns when it has ended."""
        if self.alive:
            self.signal(signal.SIGTERM)
            with suppress(TimeoutError):
                wait_until(lambda: not self.alive, f"{self.name} ends", fail_safe_s=grace_s)
        self.kill()

    def kill(self) -> None:
        """End the whole session of the program at once, as `kill -9` does."""
        if self._popen is None or self._over:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        self._over = True  # its number may belong to somebody else from now on

    def tail(self, lines: int = TAIL_LINES) -> str:
        """Return the end of the log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Return once `ready()` says so; Failed with the end of the log when the program ended."""

        def asked() -> bool:
            if not self.alive:
                raise Failed(f"{self.name} ended ({self.exit_code}) before {what}:\n{self.tail()}")
            return ready()

        try:
            wait_until(asked, f"{self.name}: {what}")
        except TimeoutError as late:
            raise Failed(f"{late}\n{self.tail()}") from late


def wait_until(ready: Callable[[], bool], what: str, *, fail_safe_s: float = FAIL_SAFE_S) -> None:
    """Return once `ready()` is true; TimeoutError that names `what` when it never is."""
    end = time.monotonic() + fail_safe_s
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"after {fail_safe_s:.0f} s still not: {what}")
        time.sleep(PAUSE_S)


def _ends_with_us() -> list[str]:
    """Return what to put before a command so that the kernel ends it when we are killed."""
    found = shutil.which("setpriv")
    return [found, "--pdeathsig", "KILL", "--"] if found else []


@atexit.register
def _end_all() -> None:
    for process in list(_started):
        process.kill()
