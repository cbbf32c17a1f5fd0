"""What the last cycles decided, one sentence per decision; kept over a restart."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

from scheduler_service.model import quantities, reasons
from scheduler_service.model.gpu import GpuShare
from scheduler_service.model.plan import Bind, Evict, Operation, Pipeline, Plan, Statement
from scheduler_service.model.reasons import Reason
from scheduler_service.store.database import writing
from scheduler_service.wire.cluster import CycleView

KEPT = 500
MOST_LINES = 200


class History:
    """The last cycles that decided something or saw another number of waiting groups."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        rows = connection.execute("SELECT body FROM cycles ORDER BY number").fetchall()
        decode = msgspec.json.Decoder(CycleView).decode
        self._cycles: deque[CycleView] = deque((decode(body) for (body,) in rows), maxlen=KEPT)

    @property
    def last_number(self) -> int:
        """The number of the newest cycle that is kept."""
        return self._cycles[-1].number if self._cycles else 0

    def note(self, cycle: CycleView) -> bool:
        """Keep a cycle and say so, unless it decided nothing and nobody came or went."""
        last = self._cycles[-1] if self._cycles else None
        if not cycle.lines and last is not None and last.waiting == cycle.waiting:
            return False
        self._cycles.append(cycle)
        with writing(self._connection, self._path):
            self._connection.execute(
                "INSERT OR REPLACE INTO cycles VALUES (?, ?)",
                (cycle.number, msgspec.json.encode(cycle)),
            )
            self._connection.execute("DELETE FROM cycles WHERE number <= ?", (cycle.number - KEPT,))
        return True

    def last(self, count: int) -> tuple[CycleView, ...]:
        """Return the last `count` cycles, newest first."""
        return tuple(reversed(self._cycles))[: max(0, count)]


def cycle_view(
    plan: Plan,
    *,
    number: int,
    duration_us: int,
    accepted: tuple[Statement, ...],
    refused: tuple[tuple[Statement, Reason], ...],
) -> CycleView:
    """Return a cycle in words."""
    done = [operation for statement in accepted for operation in statement.operations]
    lines = [line for operation in done for line in _line(operation)]
    lines += [f"{s.group} was not started: {reasons.sentence(reason)}" for s, reason in refused]
    return CycleView(
        number=number,
        at=plan.now_ms,
        duration_us=duration_us,
        bound=sum(isinstance(operation, Bind) for operation in done),
        pipelined=sum(isinstance(operation, Pipeline) for operation in done),
        evicted=sum(isinstance(operation, Evict) for operation in done),
        waiting=len(plan.waiting),
        lines=tuple(lines[:MOST_LINES]),
    )


def _line(operation: Operation) -> Iterator[str]:
    if isinstance(operation, Evict):
        yield f"{operation.pod} leaves {operation.node}. {reasons.sentence(operation.reason)}"
    elif isinstance(operation, Pipeline):
        yield f"{operation.pod} will start on {operation.node} when its place is free."
    else:
        yield f"{operation.pod} starts on {operation.node}{_held(operation.devices)}."


def _held(shares: tuple[GpuShare, ...]) -> str:
    if not shares:
        return ""
    return f" with {quantities.gpu_words(sum(share.milli for share in shares))}"
