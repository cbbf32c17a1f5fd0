"""Alike pods of one leaf that start together, where nodes are booked already: one entry for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group, Leaf
from scheduler_service.ledger.nodes import NO_NODE

if TYPE_CHECKING:
    from scheduler_service.ledger.store import Ledger

UNPLACED: tuple[int, int, tuple[str, ...]] = (states.PENDING, NO_NODE, ())
"""What a pod was that waited."""


class Run(NamedTuple):
    """So many of the pods on one node: bound if `now`, else promised."""

    node: int
    size: int
    now: bool

    @property
    def state(self) -> int:
        """What the pods are then."""
        return states.BINDING if self.now else states.PIPELINED


class Batch(NamedTuple):
    """What is taken back at once."""

    group: Group
    leaf: Leaf
    pods: Sequence[int]
    runs: Sequence[Run]


class StartedMany:
    """Takes starts back: all wait again. Nodes and sums of queues are not its business."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __setitem__(self, batch: Batch, old: None) -> None:
        """Put the pods among the pending ones again."""
        ledger, pods = self._ledger, self._ledger.pods
        for pod in batch.pods:
            pods.state[pod], pods.node[pod], pods.charge[pod] = states.PENDING, NO_NODE, 0
            del ledger.before[pod]
        _count(ledger, batch, -1)


def start_many(ledger: Ledger, group: Group, pods: Sequence[int], runs: Sequence[Run]) -> None:
    """Bind or promise pending pods of one plain shape and one leaf, none of them remembered."""
    table, before = ledger.pods, ledger.before
    leaf, shape = group.leaves[table.models[pods[0]].sub_group], ledger.shape_of(pods[0])
    batch = Batch(group, leaf, pods, runs)
    ledger.journal.entries.append((StartedMany(ledger), batch, None))
    places = iter(pods)
    for run in runs:
        state = run.state
        for _, pod in zip(range(run.size), places, strict=False):
            table.state[pod], table.node[pod] = state, run.node
            table.charge[pod] = shape.charge_milli
            before[pod] = UNPLACED
    _count(ledger, batch, 1)
    count = len(pods)
    held = (shape.milli_cpu * count, shape.memory_bytes * count, shape.charge_milli * count)
    cpu, memory, gpu, mib = (-amount * count for amount in shape.asked)
    if group.queue >= 0:
        ledger.queues.shift(group.queue, held, (cpu, memory, gpu, mib), non_preemptible=False)


def _count(ledger: Ledger, batch: Batch, sign: int) -> None:
    counts, count = batch.leaf.counts, len(batch.pods) * sign
    counts[states.PENDING] -= count
    ledger.open_groups[batch.group.key] -= count
    for run in batch.runs:
        counts[run.state] += run.size * sign
