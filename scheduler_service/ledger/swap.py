"""Many pods leave at once; or many places change hands at once, from pod to pod.

For pods of one queue that are their whole group, run, may be preempted and have one plain shape.
Where those that get their places have it too, no node changes at all.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scheduler_service.ledger import states
from scheduler_service.ledger.nodes import NO_NODE

if TYPE_CHECKING:
    from scheduler_service.ledger.store import Ledger

Pairs = tuple[list[int], list[int]]
"""The pods that leave, and those that get their places, in the same order."""
RUNNING, RELEASING = states.RUNNING, states.RELEASING


class Swapped:
    """Takes swaps back: everybody is where they were before. Sums of queues are not its business."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __setitem__(self, pairs: Pairs, old: tuple[int, int]) -> None:
        """Put back the state of those that left, and what they were charged."""
        ledger, pods = self._ledger, self._ledger.pods
        state, charge = old
        for pod in pairs[0]:
            pods.state[pod], pods.charge[pod] = state, charge
            _recount(ledger, pod, states.RELEASING, state)
            del ledger.before[pod]
        for pod in pairs[1]:
            pods.state[pod], pods.node[pod], pods.charge[pod] = states.PENDING, NO_NODE, 0
            _recount(ledger, pod, states.PIPELINED, states.PENDING)
            ledger.open_groups[pods.models[pod].group] += 1
            del ledger.before[pod]


class Released:
    """Takes releases back: all run again. Nodes and sums of queues are not its business."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __setitem__(self, leaving: list[int], charge: int) -> None:
        """Put back that they run, and what they were charged."""
        before, pods = self._ledger.before, self._ledger.pods
        state, charges, leaf_of = pods.state, pods.charge, pods.leaf
        for pod in leaving:
            state[pod], charges[pod] = RUNNING, charge
            leaf = leaf_of[pod]
            if leaf is not None:
                counts = leaf.counts
                counts[RUNNING], counts[RELEASING] = 1, 0
            del before[pod]


def release(ledger: Ledger, leaving: list[int]) -> None:
    """Let running pods leave, as a committed statement. Not empty."""
    pods, before = ledger.pods, ledger.before
    shape, charge = ledger.shape_of(leaving[0]), pods.charge[leaving[0]]
    state, charges, leaf_of = pods.state, pods.charge, pods.leaf
    before.update(dict.fromkeys(leaving))
    for pod in leaving:
        state[pod], charges[pod] = RELEASING, 0
        leaf = leaf_of[pod]
        if leaf is not None:
            counts = leaf.counts
            counts[RUNNING], counts[RELEASING] = 0, 1  # it is the leaf's only pod
    ledger.journal.entries.append((Released(ledger), leaving, charge))
    for row, count in Counter(map(pods.node.__getitem__, leaving)).items():
        ledger.nodes.turn_many(row, shape, count)
    count = -len(leaving)
    less = (shape.milli_cpu * count, shape.memory_bytes * count, charge * count)
    queue = ledger.groups[pods.models[leaving[0]].group].queue
    ledger.queues.add_allocated(queue, less, non_preemptible=False)


def swap(ledger: Ledger, pairs: Pairs) -> None:
    """Let pods leave and promise their places to others, as committed statements. Not empty."""
    pods = ledger.pods
    leaving, coming = pairs
    state, charge = pods.state[leaving[0]], pods.charge[leaving[0]]
    for victim, winner in zip(leaving, coming, strict=True):
        pods.state[victim], pods.charge[victim] = states.RELEASING, 0
        _recount(ledger, victim, state, states.RELEASING)
        pods.state[winner], pods.node[winner] = states.PIPELINED, pods.node[victim]
        pods.charge[winner] = charge
        _recount(ledger, winner, states.PENDING, states.PIPELINED)
        ledger.open_groups[pods.models[winner].group] -= 1
        ledger.before[victim] = ledger.before[winner] = None
    ledger.journal.entries.append((Swapped(ledger), pairs, (state, charge)))
    shift(ledger, leaving[0], coming[0], len(leaving))


def shift(ledger: Ledger, victim: int, winner: int, count: int) -> None:
    """Book at the queues that `count` pods like these two change places."""
    pods, queues = ledger.pods, ledger.queues
    shape = ledger.shape_of(winner)
    held = (shape.milli_cpu * count, shape.memory_bytes * count, shape.charge_milli * count)
    asked = tuple(-amount * count for amount in shape.asked)
    giver, taker = (ledger.groups[pods.models[pod].group].queue for pod in (victim, winner))
    less = (-held[0], -held[1], -held[2])
    queues.add_allocated(giver, less, non_preemptible=False)
    queues.shift(taker, held, (asked[0], asked[1], asked[2], asked[3]), non_preemptible=False)


def _recount(ledger: Ledger, pod: int, old: int, new: int) -> None:
    leaf = ledger.pods.leaf[pod]
    if leaf is not None:
        leaf.counts[old] -= 1
        leaf.counts[new] += 1
