"""The runner's side of a supervisor: starting one, waiting until its pod runs, stopping it, ending what one left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scheduler_service.runner import files, gate, processes
from scheduler_service.runner.pod_folder import PodFolder
from scheduler_service.wire.locate import start_ticks

_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
_LOOK_S = 0.02
_KILL_ROUNDS = 100
MARK = "KAI_INCARNATION"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod does not start: a stable code and a sentence."""

    code: str
    text: str


def spawn(folder: PodFolder) -> subprocess.Popen[bytes] | Refusal:
    """Start the supervisor of a folder that is ready; it holds the folder's lock from its first moment.

    Its pod begins when `stdin` of what is returned is closed after `gate.say_go`; closed without that, it ends.
    """
    lock = folder.take_lock()
    if lock is None:
        return Refusal("already_supervised", "This pod already has a supervisor.")
    gate.give_up(folder.path)  # what a supervisor that was killed had written
    errors = os.open(
        folder.path / files.SUPERVISOR_ERRORS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600
    )
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-S", "-m", "scheduler_service.runner.supervisor", folder.path],
            env=os.environ | {"PYTHONPATH": _PACKAGE_ROOT},
            cwd=folder.path,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
            pass_fds=(lock,),
        )
    except OSError as error:
        text = f"No process could be started on this machine: {error.strerror}. Try again later."
        return Refusal("no_process", text)
    finally:
        os.close(errors)
        os.close(lock)


async def until_ready(folder: PodFolder, *, timeout_s: float) -> Refusal | None:
    """Wait until the supervisor waits for go; return why it never will."""
    outcome = await _first_of(folder, lambda: gate.is_ready(folder.path), timeout_s)
    return outcome if isinstance(outcome, Refusal) else None


async def until_running(folder: PodFolder, *, timeout_s: float) -> Refusal | None:
    """Wait, after go, until the pod's process runs or has ended; return why there never was one."""
    outcome = await _first_of(folder, folder.supervisor, timeout_s)
    return outcome if isinstance(outcome, Refusal) else None


async def _first_of(folder: PodFolder, ask: Callable[[], object], timeout_s: float) -> object:
    give_up = time.monotonic() + timeout_s
    while time.monotonic() < give_up:
        is_supervised = (
            folder.is_supervised()
        )  # asked first: what it did before it ended is seen below
        if answer := ask():
            return answer
        ended = folder.exit()
        if ended is not None and not ended.started:
            return Refusal(ended.reason_code or "start_failed", ended.reason_text)
        if not is_supervised:
            why = folder.supervisor_errors() or "it left no word"
            return Refusal(_code_of(why), f"The pod's supervisor could not work: {why}.")
        await asyncio.sleep(_LOOK_S)
    return Refusal("start_timeout", "The pod's supervisor did not start its process in time.")


def ask_to_stop(folder: PodFolder, *, grace_s: float, reason: str) -> None:
    """Tell the supervisor to end its pod. Repeating it changes nothing."""
    if not folder.has(files.STOP):
        with contextlib.suppress(OSError):  # a full disk: the signal alone is an order too
            files.write_json(folder.path / files.STOP, {"grace_s": grace_s, "reason": reason})
    running = folder.supervisor()
    if running is not None and start_ticks(running.pid) == running.start_ticks:
        processes.send((running.pid,), signal.SIGTERM)


def end_remains(folder: PodFolder, incarnation: str) -> None:
    """Kill what a supervisor that died left running: the pod's group, and whatever carries the pod's mark."""
    running = folder.supervisor()
    if running is not None and start_ticks(running.child_pid) == running.child_start_ticks:
        processes.send_group(running.child_pid, signal.SIGKILL)
    for _ in range(_KILL_ROUNDS):
        remains = processes.marked(MARK, incarnation)
        if not remains:
            return
        processes.send(remains, signal.SIGKILL)
        time.sleep(_LOOK_S)


async def until_unsupervised(folder: PodFolder) -> None:
    """Wait until the folder has no supervisor."""
    while folder.is_supervised():  # noqa: ASYNC110 - another process decides
        await asyncio.sleep(_LOOK_S)


def _code_of(why: str) -> str:
    return "disk_full" if "No space left" in why or "File too large" in why else "supervisor_failed"
