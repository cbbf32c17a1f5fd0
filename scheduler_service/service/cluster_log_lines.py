"""The log lines of a group as they arrived: numbered, bounded, each taken once. Pure.

Rule: Kubernetes numbers no lines. What comes again (it is asked by whole seconds) is known by its moment, and by how
many lines with that moment were there before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from scheduler_service.wire.runner import LogLine, LogPage

MOST_LINES = 5_000
LONGEST_LINE = 16_384
NS = 10**9


@dataclass(frozen=True, slots=True)
class Mark:
    """Up to where a pod's log was taken: the last moment, and how many lines bear it."""

    at_ns: int = -1
    count: int = 0


@dataclass(slots=True)
class GroupLog:
    """The lines of one group. A cursor is the number of lines that arrived before."""

    lines: list[LogLine] = field(default_factory=list)
    first: int = 0
    marks: dict[str, Mark] = field(default_factory=dict)
    _counts: dict[int, int] = field(default_factory=dict)

    def since(self, uid: str) -> str | None:
        """Return from when on a pod's lines are wanted, as the API writes a moment; None = from the start."""
        mark = self.marks.get(uid)
        if mark is None:
            return None
        return f"{datetime.fromtimestamp(mark.at_ns // NS).astimezone().isoformat()}"

    def take(self, texts: Mapping[tuple[int, str], str]) -> None:
        """Take what the API said of pods, by rank and UID: new lines in the order of their moments."""
        found: list[tuple[int, int, str]] = []
        for (rank, uid), text in texts.items():
            found += ((at, rank, line) for at, line in self._new(uid, text))
        for at, rank, line in sorted(found, key=lambda item: item[0]):
            number = self._counts.get(rank, 0)
            self._counts[rank] = number + 1
            self.lines.append(
                LogLine(
                    seq=number,
                    at=at // 1_000_000,
                    rank=rank,
                    stream="stdout",
                    text=line[:LONGEST_LINE],
                )
            )
        surplus = len(self.lines) - MOST_LINES
        if surplus > 0:
            del self.lines[:surplus]
            self.first += surplus

    def _new(self, uid: str, text: str) -> Iterator[tuple[int, str]]:
        mark = self.marks.get(uid, Mark())
        again = mark.count
        for at, line in _lines(text):
            if at < mark.at_ns:
                continue
            if at == mark.at_ns and again > 0:
                again -= 1
                continue
            known = self.marks.get(uid, Mark())
            count = known.count + 1 if known.at_ns == at else 1
            self.marks[uid] = Mark(at, count)
            yield at, line

    def page(self, *, rank: int | None, after: int, tail: int | None, ended: bool) -> LogPage:
        """Return the lines after a cursor, of one rank or all, or the last `tail` of them."""
        start = max(0, after - self.first)
        kept = self.lines[start:]
        if rank is not None:
            kept = [line for line in kept if line.rank == rank]
        if tail is not None:
            kept = kept[-tail:]
        return LogPage(
            lines=tuple(kept),
            next=self.first + len(self.lines),
            dropped=max(0, self.first - after) if tail is None else 0,
            ended=ended,
        )


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield moment and text of each line; one without a moment belongs to the line before."""
    last = 0
    for line in _split(text):
        stamp, _, rest = line.partition(" ")
        at = moment_ns(stamp)
        if at is None:
            yield last, line
        else:
            last = at
            yield at, rest


def _split(text: str) -> Iterable[str]:
    parts = text.split("\n")
    return parts[:-1] if parts and not parts[-1] else parts


def moment_ns(text: str) -> int | None:
    """Return ns since the epoch of an RFC 3339 text, None where it is none."""
    head, _, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :] if digits else ""
    try:
        moment = datetime.fromisoformat(f"{head}{zone}".replace("Z", "+00:00"))
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return round(moment.timestamp()) * NS + int(digits.ljust(9, "0")[:9] or 0)
