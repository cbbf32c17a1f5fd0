"""Revisions: what changed since when, for streams that resume. Bounded: an older question gets a snapshot.

Rule: no subscriber has a queue here. Each remembers one number, so a slow reader costs nothing and gets several
changes as one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from scheduler_service.wire.events import Notice

WINDOW = 4_000
NOTICES = 500
QUEUES = "queues"
NODES = "nodes"


@dataclass(frozen=True, slots=True)
class Addressed:
    """A notice, with whom it is for."""

    rev: int
    group_key: str
    notice: Notice


@dataclass(frozen=True, slots=True)
class Since:
    """What changed after a revision: keys of groups, and the other parts by name."""

    groups: tuple[str, ...]
    parts: frozenset[str]
    notices: tuple[Addressed, ...]


class Changes:
    """The revision now, and a window of what each revision changed."""

    def __init__(self, first: int) -> None:
        self.rev = first
        self._first = first
        self._log: deque[tuple[int, str | None, str]] = deque(maxlen=WINDOW)
        self._notices: deque[Addressed] = deque(maxlen=NOTICES)
        self._pulse = asyncio.Event()

    def group(self, key: str) -> int:
        """Note that a group's view changed, and return the revision."""
        return self._note(key, "")

    def part(self, name: str) -> int:
        """Note that another part (queues, nodes) changed, and return the revision."""
        return self._note(None, name)

    def notice(self, group_key: str, notice: Notice) -> None:
        """Note something to be told once."""
        self._notices.append(Addressed(self._note(None, ""), group_key, notice))

    def _note(self, key: str | None, part: str) -> int:
        self.rev += 1
        self._log.append((self.rev, key, part))
        self.wake()
        return self.rev

    def wake(self) -> None:
        """End all waits."""
        self._pulse.set()
        self._pulse = asyncio.Event()

    def since(self, rev: int) -> Since | None:
        """Return what changed after `rev`; None if that is not known any more (or was never ours)."""
        oldest = self._log[0][0] - 1 if self._log else self.rev
        if not oldest <= rev <= self.rev:
            return None
        newer = [entry for entry in self._log if entry[0] > rev]
        return Since(
            groups=tuple(dict.fromkeys(key for _, key, _ in newer if key is not None)),
            parts=frozenset(part for _, _, part in newer if part),
            notices=tuple(item for item in self._notices if item.rev > rev),
        )

    async def wait_after(self, rev: int, timeout_s: float) -> bool:
        """Wait until something is newer than `rev`; False after `timeout_s`."""
        pulse = self._pulse
        if self.rev > rev:
            return True
        try:
            await asyncio.wait_for(pulse.wait(), timeout_s)
        except TimeoutError:
            return False
        return True
