"""What a queue's lead changed for a while: dated, with a reason, on disk before it is in force. Never the queue file.

Rule: a line is added, and later gets its end; it is never changed otherwise. What an overlay means is not known here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from scheduler_service.store.database import writing

OverlayKind = Literal["priority", "cap", "release", "ask", "lend", "drain"]
AT_ONCE: frozenset[OverlayKind] = frozenset({"release", "ask"})
"""Done in a moment: kept to be looked up, never in force."""


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """One change by a lead. Moments in ms; `until` None = until it is undone.

    `group` (a key) and `person` are whom it is about; `to` and `milli_gpu` what is lent to whom, or the cap.
    """

    id: int = 0
    kind: OverlayKind
    queue: str
    by: str
    at: int
    reason: str
    until: int | None = None
    group: str = ""
    person: str = ""
    to: str = ""
    milli_gpu: int = 0
    priority: int = 0
    priority_before: int = 0
    order: int = 0
    order_before: int = 0
    text: str = ""
    """What was done, as a sentence without the reason."""
    ended_at: int | None = None
    ended_by: str = ""
    """Who undid it; "" = its time was over, or it was done in a moment."""
    ended_why: str = ""

    @property
    def is_in_force(self) -> bool:
        """Whether it still has an effect."""
        return self.ended_at is None


_decode = msgspec.json.Decoder(Overlay).decode
_encode = msgspec.json.Encoder().encode


class Overlays:
    """The overlays, oldest first: all in memory that were not forgotten."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        rows = connection.execute("SELECT body FROM overlays ORDER BY id").fetchall()
        self._kept = {overlay.id: overlay for (body,) in rows for overlay in _readable(body)}
        self._last = max(self._kept, default=0)

    def __iter__(self) -> Iterator[Overlay]:
        return iter(tuple(self._kept.values()))

    def in_force(self) -> tuple[Overlay, ...]:
        """Return those that have an effect now."""
        return tuple(overlay for overlay in self._kept.values() if overlay.is_in_force)

    def find(self, number: int) -> Overlay | None:
        """Return one."""
        return self._kept.get(number)

    def add(self, overlay: Overlay) -> Overlay:
        """Keep a new one; return it with its number."""
        numbered = msgspec.structs.replace(overlay, id=self._last + 1)
        self._write(numbered)
        self._last = numbered.id
        return numbered

    def end(self, overlay: Overlay, *, at: int, by: str = "", why: str = "") -> Overlay:
        """Give it its end; return it as it is then."""
        ended = msgspec.structs.replace(overlay, ended_at=at, ended_by=by, ended_why=why)
        self._write(ended)
        return ended

    def forget_before(self, at: int) -> None:
        """Drop what ended before `at`."""
        old = [o.id for o in self._kept.values() if o.ended_at is not None and o.ended_at < at]
        if not old:
            return
        with writing(self._connection, self._path):
            self._connection.executemany("DELETE FROM overlays WHERE id = ?", [(n,) for n in old])
        for number in old:
            del self._kept[number]

    def _write(self, overlay: Overlay) -> None:
        row = (overlay.id, not overlay.is_in_force, _encode(overlay))
        with writing(self._connection, self._path):
            self._connection.execute("INSERT OR REPLACE INTO overlays VALUES (?, ?, ?)", row)
        self._kept[overlay.id] = overlay


def _readable(body: bytes) -> Iterator[Overlay]:
    """Yield the overlay; one that can not be read is left out, so that the service starts."""
    try:
        yield _decode(body)
    except msgspec.DecodeError:
        return
