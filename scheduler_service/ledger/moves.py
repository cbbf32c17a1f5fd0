"""Many waiting pods given places for which others were moved; nodes and queues are booked already."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduler_service.ledger import states
from scheduler_service.ledger.nodes import NO_NODE

if TYPE_CHECKING:
    from scheduler_service.ledger.store import Ledger


class Move(NamedTuple):
    """A waiting pod and its promised node; a running pod and its new one (NO_NODE: it stays)."""

    winner: int
    node: int
    moved: int
    target: int


class Moved:
    """Takes moves back: all wait or run where they did. Sums are not its business."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __setitem__(self, moves: list[Move], old: None) -> None:
        """Put back what was before, the places of running pods from what they still hold."""
        ledger, pods = self._ledger, self._ledger.pods
        for winner, _, moved, target in moves:
            pods.state[winner], pods.node[winner], pods.charge[winner] = states.PENDING, NO_NODE, 0
            _recount(ledger, winner, states.PIPELINED, states.PENDING)
            ledger.open_groups[pods.models[winner].group] += 1
            del ledger.before[winner]
            if target != NO_NODE:
                pods.state[moved] = states.RUNNING
                pods.node[moved], pods.devices[moved] = pods.left.pop(moved)
                _recount(ledger, moved, states.PIPELINED, states.RUNNING)
                del ledger.before[moved]


def carry_out(ledger: Ledger, moves: list[Move], charge: int) -> None:
    """Promise all these places, as committed statements, to pods that are charged so much each."""
    pods, before = ledger.pods, ledger.before
    ledger.journal.entries.append((Moved(ledger), moves, None))
    for winner, node, moved, target in moves:
        pods.state[winner], pods.node[winner], pods.charge[winner] = states.PIPELINED, node, charge
        _recount(ledger, winner, states.PENDING, states.PIPELINED)
        ledger.open_groups[pods.models[winner].group] -= 1
        before[winner] = None
        if target != NO_NODE:
            pods.left[moved] = (pods.node[moved], pods.devices[moved])
            pods.state[moved], pods.node[moved] = states.PIPELINED, target
            pods.devices[moved] = ()
            _recount(ledger, moved, states.RUNNING, states.PIPELINED)
            before[moved] = None


def _recount(ledger: Ledger, pod: int, old: int, new: int) -> None:
    leaf = ledger.pods.leaf[pod]
    if leaf is not None:
        leaf.counts[old] -= 1
        leaf.counts[new] += 1
