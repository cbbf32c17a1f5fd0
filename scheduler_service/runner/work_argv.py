"""What a pod's work is as a command, and whether its payload is the one that was signed; on both backends alike."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from scheduler_service.runner import files
from scheduler_service.wire.pod_group import Work

WORKER_MODULE = "scheduler_service.runner.worker"
PAYLOAD = "{payload}"
"""Stands in a command for the path of the payload's file."""
NOT_SIGNED = "Not started: the payload is not the one that was signed. Submit it again."


def argv_of(work: Work, folder: Path) -> tuple[str, ...]:
    """Return the work's own command, or the worker that runs its payload, which lies in `folder`."""
    if work.command:
        payload = str(folder / files.PAYLOAD)
        return tuple(part.replace(PAYLOAD, payload) for part in work.command)
    return (work.python or sys.executable, "-m", WORKER_MODULE, str(folder))


def is_signed_payload(work: Work, path: Path) -> bool:
    """Whether the file is the payload that `work` names."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == work.payload_sha256
