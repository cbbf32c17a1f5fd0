"""The order in which pod groups are taken up: queues by their shares, groups inside a queue.

A tree of heaps as deep as the queue tree. Only the queue that was served last changes its place,
so one path is judged again a pop: O(depth · log siblings).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from scheduler_service.ledger.groups import Group
from scheduler_service.planning import queue_order, tree
from scheduler_service.planning.board import Board
from scheduler_service.planning.queue_order import (
    UNPLACED,
    ZERO,
    Amounts,
    Entitlement,
    QueuePlace,
    Standing,
)
from scheduler_service.planning.tree import Chunk, next_chunk

GroupKey = tuple[int, int, int, int, str, str]


def group_key(board: Board, group: Group, progress: int | None = None) -> GroupKey:
    """Return a group's place inside its queue; smaller is first. `progress`: if it is known."""
    model = group.model
    usage = 0
    if board.policy.user_fairness:
        usage = board.ledger.owner_usage.get(model.queue, {}).get(model.owner, 0)
    priority = model.priority
    if board.ages:
        priority += board.ages.get(group.key, 0)
    return (
        -priority,
        usage,
        tree.progress(group) if progress is None else progress,
        model.created,
        model.name,
        model.namespace,
    )


class QueuePlaces:
    """Says where a queue stands among its siblings. Fair shares are those of the cycle."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.allocated = board.ledger.queues.allocated
        if not board.standings:
            rows = range(len(board.ledger.queues))
            board.standings = [_standing(board, row) for row in rows]
        self.standings = board.standings

    def place(self, row: int, asked: Amounts, losses: Amounts = ZERO) -> QueuePlace:
        """Return a queue's place (smaller is served first) if it asks for `asked` next."""
        return queue_order.place(self.standings[row], self.allocated[row], asked, losses)


def _standing(board: Board, row: int) -> Standing:
    queues = board.ledger.queues
    model = queues.models[row]
    given = Entitlement(queues.quota[row], queues.limit[row], board.fair_share[row])
    rank = (model.created, model.name)
    return queue_order.standing(given, board.total, priority=model.priority, rank=rank)


def put_back(groups: list[tuple[GroupKey, Group]], entry: tuple[GroupKey, Group]) -> None:
    """Insert an entry into a list whose last one is the best. O(log n) comparisons."""
    low, high = 0, len(groups)
    key = entry[0]
    while low < high:
        middle = (low + high) // 2
        if groups[middle][0] > key:
            low = middle + 1
        else:
            high = middle
    groups.insert(low, entry)


class Level:
    """One queue in the tree: at a leaf its groups in order, else its children in order."""

    __slots__ = ("asked", "chunk", "groups", "heap", "is_stale", "judged_at", "judged_with", "row")

    def __init__(self, row: int) -> None:
        self.row = row
        self.asked: Amounts = ZERO
        """What its best group asks for."""
        self.groups: list[tuple[GroupKey, Group]] = []
        self.heap: list[tuple[QueuePlace, int, Level]] = []
        self.chunk: Chunk | None = None
        self.is_stale = True
        self.judged_at = (-1, -1)
        """The board's revision when its place was last found, and what was asked for then."""
        self.judged_with: Amounts = ZERO


Heap = list[tuple[QueuePlace, int, Level]]


