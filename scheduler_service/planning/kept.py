"""Room that is kept for a group which waits for more: taken out of what others may plan with.

Of each node only that much is kept as will not be there by itself at the moment the group starts:
whoever fits beside it, or ends before that moment, is not in its way. Limits and quotas on the
group's way to the top are kept likewise. Booked in the ledger's columns, undone with the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.nodes import NodeTable
from scheduler_service.ledger.queues import Amounts
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.reasons import KeptForOther

Later = tuple[int, int, int, int]
"""GPUs, CPU, memory and slots of a node, as they will be once leaving pods have left."""


def later(nodes: NodeTable, row: int) -> Later:
    """Return what a node has left in the end."""
    return nodes.all_gpu[row], nodes.all_cpu[row], nodes.all_memory[row], nodes.all_slots[row]


def _put(nodes: NodeTable, row: int, amounts: Later) -> None:
    nodes.note(row)
    nodes.all_gpu[row], nodes.all_cpu[row], nodes.all_memory[row], nodes.all_slots[row] = amounts


@dataclass(slots=True)
class Kept:
    """What is kept for one group, until when others may use it (None: nobody knows)."""

    ledger: Ledger
    group: str
    until_ms: int | None
    nodes: dict[int, Later]
    limits: dict[int, Amounts] = field(default_factory=dict)
    quotas: dict[int, Amounts] = field(default_factory=dict)
    closed: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """By node: shared GPUs that get free by themselves until then, if nobody else joins."""
    _is_lifted: bool = False
    _low: dict[int, Later] = field(default_factory=dict)
    _filled: dict[tuple[int, str], int] = field(default_factory=dict)
    _held: tuple[dict[int, Amounts], dict[int, Amounts]] = field(default_factory=lambda: ({}, {}))

    def book(self) -> None:
        """Take it out of the book."""
        table = self.ledger.nodes
        for row, (gpus, cpu, memory, slots) in self.nodes.items():
            now = later(table, row)
            _put(table, row, (now[0] - gpus, now[1] - cpu, now[2] - memory, now[3] - slots))
        self._close()

    def lift(self) -> None:
        """Let the next one use it; `restore` has to follow."""
        table = self.ledger.nodes
        self._is_lifted = True
        self._held = (self._bounds(self.limits, 0), self._bounds(self.quotas, 1))
        self._open()
        for row, (gpus, cpu, memory, slots) in self.nodes.items():
            now = self._low[row] = later(table, row)
            _put(table, row, (now[0] + gpus, now[1] + cpu, now[2] + memory, now[3] + slots))

    def restore(self) -> None:
        """Keep what the one that was let in has left of it: that comes back in time."""
        table = self.ledger.nodes
        self._is_lifted = False
        for row, low in self._low.items():
            now = later(table, row)
            new = _least(now, low)
            self.nodes[row] = (now[0] - new[0], now[1] - new[1], now[2] - new[2], now[3] - new[3])
            _put(table, row, new)
        for kept, most, number in zip((self.limits, self.quotas), self._held, (0, 1), strict=True):
            held = self._column(number)
            for row, bound in most.items():
                own = held[row]
                cpu, memory, gpu = (max(0, bound[i] - own[i]) for i in range(3))
                kept[row] = (cpu, memory, gpu)
        self._close()

    def lets_pass(self, run_ms: int | None, now_ms: int) -> bool:
        """Say whether work of this run time is over before the group starts."""
        return run_ms is not None and self.until_ms is not None and now_ms + run_ms <= self.until_ms

    def refuses(
        self, group: Group, amounts: Amounts, now_ms: int, *, is_firm: bool
    ) -> KeptForOther | None:
        """Return why a group may not use what limits (and quotas, if `is_firm`) leave."""
        if self._is_lifted or group.key == self.group:
            return None
        queues = self.ledger.queues
        path = queues.paths[group.queue]
        if _exceeds(path, queues.limit, queues.allocated, self.limits, amounts) or (
            is_firm and _exceeds(path, queues.quota, queues.non_preemptible, self.quotas, amounts)
        ):
            return self.reason(now_ms)
        return None

    def reason(self, now_ms: int) -> KeptForOther:
        """Return what others are told."""
        left = None if self.until_ms is None else self.until_ms - now_ms
        return KeptForOther(self.group, left)

    def gpus_for(self, group: str) -> int:
        """Return the free GPUs that are kept for this group."""
        return sum(kept[0] for kept in self.nodes.values()) if group == self.group else 0

    def _close(self) -> None:
        """Fill the shared GPUs that are to get free with a promise to nobody."""
        nodes = self.ledger.nodes
        for row, devices in self.closed.items():
            for device in devices:
                on_it = nodes.shared[row][device]
                rest = nodes.size_of(row, device) - on_it.staying - on_it.promised
                self._filled[row, device] = max(0, rest)
                nodes.promise_nobody(row, device, max(0, rest))

    def _open(self) -> None:
        for (row, device), rest in self._filled.items():
            self.ledger.nodes.promise_nobody(row, device, -rest)

    def _column(self, number: int) -> list[Amounts]:
        queues = self.ledger.queues
        return queues.non_preemptible if number else queues.allocated

    def _bounds(self, kept: Mapping[int, Amounts], number: int) -> dict[int, Amounts]:
        """Return what queues hold and keep together."""
        held = self._column(number)
        return {
            row: (more[0] + held[row][0], more[1] + held[row][1], more[2] + held[row][2])
            for row, more in kept.items()
        }


def _least(one: Later, two: Later) -> Later:
    return min(one[0], two[0]), min(one[1], two[1]), min(one[2], two[2]), min(one[3], two[3])


def _exceeds(
    path: Iterable[int],
    bounds: Sequence[Sequence[int | None]],
    held: Sequence[Amounts],
    kept: Mapping[int, Amounts],
    asked: Amounts,
) -> bool:
    """Say whether some bound would be exceeded beside what is kept of it."""
    return any(
        bound is not None and more and held[row][index] + kept[row][index] + more > bound
        for row in path
        if row in kept
        for index, (bound, more) in enumerate(zip(bounds[row], asked, strict=True))
    )
