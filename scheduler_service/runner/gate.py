"""Between standing ready and beginning: a pod's command is executed after its runner said go, and never before.

A supervisor that is ready writes ``waiting.json`` and reads its standard input, a pipe that its runner alone holds
open. Go is one rename, ``waiting.json`` to ``go.json``; giving up is the removal of ``waiting.json``: of the two only
one can happen. The pipe carries nothing; that it ends only says "look". So a runner that is killed gives up for all
it had not said go to, and what ``go.json`` names has begun, or is about to. Rule: standard library only.
"""

from __future__ import annotations

import os
import select
from pathlib import Path

from scheduler_service.runner import files
from scheduler_service.wire.locate import start_ticks


def until_told(folder: Path, attempt: int, *, gate: int, wake: int) -> bool:
    """Stand ready until the pipe `gate` ends or a signal comes through `wake`; return whether go was said."""
    me = {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid()), "attempt": attempt}
    files.write_json(folder / files.WAITING, me)
    select.select([gate, wake], [], [])
    return not give_up(folder)


def is_ready(folder: Path) -> bool:
    """Whether a supervisor waits for go."""
    return (folder / files.WAITING).exists()


def say_go(folder: Path) -> bool:
    """Let the waiting supervisor begin once its pipe ends; False if the start had been given up."""
    try:
        (folder / files.WAITING).replace(folder / files.GO)
    except FileNotFoundError:
        return False
    return True


def give_up(folder: Path) -> bool:
    """Take the start back for good; False if go had been said."""
    try:
        (folder / files.WAITING).unlink()
    except FileNotFoundError:
        return False
    return True


def begun(folder: Path) -> int:
    """Return the last attempt that go was said to: 0 = none, so that nothing of the pod was ever executed."""
    said = files.read_json(folder / files.GO)
    return 0 if said is None else int(said["attempt"])
