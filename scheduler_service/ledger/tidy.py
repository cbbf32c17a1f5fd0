"""Keeps the book from growing with what has come and gone: node rows and shapes are used again.

Looked for only when there could be twice as many as at the last time, so that it costs little an
event. Rows that a pod or a claim still names stay, and so do shapes that some pod has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler_service.ledger.store import Ledger

FEW = 64
"""So many gone nodes, or shapes, are not worth a look."""


class Tidy:
    """When to look again."""

    __slots__ = ("_nodes_from", "_shapes_from")

    def __init__(self) -> None:
        self._nodes_from = self._shapes_from = FEW

    def after_event(self, ledger: Ledger) -> None:
        """Give up what nobody names any more, now and then."""
        if len(ledger.nodes.gone) > self._nodes_from:
            _close_rows(ledger)
            self._nodes_from = 2 * len(ledger.nodes.gone) + FEW
        if len(ledger.shapes) > self._shapes_from:
            pods = ledger.pods
            ledger.shapes.keep({pods.shape[row] for row in pods.row_of.values()})
            self._shapes_from = 2 * len(ledger.shapes) + FEW


def _close_rows(ledger: Ledger) -> None:
    pods, nodes = ledger.pods, ledger.nodes
    named = {pods.node[row] for row in pods.row_of.values()}
    named |= {row for row, _ in pods.left.values()}
    named |= {use.node for use in ledger.claims.use.values()}
    nodes.close_rows([row for row in nodes.gone if row not in named])
