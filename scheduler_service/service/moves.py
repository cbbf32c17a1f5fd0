"""How positions changed: told in the timelines of who waits, not kept over a restart."""

from __future__ import annotations

from collections import deque

from scheduler_service.service.overview import Overview
from scheduler_service.wire.pod_group import TimelineEntry

MOST_MOVES = 20


class Moves:
    """Who moved up or down in the queue, by group."""

    def __init__(self) -> None:
        self._moves: dict[str, deque[TimelineEntry]] = {}

    def of(self, key: str) -> tuple[TimelineEntry, ...]:
        """Return the moves of a group."""
        return tuple(self._moves.get(key, ()))

    def forget(self, key: str) -> None:
        """Drop those of a group that is gone."""
        self._moves.pop(key, None)

    def note(self, before: Overview, after: Overview, now: int) -> None:
        """Compare two plans."""
        for key, item in after.waiting.items():
            old = before.waiting.get(key)
            if old is None or old.position == item.position:
                continue
            count = abs(old.position - item.position)
            word = "request" if count == 1 else "requests"
            why = "left the queue" if item.position < old.position else "came in before it"
            text = f"Position {item.position}: {count} {word} {why}"
            self._moves.setdefault(key, deque(maxlen=MOST_MOVES)).append(
                TimelineEntry(at=now, text=text)
            )