class GroupOrder:
    """Gives groups one by one, best first; what was given may be put back."""

    def __init__(
        self,
        board: Board,
        groups: Iterable[Group],
        places: QueuePlaces,
    ) -> None:
        self.board = board
        self.places = places
        self._now = board.revision
        self._levels: dict[int, Level] = {}
        self._root = Level(-1)
        self._paths: dict[int, list[tuple[Level, Heap]]] = {}
        self._served: list[tuple[Level, Heap]] = []
        levels = self._levels
        for group in groups:
            level = levels.get(group.queue) or self._level(group.queue)
            level.groups.append((group_key(board, group), group))
        hung = {-1}
        for level in list(self._levels.values()):
            level.groups.sort(reverse=True)
            self._hang(level, hung)
        self._rebuild(self._root)

    def _hang(self, level: Level, hung: set[int]) -> None:
        """Hang a level, and all above it, into the tree; places come later."""
        parents = self.board.ledger.queues.parent
        while level.row not in hung:
            hung.add(level.row)
            above = parents[level.row]
            parent = self._root if above < 0 else self._level(above)
            parent.heap.append((UNPLACED, level.row, level))
            level = parent

    def _level(self, row: int) -> Level:
        level = self._levels.get(row)
        if level is None:
            level = self._levels[row] = Level(row)
        return level

    def _insert(self, level: Level) -> None:
        """Hang a level under its parent, and that one likewise if it was empty."""
        parents = self.board.ledger.queues.parent
        while level is not self._root:
            above = parents[level.row]
            parent = self._root if above < 0 else self._level(above)
            was_empty = not parent.heap
            heappush(parent.heap, (self._place(level), level.row, level))
            if not was_empty:
                if parent is not self._root:
                    self._mark(parent)
                return
            level = parent

    def _mark(self, level: Level) -> None:
        """Note that a level and all above it have to be judged again."""
        for row in self.board.ledger.queues.paths[level.row]:
            self._levels[row].is_stale = True

    def _best(self, level: Level) -> Level:
        """Return the leaf under `level` that is served first."""
        heap = level.heap
        while heap:
            top = heap[0][2]
            while top.is_stale:
                if top.judged_at == self._now and self._is_as_before(top):
                    top.is_stale = False
                    break
                heapreplace(heap, (self._place(top), top.row, top))
                top = heap[0][2]
            level = top
            heap = level.heap
        return level

    def _place(self, level: Level) -> QueuePlace:
        leaf = self._best(level) if level.heap else level
        level.is_stale = False
        if leaf.chunk is None and leaf.groups:
            self.look_ahead(leaf)
        level.judged_at, level.judged_with = self._now, leaf.asked
        return self.places.place(level.row, leaf.asked)

    def _is_as_before(self, level: Level) -> bool:
        """Say whether a level asks for what it asked for when its place was last found."""
        leaf = self._best(level) if level.heap else level
        if leaf.chunk is None and leaf.groups:
            self.look_ahead(leaf)
        return level.judged_with == leaf.asked

    def look_ahead(self, leaf: Level) -> None:
        """Find out what the best group of a leaf would start, and what that asks for."""
        board, group = self.board, leaf.groups[-1][1]
        leaf.chunk = next_chunk(board.ledger, group)
        leaf.asked = ZERO
        if leaf.chunk is not None:
            leaf.asked = board.sizes.careful(board.asked_by(leaf.chunk))

    def pop(self) -> tuple[Group, Chunk | None] | None:
        """Return the next group with what it would start, or None at the end."""
        if not self._root.heap:
            return None
        self._now = self.board.revision
        leaf = self._best(self._root)
        if leaf.chunk is None:
            self.look_ahead(leaf)
        chunk = leaf.chunk
        _, group = leaf.groups.pop()
        leaf.chunk = None
        self._mark(leaf)
        if not leaf.groups:
            self._remove(leaf)
        return group, chunk

    def first(self) -> Level | None:
        """Return the leaf that is served next, None if nobody waits."""
        if not self._root.heap:
            return None
        self._now = self.board.revision
        return self._best(self._root)

    def serve(self, leaf: Level, look: Callable[[Level], None]) -> Level | None:
        """Take out the best group of the first leaf, which started whole; return the next leaf.

        `look` finds out what the best group of a leaf asks for. `settle` has to follow the last one.
        """
        leaf.groups.pop()
        leaf.chunk = None
        self._served = self._above(leaf)
        standings, allocated, place = (
            self.places.standings,
            self.places.allocated,
            queue_order.place,
        )
        for level, heap in self._served:
            best = level
            if level.heap:
                while best.heap:
                    best = best.heap[0][2]
            elif level.groups:
                look(level)
            else:
                heappop(heap)
                continue
            row, level.judged_with = level.row, best.asked
            heapreplace(heap, (place(standings[row], allocated[row], best.asked), row, level))
        best = self._root
        while best.heap:
            best = best.heap[0][2]
        return best if best is not self._root else None

    def _above(self, leaf: Level) -> list[tuple[Level, Heap]]:
        """Return a leaf and all above it, each with the heap it hangs in."""
        found = self._paths.get(leaf.row)
        if found is None:
            levels = [self._levels[row] for row in self.board.ledger.queues.paths[leaf.row]]
            above = [*levels[1:], self._root]
            found = [(level, parent.heap) for level, parent in zip(levels, above, strict=True)]
            self._paths[leaf.row] = found
        return found

    def settle(self) -> None:
        """Note that all that was served is booked, and places are found as of now."""
        self._now = self.board.revision
        for level, _ in self._served:
            level.judged_at = self._now

    def restore(self, groups: Iterable[Group]) -> None:
        """Put groups back that were served and are not booked after all."""
        for group in groups:
            self.push(group)
        self.refresh()

    def pop_if(self, row: int, accepts: Callable[[Group], bool]) -> Group | None:
        """Take out the next group of the leaf that was served last, if it is accepted.

        For groups behind one that got nothing and ask for the same: the leaf stays in its place.
        """
        level = self._levels[row]
        if not level.groups or not accepts(level.groups[-1][1]):
            return None
        _, group = level.groups.pop()
        level.chunk = None
        if not level.groups:
            self._remove(level)
        return group

    def _remove(self, level: Level) -> None:
        """Take an emptied level (and emptied ones above it) out of the tree; it is on top."""
        parents = self.board.ledger.queues.parent
        while level is not self._root and not level.groups and not level.heap:
            above = parents[level.row]
            parent = self._root if above < 0 else self._levels[above]
            heappop(parent.heap)
            level = parent

    def push(self, group: Group) -> None:
        """Put a group back, to compete again."""
        self._now = self.board.revision
        level = self._level(group.queue)
        was_empty = not level.groups
        put_back(level.groups, (group_key(self.board, group), group))
        level.chunk = None
        if was_empty:
            self._insert(level)
        self._mark(level)

    def only_stack(self, row: int) -> Sequence[tuple[GroupKey, Group]]:
        """Return the groups of a leaf, the next one last; nothing if others wait elsewhere."""
        if any(level.groups for other, level in self._levels.items() if other != row):
            return ()
        level = self._levels.get(row)
        return level.groups if level is not None else ()

    def drop(self, row: int, count: int) -> None:
        """Take out the next groups of the only leaf that has some."""
        level = self._levels[row]
        del level.groups[-count:]
        level.chunk = None
        if not level.groups:
            self._remove(level)

    def refresh(self) -> None:
        """Judge every queue afresh: others than the served one changed what they hold."""
        self._now = self.board.revision
        for level in self._levels.values():
            level.is_stale = True
            level.chunk = None
        self._rebuild(self._root)

    def _rebuild(self, level: Level) -> None:
        children = [child for _, _, child in level.heap]
        for child in children:
            self._rebuild(child)
        level.heap[:] = [(self._place(child), child.row, child) for child in children]
        heapify(level.heap)
