"""Keeps the group records: in memory for reading, in SQLite before anybody hears of a change.

Rule: one writer (the service's thread). Listeners are told after the commit, with the record before and after.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from scheduler_service.store.database import writing
from scheduler_service.store.records import GroupRecord

Listener = Callable[[GroupRecord | None, GroupRecord | None], None]
"""Called with (before, after); None before = new, None after = forgotten."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(GroupRecord).decode


class Groups:
    """All groups, live and retained, by namespace/name."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._records: dict[str, GroupRecord] = {}
        self._by_incarnation: dict[str, tuple[str, int]] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._listeners: list[Listener] = []
        self._news: deque[tuple[GroupRecord | None, GroupRecord | None]] = deque()
        self._is_telling = False
        self.unreadable = 0
        self.unreadable_live: set[str] = set()
        """Keys of groups that were not over and could not be read."""
        self._load()
        self._order = max((record.order for record in self._records.values()), default=0)

    def _load(self) -> None:
        rows = self._connection.execute("SELECT key, over, body FROM groups").fetchall()
        for key, over, body in rows:
            try:
                record = _decode(body)
            except msgspec.ValidationError:
                self.unreadable += 1
                if not over:
                    self.unreadable_live.add(key)
                continue
            self._records[record.key] = record
            self._index(None, record)
        keys = self._connection.execute("SELECT owner, key, group_key FROM idempotency")
        self._keys = {(owner, key): group for owner, key, group in keys}

    def subscribe(self, listener: Listener) -> None:
        """Tell `listener` of every change from now on."""
        self._listeners.append(listener)

    def __iter__(self) -> Iterator[GroupRecord]:
        return iter(self._records.values())

    def __len__(self) -> int:
        return len(self._records)

    def find(self, key: str) -> GroupRecord | None:
        """Return the group of that key, if there is one."""
        return self._records.get(key)

    def find_incarnation(self, incarnation: str) -> tuple[GroupRecord, int] | None:
        """Return the group and rank whose present incarnation this is."""
        place = self._by_incarnation.get(incarnation)
        return None if place is None else (self._records[place[0]], place[1])

    def find_repeat(self, owner: str, idempotency_key: str) -> GroupRecord | None:
        """Return the group that this owner made with this key before, if it is still kept."""
        key = self._keys.get((owner, idempotency_key))
        return None if key is None else self._records.get(key)

    def next_order(self) -> int:
        """Return a number larger than any given before."""
        self._order += 1
        return self._order

    def put(self, *records: GroupRecord, idempotency: tuple[str, str] | None = None) -> None:
        """Keep the records, all or none, and then tell the listeners."""
        with writing(self._connection, self._path):
            for record in records:
                self._connection.execute(
                    "INSERT INTO groups VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
                    " owner = excluded.owner, over = excluded.over, body = excluded.body",
                    (record.key, record.owner, record.is_over, _encode(record)),
                )
            if idempotency is not None:
                self._connection.execute(
                    "INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?)",
                    (*idempotency, records[0].key, records[0].created_at),
                )
        if idempotency is not None:
            self._keys[idempotency] = records[0].key
        for record in records:
            before = self._records.get(record.key)
            self._records[record.key] = record
            self._index(before, record)
            self._news.append((before, record))
        self._tell()

    def forget(self, keys: Iterable[str]) -> None:
        """Drop groups whose retention is over, with their idempotency keys."""
        gone = [self._records[key] for key in keys if key in self._records]
        with writing(self._connection, self._path):
            for record in gone:
                self._connection.execute("DELETE FROM groups WHERE key = ?", (record.key,))
                self._connection.execute(
                    "DELETE FROM idempotency WHERE group_key = ?", (record.key,)
                )
        names = {record.key for record in gone}
        self._keys = {pair: key for pair, key in self._keys.items() if key not in names}
        for record in gone:
            del self._records[record.key]
            self._index(record, None)
            self._news.append((record, None))
        self._tell()

    def _tell(self) -> None:
        """Tell every listener the news in order, also when a listener itself changes a record meanwhile."""
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._news:
                before, after = self._news.popleft()
                for listener in self._listeners:
                    listener(before, after)
        finally:
            self._is_telling = False

    def _index(self, before: GroupRecord | None, after: GroupRecord | None) -> None:
        for pod in before.pods if before else ():
            if pod.incarnation is not None:
                self._by_incarnation.pop(pod.incarnation, None)
        for pod in after.pods if after else ():
            if after is not None and pod.incarnation is not None:
                self._by_incarnation[pod.incarnation] = (after.key, pod.rank)
