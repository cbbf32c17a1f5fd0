"""How much was in use in the last day, a sample a minute: what the dashboard's lines are drawn from."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

from scheduler_service.store.database import writing

KEPT_MS = 25 * 3_600_000


class QueueUse(msgspec.Struct, frozen=True, array_like=True):
    """One queue at one moment: milli-GPU held, held and asked for, and idle; how many groups wait."""

    allocated: int = 0
    requested: int = 0
    waiting: int = 0
    idle: int = 0


class Sample(msgspec.Struct, frozen=True):
    """All leaf queues at one moment. `capacity` in milli-GPU."""

    at: int
    capacity: int
    queues: dict[str, QueueUse]


_decode = msgspec.json.Decoder(Sample).decode
_encode = msgspec.json.Encoder().encode


class UseLately:
    """The samples, oldest first."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._samples: list[Sample] = []
        for (body,) in connection.execute("SELECT body FROM use_lately ORDER BY at").fetchall():
            try:
                self._samples.append(_decode(body))
            except msgspec.DecodeError:
                continue

    @property
    def samples(self) -> tuple[Sample, ...]:
        """What is known of the last day."""
        return tuple(self._samples)

    def note(self, sample: Sample) -> None:
        """Keep a sample, and forget those of more than a day ago."""
        oldest = sample.at - KEPT_MS
        with writing(self._connection, self._path):
            self._connection.execute(
                "INSERT OR REPLACE INTO use_lately VALUES (?, ?)", (sample.at, _encode(sample))
            )
            self._connection.execute("DELETE FROM use_lately WHERE at < ?", (oldest,))
        self._samples = [old for old in self._samples if oldest <= old.at < sample.at]
        self._samples.append(sample)
