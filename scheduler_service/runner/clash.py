"""Whether a gang failed because another program took one of its ports, by what its workers wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from scheduler_service.runner.clock import now_ms
from scheduler_service.runner.log_files import STDERR, Line, LogReader, LogWriter, next_seq
from scheduler_service.runner.pod_folder import PodFolder
from scheduler_service.runner.ports import tells_of_clash

LAST_LINES = 50
SOON_MS = 120_000
"""Ports are bound when a program starts. What says so later speaks of a port of its own, and has work to lose."""
NOTE = "kai: a port was taken by another process; the gang starts again on other ports."


def is_met(failed: PodFolder, gang: Iterable[PodFolder]) -> bool:
    """Whether a worker failed soon after its start and the last lines of one of the gang say that a port was taken."""
    ended = failed.exit()
    if ended is None or ended.exit_code in {0, None} or ended.reason_code is not None:
        return False
    is_soon = ended.ended_at - ended.started_at < SOON_MS
    return is_soon and any(_tells_of_clash(folder) for folder in gang)


def note(folder: PodFolder) -> None:
    """Say in the log of a pod, once, that its gang starts again."""
    if any(line.text == NOTE for line in _last_lines(folder, 0)):
        return
    with contextlib.suppress(OSError):  # the note is a courtesy
        log = LogWriter(folder.path, segment_bytes=1, segments=9)
        log.add(STDERR, NOTE, now_ms())
        log.close()


def _tells_of_clash(folder: PodFolder) -> bool:
    """Whether the present attempt's last lines say so."""
    return any(tells_of_clash(line.text) for line in _last_lines(folder, folder.retry() or 0))


def _last_lines(folder: PodFolder, start: int) -> list[Line]:
    reader = LogReader(folder.path, max(start, next_seq(folder.path) - LAST_LINES))
    lines, _ = reader.read(LAST_LINES)
    return lines
