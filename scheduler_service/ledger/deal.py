"""Many pending pods bound at once, where nodes and sums of queues are booked already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.nodes import NO_NODE
from scheduler_service.ledger.pods import Devices

if TYPE_CHECKING:
    from scheduler_service.ledger.store import Ledger


class Deal(NamedTuple):
    """A group all of whose pods start: the pods, their nodes, and what each of them is charged.

    `devices`: the GPUs of each pod, if they take parts of them; none otherwise.
    """

    group: Group
    pods: tuple[int, ...]
    nodes: list[int]
    charge: int
    devices: Sequence[Devices] = ()


class Dealt:
    """Takes deals back: all wait again. Nodes and sums of queues are not its business."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __setitem__(self, deals: list[Deal], old: None) -> None:
        """Put the pods of all these groups among the pending ones again."""
        ledger, table = self._ledger, self._ledger.pods
        state, node, charges = table.state, table.node, table.charge
        before, open_groups = ledger.before, ledger.open_groups
        for group, pods, _, _, devices in deals:
            counts = group.leaf.counts
            counts[states.PENDING] += len(pods)
            counts[states.BINDING] -= len(pods)
            open_groups[group.key] += len(pods)
            for pod in pods:
                state[pod], node[pod], charges[pod] = states.PENDING, NO_NODE, 0
                del before[pod]
            if devices:
                for pod in pods:
                    table.devices[pod] = ()


def deal(ledger: Ledger, deals: list[Deal]) -> None:
    """Bind the pods of all these groups, as committed statements. None of them was remembered."""
    table, before, open_groups = ledger.pods, ledger.before, ledger.open_groups
    state, node, charges = table.state, table.node, table.charge
    ledger.journal.entries.append((Dealt(ledger), deals, None))
    for group, pods, nodes, charge, devices in deals:
        counts = group.leaf.counts
        counts[states.PENDING] -= len(pods)
        counts[states.BINDING] += len(pods)
        open_groups[group.key] -= len(pods)
        for pod, row in zip(pods, nodes, strict=True):
            state[pod], node[pod], charges[pod] = states.BINDING, row, charge
            before[pod] = None  # what this plan has bound is no victim in it
        for pod, ids in zip(pods, devices, strict=False):
            table.devices[pod] = ids
