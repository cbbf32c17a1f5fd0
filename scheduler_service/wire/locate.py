"""Where the service of this person and machine is: state directory, lock file, socket, token (decisions of docs/adr).

Read by whoever looks for the service; written by `kai serve` alone. No network here.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

PROC = Path("/proc/self").parent
MACHINE_SOCKET = Path("/run/kai/kai.sock")
SOCKET_URL = "http://kai.localhost"
"""What a service is called on a socket; the name is never looked up."""
RUNNER_LOCK = "runner.lock"
"""Held as long as a runner works in a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFile:
    """What a running service writes to ``<state>/service.json`` (0600), atomically, once it listens."""

    pid: int
    start_ticks: int
    port: int
    version: str
    token_path: str

    @property
    def url(self) -> str:
        """The base address, loopback only."""
        return f"http://127.0.0.1:{self.port}"


def machine_socket() -> Path:
    """Return where this machine's shared service listens: ``KAI_SOCKET``, else where its unit puts it."""
    override = os.environ.get("KAI_SOCKET")
    return Path(override) if override else MACHINE_SOCKET


def state_dir() -> Path:
    """Return the state directory: ``KAI_STATE_DIR``, else per XDG (on macOS under Library), not created."""
    if override := os.environ.get("KAI_STATE_DIR"):
        return Path(override)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "kai"
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "kai"


def signing_key_path() -> Path:
    """Return where this person's signing key rests: ``KAI_SIGNING_KEY_FILE``, else in the state directory."""
    override = os.environ.get("KAI_SIGNING_KEY_FILE")
    return Path(override) if override else state_dir() / "signing.key"


def own_runner_dir() -> Path:
    """Return where this person's runner for this machine's shared service keeps its pods, not created.

    A folder a machine: homes are often shared between machines, and each has a runner of its own.
    """
    return state_dir() / "machines" / socket.gethostname()


def lock_path(state: Path) -> Path:
    """Return the lock file of the service whose state is in `state`."""
    return state / "service.json"


def read_lock(state: Path) -> LockFile | None:
    """Return the lock file if it is whole and its process still lives, else None."""
    try:
        lock = LockFile(**json.loads(lock_path(state).read_text("utf-8")))
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return None
    return lock if start_ticks(lock.pid) == lock.start_ticks else None


def write_lock(state: Path, lock: LockFile) -> None:
    """Write the lock file so that no reader ever sees half of it."""
    path = lock_path(state)
    temporary = path.with_suffix(f".{lock.pid}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(lock), file)
    temporary.replace(path)


def start_ticks(pid: int) -> int | None:
    """Return when process `pid` started (ticks since boot on Linux, seconds elsewhere).

    None if there is no such process, or only a zombie.
    """
    if PROC.is_dir():
        return _start_ticks_linux(pid)
    return _start_seconds_ps(pid)


def _start_ticks_linux(pid: int) -> int | None:
    try:
        stat = (PROC / str(pid) / "stat").read_text("utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _start_seconds_ps(pid: int) -> int | None:
    import subprocess  # only where /proc is missing
    import time

    answer = subprocess.run(
        ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, started = answer.stdout.strip().partition(" ")
    if not started or state.startswith("Z"):
        return None
    return int(time.mktime(time.strptime(started.strip(), "%a %b %d %H:%M:%S %Y")))
