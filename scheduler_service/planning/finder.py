"""Finds the best node for a shape: the one list of the whole engine that is kept in order.

A node's place is one integer (smaller is better): preferences, then beside a shared GPU with
room, then free now before free later, then CPU-only nodes for CPU-only work, then fullest or
emptiest, then the name. The heap is built once per shape and set of nodes; nodes whose room
changed (`journal.touched`) are judged again when somebody asks. O(log n) a placement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from scheduler_service.ledger.shape import NO_GPU, WHOLE, Shape
from scheduler_service.planning import fragmentation
from scheduler_service.planning.board import Board, NodeSet
from scheduler_service.planning.judge import (
    LATER,
    RANK_MASK,
    Rows,
    judge_of,
    may_be_on,
    vector_places,
)

VECTOR_FROM = 200
"""From so many nodes on one pass over the columns beats a loop."""


class Finder:
    """The nodes that fit one shape, best first."""

    __slots__ = (
        "_by_name",
        "_current",
        "_cursor",
        "_heap",
        "_judge",
        "_members",
        "_touched",
        "_unsorted",
        "board",
        "shape",
    )

    def __init__(self, board: Board, shape: Shape, node_set: NodeSet) -> None:
        self.board = board
        self.shape = shape
        nodes = board.ledger.nodes
        rows = node_set.rows if node_set.rows is not None else range(len(nodes))
        self._by_name = nodes.by_name()
        self._touched = board.ledger.journal.touched
        self._members = None if node_set.rows is None else frozenset(rows)
        self._judge = judge_of(board, shape, node_set.bonus)
        self._current: dict[int, int] = {}
        self._heap: list[int] = []
        self._unsorted: tuple[Rows, Rows] | None = None
        """The rows that fit and their places, until room changes: many finders are asked once."""
        self._cursor = 0
        self._build(rows, is_plain=node_set.bonus is None)

    def _build(self, rows: Sequence[int], *, is_plain: bool) -> None:
        self._cursor = len(self.board.ledger.journal.touched)
        self.board.counts.nodes_examined += len(rows)
        if len(rows) >= VECTOR_FROM and is_plain and self._can_vector():
            index = np.arange(len(rows)) if self._members is None else np.asarray(rows)
            may = may_be_on(self.board, self.shape, index)
            if not may.all():  # what happens on other nodes is nothing to this shape
                index = index[may]
                self._members = frozenset(index.tolist())
            self._unsorted = vector_places(self.board, self.shape, index)
            return
        judge, current = self._judge, self._current
        current.clear()
        for row in rows:
            place = judge(row)
            if place is not None:
                current[row] = place
        self._heap = list(current.values())
        heapify(self._heap)

    def _can_vector(self) -> bool:
        shape = self.shape
        is_simple = shape.kind in {NO_GPU, WHOLE} and not shape.extras and not shape.claims
        has_wishes = any(term.weight is not None for term in shape.node_affinity)
        has_costs = fragmentation.decides(self.board, shape)
        return is_simple and not shape.vetoes and not has_wishes and not has_costs

    def _sort(self) -> None:
        """Make a heap of what was found in one pass."""
        if self._unsorted is not None:
            rows, places = self._unsorted
            self._current = dict(zip(rows.tolist(), places.tolist(), strict=True))
            self._heap = np.sort(places).tolist()
            self._unsorted = None

    def _sync(self) -> None:
        """Judge again the nodes whose room changed since the last question."""
        self._sort()
        touched = self._touched
        end = len(touched)
        if self._cursor == end:
            return
        changed = touched[-1:] if end - self._cursor == 1 else set(touched[self._cursor :])
        self._cursor = end
        members, current, heap, judge = self._members, self._current, self._heap, self._judge
        for row in changed:
            if members is not None and row not in members:
                continue
            place = judge(row)
            if place is None:
                current.pop(row, None)
            elif current.get(row) != place:
                current[row] = place
                heappush(heap, place)
        self.board.counts.nodes_examined += len(changed)
        if len(heap) > 2 * len(current) + 64:
            heap[:] = current.values()
            heapify(heap)

    def best(self) -> tuple[int, bool] | None:
        """Return the row of the best node and whether it fits now (else later), or None."""
        if self._unsorted is not None and self._cursor == len(self._touched):
            places = self._unsorted[1]
            place = int(places.min()) if len(places) else 0
            return (self._by_name[place & RANK_MASK], not place & LATER) if place else None
        self._sync()
        heap, current = self._heap, self._current
        by_name = self._by_name
        while heap:
            place = heap[0]
            row = by_name[place & RANK_MASK]
            if current.get(row) == place:
                return row, not place & LATER
            heappop(heap)
        return None

    def in_order(self) -> Iterator[tuple[int, bool]]:
        """Yield all rows that fit and whether they fit now, best first. The ledger must not change while this runs."""
        self._sync()
        by_name = self._by_name
        places = list(self._heap)
        heapify(places)
        seen = -1
        while places:
            place = heappop(places)
            row = by_name[place & RANK_MASK]
            if row != seen and self._current.get(row) == place:
                seen = row
                yield row, not place & LATER

    def __len__(self) -> int:
        self._sync()
        return len(self._current)


def finder_for(board: Board, pod: int, node_set: NodeSet) -> Finder:
    """Return the finder of a pod's shape over a set of nodes."""
    return finder_of(board, board.ledger.pods.shape[pod], node_set)


def finder_of(board: Board, number: int, node_set: NodeSet) -> Finder:
    """Return the finder of a shape over a set of nodes."""
    finder: Finder | None = node_set.finders.get(number)
    if finder is None or finder.shape.claims:  # a claim that is taken changes other nodes too
        shape = board.ledger.shapes.shapes[number]
        finder = node_set.finders[number] = Finder(board, shape, node_set)
    return finder
