"""This person's runner: where one service is shared by a machine, each person's processes are started by their own.

Whoever asks for devices sees to it that it is there: `kai submit`, the magics, the server extension. It is started
detached and stays; a lock says whether it lives, so that nobody starts it twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

from kai_jupyter.errors import ServiceUnreachable
from kai_jupyter.finding import Endpoint, make_private
from scheduler_service.wire import locate

LOG_NAME = "runner.log"
_RUNNER = "import sys; from scheduler_service.cli import main; sys.exit(main())"


def ensure_runner(endpoint: Endpoint) -> None:
    """Start this person's runner if the service is a shared one and it does not run. Returns at once.

    Raises `ServiceUnreachable` where its folder can not be used.
    """
    if endpoint.socket is None:
        return
    folder = locate.own_runner_dir()
    make_private(locate.state_dir())
    make_private(folder)
    if not is_running(folder):
        _start(endpoint.socket, folder)


def is_running(folder: Path) -> bool:
    """Whether a runner works in `folder`."""
    try:
        descriptor = os.open(folder / locate.RUNNER_LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unusable(folder, error) from error
    with contextlib.closing(os.fdopen(descriptor)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _start(socket: str, folder: Path) -> None:
    try:
        descriptor = os.open(folder / LOG_NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise _unusable(folder, error) from error
    with os.fdopen(descriptor, "ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", _RUNNER, "runner", "--socket", socket],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "KAI_STATE_DIR": str(locate.state_dir().absolute())},
            start_new_session=True,
        )
    threading.Thread(target=process.wait, name="kai-runner", daemon=True).start()  # no zombie stays


def _unusable(folder: Path, error: OSError) -> ServiceUnreachable:
    return ServiceUnreachable(
        f"Your runner can not use the folder {folder} ({error.strerror}). "
        "Make it writable for you, or name another in KAI_STATE_DIR."
    )
