"""Find the service of this person and machine, and start it where there is none.

On a JupyterHub (`KAI_IDENTITY=hub`, set by our spawners) a person is known by the hub token of their server.
Order: `KAI_SERVICE_URL`, the machine's socket, the lock file in the state directory, else `kai serve --embedded`,
detached. Whoever comes first starts it; a file lock makes that safe between kernels and servers that start together.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kai_jupyter.errors import ServiceUnreachable
from scheduler_service.wire import locate
from scheduler_service.wire.signing import load_or_create_key

START_PATIENCE_S = 60.0
_POLL_S = 0.05
_SERVE = "import sys; from scheduler_service.cli import main; sys.exit(main())"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the service listens and with what to knock. The token never shows in a repr."""

    url: str
    token: str = ""
    socket: str | None = None
    """Path of a Unix socket; `url` is then only its name."""

    def __repr__(self) -> str:
        return f"Endpoint({self.socket or self.url})"


def find_service(*, start: bool = True) -> Endpoint:
    """Return the endpoint of the service; with `start`, start the embedded one if there is none.

    Raises `ServiceUnreachable` with what to do when there is none and none could be started.
    """
    known = _named_by_environment() or _machine_wide() or _running()
    if known is not None:
        return known
    if not start:
        raise ServiceUnreachable(
            "The scheduler service does not run. Start it with `kai serve --embedded`, or ask for a GPU in a notebook: "
            "it starts by itself."
        )
    return _start()


def signing_key() -> bytes:
    """Return this person's signing key, made on first use (0600, in a 0700 directory)."""
    path = locate.signing_key_path()
    make_private(path.parent)
    with _written_in(path.parent):
        return load_or_create_key(path)


def make_private(directory: Path) -> None:
    """Make `directory` where it is missing, for its owner only."""
    with _written_in(directory):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)


@contextlib.contextmanager
def _written_in(state: Path) -> Iterator[None]:
    """Turn what the system says about a state directory that takes no file into what to do about it."""
    try:
        yield
    except OSError as error:
        raise ServiceUnreachable(
            f"The state directory {state} can not be used ({error.strerror}). "
            "Make it writable, or name another in KAI_STATE_DIR."
        ) from error


def _named_by_environment() -> Endpoint | None:
    url = os.environ.get("KAI_SERVICE_URL")
    if not url:
        return None
    if os.environ.get("KAI_IDENTITY") == "hub":
        return Endpoint(url=url.rstrip("/"), token=os.environ.get("JUPYTERHUB_API_TOKEN", ""))
    token_file = os.environ.get("KAI_TOKEN_FILE")
    if token_file:
        return Endpoint(url=url.rstrip("/"), token=_read_token(Path(token_file)))
    if _is_loopback(url):
        return Endpoint(url=url.rstrip("/"), token=_read_token(locate.state_dir() / "token"))
    raise ServiceUnreachable(
        f"KAI_SERVICE_URL names {url}, but KAI_TOKEN_FILE is not set. Put the path of your token file in "
        "KAI_TOKEN_FILE; the token of this machine's own service is never sent elsewhere."
    )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _machine_wide() -> Endpoint | None:
    """Return the shared service of this machine, where there is one; away or not, none is started beside it."""
    path = locate.machine_socket()
    return Endpoint(url=locate.SOCKET_URL, socket=str(path)) if _is_socket(path) else None


def _is_socket(path: Path) -> bool:
    try:
        return path.is_socket()
    except OSError:  # its folder is not ours to look into, so neither is what is in it
        return False


def _running() -> Endpoint | None:
    lock = locate.read_lock(locate.state_dir())
    if lock is None:
        return None
    return Endpoint(url=lock.url, token=_read_token(Path(lock.token_path)))


def _read_token(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError as error:
        raise ServiceUnreachable(
            f"The token file {path} cannot be read ({error.strerror}). It belongs to the person who "
            "started the service; run as that person, or name your own file in KAI_TOKEN_FILE."
        ) from error


def _start() -> Endpoint:
    state = locate.state_dir()
    make_private(state)
    with _only_one(state / "starting.lock"):
        known = _running()  # somebody may have been faster
        return known if known is not None else _start_embedded(state)


def _start_embedded(state: Path) -> Endpoint:
    log = state / "serve.log"
    with _written_in(state):
        out = log.open("ab")
        log.chmod(0o600)
    with out:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, "serve", "--embedded"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=state,
            env={**os.environ, "KAI_STATE_DIR": str(state.absolute())},
            start_new_session=True,
        )
    threading.Thread(
        target=process.wait, name="kai-service", daemon=True
    ).start()  # no zombie stays
    deadline = time.monotonic() + START_PATIENCE_S
    while time.monotonic() < deadline:
        known = _running()
        if known is not None:
            return known
        if process.returncode:
            raise ServiceUnreachable(
                _why_not(log, f"It ended at once (exit code {process.returncode}).")
            )
        time.sleep(_POLL_S)
    raise ServiceUnreachable(_why_not(log, f"It did not answer within {START_PATIENCE_S:.0f} s."))


def _why_not(log: Path, what: str) -> str:
    lines = [line for line in log.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    last = f" Its last words: {lines[-1].strip()}" if lines else ""
    return (
        f"The scheduler service could not be started. {what}{last} "
        f"The whole log is in {log}; `jupyter kai doctor` checks the rest."
    )


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    import fcntl

    with _written_in(path.parent):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
