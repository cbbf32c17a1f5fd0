"""Starting the pod's own process: its session, its limits, and a sentence where it can not be started.

Rule: standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from scheduler_service.runner.start_plan import StartPlan

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
NOT_FOUND = 127
NOT_EXECUTABLE = 126


class Started(NamedTuple):
    """The pod's main process, leader of its own session and group."""

    pid: int
    stdout: BinaryIO
    stderr: BinaryIO


class NotStarted(NamedTuple):
    """Why there is no process, with a shell's exit code for it."""

    exit_code: int
    reason_code: str
    reason_text: str


def obstacle(plan: StartPlan) -> NotStarted | None:
    """Return why the plan's process could not be started, as far as that shows without starting it."""
    if not Path(plan.cwd).is_dir():
        text = f"The folder {plan.cwd} does not exist. Create it, or submit from another folder."
        return NotStarted(NOT_EXECUTABLE, "workdir_missing", text)
    program = plan.argv[0]
    folders = [""] if "/" in program else os.get_exec_path(plan.env)
    places = [Path(plan.cwd, folder, program) for folder in folders]
    if any(_is_there(place) and place.is_file() and os.access(place, os.X_OK) for place in places):
        return None
    if any(_is_there(place) for place in places):
        error = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return NotStarted(NOT_EXECUTABLE, "command_not_executable", _not_run(program, error))
    return NotStarted(NOT_FOUND, "command_not_found", _not_found(program))


def _is_there(place: Path) -> bool:
    """Whether something of that name can be seen; a folder of the PATH may be closed to this person (root's own)."""
    try:
        return place.exists()
    except PermissionError:
        return False


def start(plan: StartPlan) -> Started | NotStarted:
    """Start the plan's process; its orphans will belong to the calling process."""
    adopt_orphans()
    supervisor = os.getpid()
    try:
        process = subprocess.Popen(
            plan.argv,
            env=plan.env,
            cwd=plan.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: _bound(plan, supervisor),  # noqa: PLW1509 - this process has one thread
        )
    except FileNotFoundError:
        return NotStarted(NOT_FOUND, "command_not_found", _not_found(plan.argv[0]))
    except OSError as error:
        return NotStarted(NOT_EXECUTABLE, "command_not_executable", _not_run(plan.argv[0], error))
    except subprocess.SubprocessError:
        text = "The limits of the request could not be set on this machine. Ask for less memory or fewer CPUs."
        return NotStarted(NOT_EXECUTABLE, "limits_refused", text)
    process.returncode = 0  # the supervisor collects the exit status itself
    return Started(process.pid, cast("BinaryIO", process.stdout), cast("BinaryIO", process.stderr))


def adopt_orphans() -> None:
    """Let what descends from this process and lost its parent become a child of it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _bound(plan: StartPlan, supervisor: int) -> None:
    """Set, in the new process, the limits; and let it die with its supervisor where the system can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != supervisor:  # it died before that was set
            os._exit(NOT_EXECUTABLE)
        if plan.cores:
            os.sched_setaffinity(0, plan.cores)
    if plan.data_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (plan.data_bytes, plan.data_bytes))


def _not_found(program: str) -> str:
    where = "does not exist" if "/" in program else "is not on the PATH of this pod"
    return f"The command {program!r} {where}. Check its spelling, or give its full path."


def _not_run(program: str, error: OSError) -> str:
    why = (error.strerror or "unknown error").lower()
    return (
        f"The command {program!r} could not be started: {why}. "
        "Make it executable (chmod +x), with a first line such as #!/bin/sh if it is a script."
    )
