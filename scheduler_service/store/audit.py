"""Who did what, kept for whoever answers for the machine. Lines are added, never changed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler_service.store.database import writing


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One action of one person."""

    at: int
    user: str
    action: str
    object: str
    facts: Mapping[str, str | int | None]


class Audit:
    """The audit table."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def note(self, line: AuditLine) -> None:
        """Keep a line."""
        with writing(self._connection, self._path):
            self._connection.execute(
                "INSERT INTO audit (at, user, action, object, facts) VALUES (?, ?, ?, ?, ?)",
                (line.at, line.user, line.action, line.object, json.dumps(dict(line.facts))),
            )

    def lines(self, *, last: int) -> list[AuditLine]:
        """Return the last lines, newest first."""
        rows = self._connection.execute(
            "SELECT at, user, action, object, facts FROM audit ORDER BY id DESC LIMIT ?", (last,)
        )
        return [
            AuditLine(at, user, action, thing, json.loads(facts))
            for at, user, action, thing, facts in rows
        ]

    def forget_before(self, at: int) -> None:
        """Drop lines older than `at`."""
        with writing(self._connection, self._path):
            self._connection.execute("DELETE FROM audit WHERE at < ?", (at,))
