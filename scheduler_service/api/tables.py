"""The lists of a lead's page as CSV, one list a file: units in the heads, no bound = an empty field.

Rule: a text that a spreadsheet would take for a formula gets an apostrophe before it; names are other people's words.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Literal

from scheduler_service.wire.team import TeamView

Table = Literal["waiting", "people", "queues", "leases", "changes", "use"]
FORMULA = ("=", "+", "-", "@", "\t", "\r")
Row = tuple[object, ...]


def csv_text(view: TeamView, table: Table) -> str:
    """Return one list of the page as CSV."""
    head, rows = TABLES[table](view)
    to = io.StringIO()
    writer = csv.writer(to, lineterminator="\r\n")
    writer.writerow(head)
    writer.writerows([[_field(value) for value in row] for row in rows])
    return to.getvalue()


def _field(value: object) -> object:
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return "" if value is None else value


def _gpus(milli: int | None) -> float | None:
    return None if milli is None else milli / 1000


def _moment(at: int | None) -> str:
    if at is None:
        return ""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")


def _waiting(view: TeamView) -> tuple[Row, Iterable[Row]]:
    head = (
        "position",
        "who",
        "queue",
        "name",
        "asks_gpus",
        "reason",
        "since_utc",
        "starts_in",
        "late",
        "priority",
    )
    return head, (
        (
            r.position,
            r.who,
            r.queue,
            r.name,
            _gpus(r.asks),
            r.reason,
            _moment(r.since),
            r.eta_text,
            r.late,
            r.priority,
        )
        for r in view.waiting
    )


def _people(view: TeamView) -> tuple[Row, Iterable[Row]]:
    head = ("who", "queue", "holds_gpus", "waiting_requests", "since_utc", "idle_percent", "busy_percent",
            "today_gpu_hours", "cap_gpus")  # fmt: skip
    return head, (
        (r.who, r.queue, _gpus(r.holds), r.waits, _moment(r.since), r.idle_percent, r.busy_percent,
         _gpus(r.today_milli_hours), _gpus(r.cap))
        for r in view.people
    )  # fmt: skip


def _queues(view: TeamView) -> tuple[Row, Iterable[Row]]:
    head = ("queue", "parent", "allocated_gpus", "quota_gpus", "fair_share_gpus", "requested_gpus", "limit_gpus",
            "borrowed_gpus", "lent_to_it_gpus", "waiting_requests")  # fmt: skip
    return head, (
        (r.name, r.parent, _gpus(r.allocated), _gpus(r.quota), _gpus(r.fair_share), _gpus(r.requested), _gpus(r.limit),
         _gpus(r.borrowed), _gpus(r.lent), r.waiting)
        for r in view.queues
    )  # fmt: skip


def _leases(view: TeamView) -> tuple[Row, Iterable[Row]]:
    head = ("who", "queue", "name", "holds_gpus", "since_utc", "idle_minutes")
    return head, (
        (
            r.who,
            r.queue,
            r.name,
            _gpus(r.holds),
            _moment(r.since),
            r.idle_ms and r.idle_ms // 60_000,
        )
        for r in view.leases
    )


def _changes(view: TeamView) -> tuple[Row, Iterable[Row]]:
    head = (
        "id",
        "at_utc",
        "by",
        "queue",
        "what",
        "reason",
        "until_utc",
        "ended_utc",
        "ended_by",
        "ended_why",
    )
    return head, (
        (r.id, _moment(r.at), r.by, r.queue, r.text, r.reason, _moment(r.until), _moment(r.ended_at), r.ended_by,
         r.ended_why)
        for r in view.changes
    )  # fmt: skip


def _use(view: TeamView) -> tuple[Row, Iterable[Row]]:
    use = view.use
    head = ("at_utc", "allocated_gpus", "requested_gpus")
    return head, (
        (_moment(at), _gpus(held), _gpus(asked))
        for at, held, asked in zip(use.at, use.allocated, use.requested, strict=True)
    )


TABLES: Mapping[Table, Callable[[TeamView], tuple[Row, Iterable[Row]]]] = {
    "waiting": _waiting,
    "people": _people,
    "queues": _queues,
    "leases": _leases,
    "changes": _changes,
    "use": _use,
}
