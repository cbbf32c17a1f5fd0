"""The live order of queues: which leaf queue of the tree is served next, as shares change.

Each leaf holds entries in their own order; only queues with entries take part. At every level the
children are compared with what the head of each asks for, as `ordering` says; the head of an
inner queue is the head of its best child. A place is computed once and again only after a change
on its path.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, cast

from scheduler_service.ledger.queues import NO_QUEUE, ZERO, Amounts
from scheduler_service.planning.ordering import QueuePlaces
from scheduler_service.planning.queue_order import QueuePlace

E = TypeVar("E")
Ask = Callable[[E], Amounts]
"""What an entry asks for, at this moment."""


class LiveOrder(Generic[E]):
    """Entries by leaf queue; `worst_first` turns the order of queues round (victims)."""

    def __init__(self, places: QueuePlaces, ask: Ask[E], *, worst_first: bool = False) -> None:
        self.places = places
        self.paths = places.board.ledger.queues.paths
        self.ask = ask
        self.worst_first = worst_first
        self.lost: dict[int, Amounts] = {}
        """What queues have lost so far in victim order, by row, descendants included."""
        self._entries: dict[int, list[E]] = {}
        self._children: dict[int, list[int]] = {}
        self._places: dict[int, QueuePlace] = {}
        self._best: dict[int, int] = {}
        """The best child of an inner queue (or of the top)."""

    def put(self, leaf: int, entries: Iterable[E]) -> None:
        """Give a leaf queue its entries, the last one to be served first (a stack)."""
        found = list(entries)
        if not found:
            return
        self._entries[leaf] = found
        path = self.paths[leaf]
        for row, above in zip(path, (*path[1:], NO_QUEUE), strict=True):
            siblings = self._children.setdefault(above, [])
            if row not in siblings:
                siblings.append(row)
        self.changed(leaf)

    def changed(self, leaf: int) -> None:
        """Say that shares or entries on the path of a leaf are not what they were."""
        for row in (*self.paths[leaf], NO_QUEUE):
            self._places.pop(row, None)
            self._best.pop(row, None)

    def next_leaf(self) -> int | None:
        """Return the leaf queue that is served next, or None when nothing is left."""
        row = NO_QUEUE
        while row not in self._entries:
            if not self._children.get(row):
                return None
            row = self._best_child(row)
        return row

    def head(self, leaf: int) -> E:
        """Return the next entry of a leaf that has entries."""
        return self._entries[leaf][-1]

    def pop(self, leaf: int) -> E:
        """Take out and return the next entry of a leaf; an emptied queue leaves the tree."""
        entry = self._entries[leaf].pop()
        if not self._entries[leaf]:
            self._drop(leaf)
        self.changed(leaf)
        return entry

    def stack(self, leaf: int) -> list[E]:
        """Return the live entries of a leaf, the next one last; who changes it says so."""
        return self._entries.get(leaf, [])

    def pop_next(self) -> E | None:
        """Take out and return the entry that is served next, or None."""
        leaf = self.next_leaf()
        return None if leaf is None else self.pop(leaf)

    def insert(self, leaf: int, entry: E) -> None:
        """Put an entry in its place among those of a leaf (entries that can be compared)."""
        entries = self._entries.get(leaf)
        if entries is None:
            self.put(leaf, [entry])
            return
        insort(cast("list[Any]", entries), entry)
        self.changed(leaf)

    def _drop(self, leaf: int) -> None:
        del self._entries[leaf]
        path = self.paths[leaf]
        for row, above in zip(path, (*path[1:], NO_QUEUE), strict=True):
            if self._children.get(row):
                return
            self._children[above].remove(row)

    def _best_child(self, row: int) -> int:
        best = self._best.get(row)
        if best is None:
            children = self._children[row]
            best = children[0]
            for child in children[1:]:
                if self._is_before(child, best):
                    best = child
            self._best[row] = best
        return best

    def _is_before(self, left: int, right: int) -> bool:
        if self.worst_first:
            left, right = right, left
        return self._place(left) < self._place(right)

    def _place(self, row: int) -> QueuePlace:
        place = self._places.get(row)
        if place is None:
            leaf = row
            while leaf not in self._entries:
                leaf = self._best_child(leaf)
            asked = self.ask(self.head(leaf))
            if self.worst_first:
                gone = self.lost.get(row, ZERO)
                losses = (gone[0] + asked[0], gone[1] + asked[1], gone[2] + asked[2])
                place = self.places.place(row, ZERO, losses)
            else:
                place = self.places.place(row, asked)
            self._places[row] = place
        return place

    def lose(self, leaf: int, amounts: Amounts) -> None:
        """Note what a leaf queue (and every queue above it) has lost, in victim order."""
        for row in self.paths[leaf]:
            gone = self.lost.get(row, ZERO)
            self.lost[row] = (gone[0] + amounts[0], gone[1] + amounts[1], gone[2] + amounts[2])
        self.changed(leaf)
