"""Since when these books are kept, whether books before them were lost, and which work was ended for want of them."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from scheduler_service.store.database import writing


@dataclass(frozen=True, slots=True)
class EndedUnknown:
    """One start of a pod that ran, that no book told of, and that was ended therefore. `pod` is its runner's word."""

    incarnation: str
    at: int
    pod: str
    why: str


class Books:
    """The state file as a whole. `lost`, at its first opening: there had been another one before it."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, *, now: int, lost: bool, note: str
    ) -> None:
        self._connection = connection
        self._path = path
        row = connection.execute("SELECT began_at, lost, note FROM books").fetchone()
        if row is None:
            row = (now, lost, note)
            with writing(connection, path):
                connection.execute("INSERT INTO books VALUES (?, ?, ?)", row)
        self.began_at = int(row[0])
        self.is_lost = bool(row[1])
        """Whether books before these were lost; what they knew, these do not."""
        self.note = str(row[2])

    def note_ended(self, ended: EndedUnknown) -> None:
        """Keep that work was ended; a repeat changes nothing."""
        with writing(self._connection, self._path):
            self._connection.execute(
                "INSERT OR IGNORE INTO ended_unknown VALUES (?, ?, ?, ?)",
                (ended.incarnation, ended.at, ended.pod, ended.why),
            )

    def forget_before(self, at: int) -> None:
        """Drop what was ended before `at`."""
        with writing(self._connection, self._path):
            self._connection.execute("DELETE FROM ended_unknown WHERE at < ?", (at,))

    def ended_after(self, at: int) -> list[EndedUnknown]:
        """Return what was ended since `at`, oldest first."""
        rows = self._connection.execute(
            "SELECT incarnation, at, pod, why FROM ended_unknown WHERE at > ? ORDER BY at, pod",
            (at,),
        )
        return [EndedUnknown(*row) for row in rows]
