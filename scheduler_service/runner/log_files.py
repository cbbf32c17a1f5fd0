"""The log of a pod on disk: one line of output = one line of file, in the order in which it was read.

``<seq> <ms since the epoch> <o|e> <text>``, in segments named after their first `seq`; the oldest go when there are too
many. A segment holds whole lines only, on a full disk too. Rule: standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scheduler_service.runner import files

MAX_LINE_BYTES = 16 * 1024
READ_BYTES = 256 * 1024
"""About how much one read takes."""
_NAME = "log-{:012d}.txt"
_PATTERN = "log-*.txt"
STDOUT = "o"
STDERR = "e"


class Line(NamedTuple):
    """One line; `stream` is "o" or "e"."""

    seq: int
    at: int
    stream: str
    text: str


class LineSplitter:
    """Makes lines of what comes out of a pipe, as a terminal would show them: what follows the last carriage return."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that `data` completes; over-long ones come in pieces."""
        *whole, rest = (self._pending + data).split(b"\n")
        while len(rest) > MAX_LINE_BYTES:
            whole.append(rest[:MAX_LINE_BYTES])
            rest = rest[MAX_LINE_BYTES:]
        self._pending = rest
        return [text for line in whole for text in _shown(line)]

    @property
    def has_pending(self) -> bool:
        """Whether part of a line waits for its end."""
        return bool(self._pending)

    def flush(self) -> list[str]:
        """Return the part of a line that waits (a prompt, a progress bar), as a line."""
        data, self._pending = self._pending, b""
        return _shown(data) if data else []


class LogWriter:
    """Appends lines and rotates. What can not be written is counted, and told in the log once there is room again."""

    def __init__(self, folder: Path, *, segment_bytes: int, segments: int) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._segments = segments
        self._next = next_seq(folder)
        self._untold = 0
        self._file = -1
        self._size = 0
        self._dropped = DroppedCount(folder)

    def add(self, stream: str, text: str, at: int) -> None:
        """Append one line, or count it as dropped."""
        if self._untold and self._append(STDERR, _lost_sentence(self._untold), at):
            self._untold = 0
        if not self._append(stream, text, at):
            self._untold += 1
            self._dropped.add_one()

    def close(self) -> None:
        """Close the files; the next writer goes on."""
        self._dropped.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, stream: str, text: str, at: int) -> bool:
        data = f"{self._next} {at} {stream} {text}\n".encode()
        try:
            self._open_for(len(data))
            written = os.write(self._file, data)
        except OSError:
            return False
        if written < len(data):
            os.ftruncate(self._file, self._size)
            return False
        self._size += written
        self._next += 1
        return True

    def _open_for(self, size: int) -> None:
        if self._file >= 0 and (self._size == 0 or self._size + size <= self._segment_bytes):
            return
        path = self._folder / _NAME.format(self._next)
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size = opened, 0
        for _, old in segments_of(self._folder)[: -self._segments]:
            old.unlink(missing_ok=True)


class DroppedCount:
    """How many lines of a pod were lost, in a file that is written in place: it needs no more room on a full disk."""

    def __init__(self, folder: Path) -> None:
        self._lines = dropped_lines(folder)
        self._file = os.open(folder / files.DROPPED, os.O_WRONLY | os.O_CREAT, 0o600)
        self._write()

    def add_one(self) -> None:
        """Count one more."""
        self._lines += 1
        self._write()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write(self) -> None:
        os.pwrite(self._file, f"{self._lines:<20}\n".encode(), 0)


def dropped_lines(folder: Path) -> int:
    """Return how many lines of the pod were lost so far."""
    try:
        return int((folder / files.DROPPED).read_text("ascii") or 0)
    except (FileNotFoundError, ValueError):
        return 0


class LogReader:
    """Reads on from a line number, while the writer writes."""

    def __init__(self, folder: Path, start: int = 0) -> None:
        self._folder = folder
        self.next = start
        self._place: tuple[int, int] = (-1, 0)

    def read(self, limit: int, *, max_bytes: int = READ_BYTES) -> tuple[list[Line], int]:
        """Return up to `limit` lines, and how many were rotated away before they could be read."""
        lines: list[Line] = []
        lost = 0
        size = 0
        for first, path in self._segments_from_here():
            for line in self._lines_of(first, path):
                if line.seq < self.next:
                    continue
                lost += line.seq - self.next
                lines.append(line)
                self.next = line.seq + 1
                size += len(line.text)
                if len(lines) >= limit or size >= max_bytes:
                    return lines, lost
        return lines, lost

    def skip_to_last(self, lines: int) -> int:
        """Pass over all but the last `lines`; return how many were passed over."""
        passed = max(0, next_seq(self._folder) - lines - self.next)
        self.next += passed
        return passed

    def _segments_from_here(self) -> list[tuple[int, Path]]:
        segments = segments_of(self._folder)
        before = [index for index, (first, _) in enumerate(segments) if first <= self.next]
        return segments[before[-1] if before else 0 :]

    def _lines_of(self, first: int, path: Path) -> Iterator[Line]:
        offset = self._place[1] if self._place[0] == first else 0
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return
                offset += len(raw)
                self._place = (first, offset)
                yield _parsed(raw)


def segments_of(folder: Path) -> list[tuple[int, Path]]:
    """Return (first line number, path) of each segment, oldest first."""
    return sorted((int(path.stem.removeprefix("log-")), path) for path in folder.glob(_PATTERN))


def next_seq(folder: Path) -> int:
    """Return the number of the line that comes next."""
    segments = segments_of(folder)
    if not segments:
        return 0
    first, path = segments[-1]
    return first + path.read_bytes().count(b"\n")


def _parsed(raw: bytes) -> Line:
    seq, at, stream, text = raw[:-1].decode("utf-8", errors="replace").split(" ", 3)
    return Line(int(seq), int(at), stream, text)


def _shown(line: bytes) -> list[str]:
    visible = line.rstrip(b"\r").rpartition(b"\r")[2]
    pieces = range(0, max(len(visible), 1), MAX_LINE_BYTES)
    return [
        visible[start : start + MAX_LINE_BYTES].decode("utf-8", errors="replace")
        for start in pieces
    ]


def _lost_sentence(count: int) -> str:
    lines = "1 line" if count == 1 else f"{count} lines"
    return f"kai: {lines} of output lost here, because the disk for logs was full."
