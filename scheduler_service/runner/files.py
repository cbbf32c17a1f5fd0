"""The files of a pod's folder: their names, and writes that no reader ever sees half of.

Rule: standard library only; the supervisor starts with this.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ORDER = "order.json"
"""The StartOrder as the service gave it."""
START = "start.json"
"""What the supervisor is to start: argv, env, cwd, limits (`start_plan.StartPlan`)."""
WAITING = "waiting.json"
"""Written by the supervisor when it stands ready: nothing is executed yet (`gate`)."""
GO = "go.json"
"""What ``waiting.json`` becomes when the runner says go: from here on the pod has begun."""
SUPERVISOR = "supervisor.json"
EXIT = "exit.json"
STOP = "stop.json"
LOCK = "lock"
"""Locked by the supervisor as long as it lives: whoever can lock it knows that the supervisor is gone."""
SUPERVISOR_ERRORS = "supervisor.err"
RETRIED = "retried.json"
"""The gang is started a second time because a port was taken; `lines` is where the log of the second begins."""
FINAL = "final"
"""The gang is not started again: a worker's end is being told, or one joined it later."""
KEPT = "kept"
"""The folder, beside the one of the pods, of pods that ran and that no book of the service tells of."""
DROPPED = "dropped"
PAYLOAD = "payload"
RESULT = "result"
RESULT_SIGNATURE = "result.sig"
RESULTS = "results.json"
FAILURE = "failure.json"
PROGRESS = "progress.json"
CURSOR = "cursor.json"

RESERVED_BYTES = 4096


def write_json(path: Path, value: object) -> None:
    """Write `value` so that a reader sees the old file or the new one, mode 0600."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file)
    temporary.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in `path`, None where there is none or it is not whole."""
    value = read_any(path)
    return value if isinstance(value, dict) else None


def read_any(path: Path) -> object:
    """Return the JSON value in `path`, None where there is none or it is not whole."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def reserve(path: Path) -> None:
    """Take the room on disk that `write_reserved` will need for `path`, while there is room."""
    descriptor = os.open(_reserve_of(path), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, b" " * RESERVED_BYTES)
    finally:
        os.close(descriptor)


def write_reserved(path: Path, value: object) -> None:
    """Write `value`, atomically, into the room that `reserve` took: this works on a full disk too."""
    reserved = _reserve_of(path)
    text = json.dumps(value).encode()[:RESERVED_BYTES].ljust(RESERVED_BYTES)
    descriptor = os.open(reserved, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, text, 0)
    finally:
        os.close(descriptor)
    reserved.replace(path)


def _reserve_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.reserve")
