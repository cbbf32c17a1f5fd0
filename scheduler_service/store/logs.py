"""Log lines as the runners sent them: in arrival order, resumable by a cursor, bounded in number and size.

Rule: a log is never a reason for anything else to fail. What can not be kept is counted and told.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from pathlib import Path

from scheduler_service.store.database import open_database
from scheduler_service.wire.runner import LogChunk, LogLine, LogPage

MIGRATIONS = (
    """
    CREATE TABLE lines (id INTEGER PRIMARY KEY AUTOINCREMENT, group_key TEXT NOT NULL, incarnation TEXT NOT NULL,
                        seq INTEGER NOT NULL, at INTEGER NOT NULL, rank INTEGER NOT NULL, stream TEXT NOT NULL,
                        text TEXT NOT NULL, UNIQUE (incarnation, seq));
    CREATE INDEX lines_of_group ON lines (group_key, id);
    CREATE TABLE dropped (group_key TEXT PRIMARY KEY, lines INTEGER NOT NULL);
    """,
)
PAGE_LINES = 5_000
TRIM_PART = 10
"""When a group has too many lines, a tenth of its limit goes at once."""
COLUMNS = "id, seq, at, rank, stream, text"


class LogStore:
    """Lines of all groups in one file of their own: a damaged or full log costs no request."""

    def __init__(self, path: Path, *, lines_per_group: int) -> None:
        opened = open_database(path, MIGRATIONS)
        self._connection = opened.connection
        self._path = path
        self._lines_per_group = lines_per_group
        self._pulse = asyncio.Event()
        counts = self._connection.execute(
            "SELECT group_key, count(*) FROM lines GROUP BY group_key"
        )
        self._counts: Counter[str] = Counter(dict(counts.fetchall()))
        dropped = self._connection.execute("SELECT group_key, lines FROM dropped")
        self._dropped: Counter[str] = Counter(dict(dropped.fetchall()))
        self.note = opened.note
        self.fault: str | None = None
        """Why lines are being dropped now, if they are."""

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def append(self, group_key: str, incarnation: str, chunk: LogChunk) -> None:
        """Keep the lines that are new; what was stored before is ignored by its `seq`."""
        lost = chunk.dropped
        try:
            self._counts[group_key] += self._insert(group_key, incarnation, chunk)
            self.fault = None
        except sqlite3.Error as error:
            lost += len(chunk.lines)
            self.fault = f"Log lines are being dropped: {error}. Free space in {self._path.parent}."
        if lost:
            self._drop(group_key, lost)
        if self._counts[group_key] > self._lines_per_group:
            self._trim(group_key)
        self.wake()

    def _insert(self, group_key: str, incarnation: str, chunk: LogChunk) -> int:
        before = self._connection.total_changes
        rows = [
            (group_key, incarnation, line.seq, line.at, line.rank, line.stream, line.text)
            for line in chunk.lines
        ]
        with self._connection:
            self._connection.execute("BEGIN")
            self._connection.executemany(
                "INSERT OR IGNORE INTO lines (group_key, incarnation, seq, at, rank, stream, text)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
        return self._connection.total_changes - before

    def _drop(self, group_key: str, lines: int) -> None:
        self._dropped[group_key] += lines
        try:
            self._connection.execute(
                "INSERT OR REPLACE INTO dropped VALUES (?, ?)",
                (group_key, self._dropped[group_key]),
            )
        except sqlite3.Error:
            return  # counted in memory; the disk that lost the lines may not take the count either

    def _trim(self, group_key: str) -> None:
        surplus = self._counts[group_key] - self._lines_per_group
        surplus += self._lines_per_group // TRIM_PART
        try:
            self._connection.execute(
                "DELETE FROM lines WHERE id IN (SELECT id FROM lines WHERE group_key = ? ORDER BY id LIMIT ?)",
                (group_key, surplus),
            )
        except sqlite3.Error as error:
            self.fault = f"Old log lines can not be removed: {error}."
            return
        self._counts[group_key] -= surplus
        self._drop(group_key, surplus)

    def forget(self, group_keys: list[str]) -> None:
        """Drop the lines of groups that are forgotten."""
        with self._connection:
            self._connection.execute("BEGIN")
            for key in group_keys:
                self._connection.execute("DELETE FROM lines WHERE group_key = ?", (key,))
                self._connection.execute("DELETE FROM dropped WHERE group_key = ?", (key,))
                self._counts.pop(key, None)
                self._dropped.pop(key, None)

    def size_bytes(self) -> int:
        """Return what the lines take on disk."""
        pages, free, size = (
            int(self._connection.execute(f"PRAGMA {what}").fetchone()[0])
            for what in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def page(
        self, group_key: str, *, rank: int | None, after: int, tail: int | None, ended: bool
    ) -> LogPage:
        """Return lines after the cursor (or the last `tail`), oldest first."""
        where, values = "group_key = ? AND id > ?", [group_key, after]
        if rank is not None:
            where, values = f"{where} AND rank = ?", [*values, rank]
        order, most = ("DESC", min(tail, PAGE_LINES)) if tail is not None else ("ASC", PAGE_LINES)
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM lines WHERE {where} ORDER BY id {order} LIMIT ?",  # noqa: S608 - parts are constants
            (*values, most),
        ).fetchall()
        rows.sort()
        lines = tuple(LogLine(seq=s, at=a, rank=r, stream=st, text=t) for _, s, a, r, st, t in rows)
        return LogPage(
            lines=lines,
            next=rows[-1][0] if rows else after,
            dropped=self._dropped[group_key],
            ended=ended and (tail is not None or len(lines) < most),
            facts={"kept": self._counts[group_key]},
        )

    async def wait_for_more(self, timeout_s: float) -> bool:
        """Wait until a line came (of whatever group) or `wake` was called; False after `timeout_s`."""
        pulse = self._pulse
        try:
            await asyncio.wait_for(pulse.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def wake(self) -> None:
        """End all waits: lines came, or a group ended."""
        self._pulse.set()
        self._pulse = asyncio.Event()
