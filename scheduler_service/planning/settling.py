"""A what-if, settled: the waiting group and the victims take their places in queue order.

The waiting group must get its place. A victim that finds one stays (or moves); one that does not
has to go. Other waiting groups take no room here, but the heads of their queues count when queues
are compared.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence

from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.queues import ZERO, Amounts
from scheduler_service.ledger.shape import Shape
from scheduler_service.planning import tree
from scheduler_service.planning.board import Board
from scheduler_service.planning.finder import finder_for
from scheduler_service.planning.live_order import LiveOrder
from scheduler_service.planning.ordering import GroupKey, QueuePlaces, group_key
from scheduler_service.planning.tree import Chunk, Starting
from scheduler_service.planning.victims import Step, lone_pod

PlaceChunk = Callable[[Board, Group, Chunk], bool]
"""Promise a chunk places, all of it or nothing."""


class _Turn:
    """A group whose turn comes: it is placed, or (`is_other`) only counts for the order."""

    __slots__ = ("_chunk", "group", "is_other", "key", "known_asked")

    def __init__(
        self, key: GroupKey, group: Group, chunk: Chunk | None = None, *, is_other: bool = False
    ) -> None:
        self.key = key
        self.group = group
        self.is_other = is_other
        self._chunk = chunk
        self.known_asked: Amounts | None = None

    def __lt__(self, other: _Turn) -> bool:
        """Say whether this one is served later: stacks have their next one last."""
        return self.key > other.key

    def chunk(self, board: Board) -> Chunk | None:
        """Return what is placed when the turn comes; nothing of one that could not start again.

        That is so where promises are held: one to a group that stays below its minimum is broken.
        """
        if self._chunk is None:
            starting = Starting(board.ledger, self.group, simulated=True)
            if self.is_other or not board.policy.hold_ms or starting.can_start():
                self._chunk = starting.next_chunk()
        return self._chunk

    def asked(self, board: Board) -> Amounts:
        """Return what the group asks for next."""
        if self.known_asked is None:
            chunk = self.chunk(board)
            self.known_asked = ZERO if chunk is None else board.sizes.careful(board.asked_by(chunk))
        return self.known_asked


class Settling:
    """Settles what-ifs of one action; waiting groups are looked up once."""

    def __init__(self, places: QueuePlaces, place: PlaceChunk) -> None:
        self.board = places.board
        self.places = places
        self.place = place
        self._waiting: dict[int, list[_Turn]] | None = None
        self._keys: dict[str, GroupKey] = {}
        self._asked_by_all: int | None = None
        """The shape of all that wait, if they are lone pods of one; -1 if not; None: not known."""

    def settle(self, group: Group, part: Chunk, steps: Sequence[Step]) -> bool:
        """Place `part` of the waiting group, and the victims; False if it gets no place."""
        board = self.board
        if self._is_plain_order(group, steps) and self.goes_first(group, part, steps[0].group):
            mark = board.checkpoint()
            if not self.place(board, group, part):
                return False
            if _Lost(board, steps).is_hopeless():
                return True
            board.rollback(mark)
        victims = {step.group.model.key: step.group for step in steps}
        turns = [_Turn(group_key(board, victim), victim) for victim in victims.values()]
        turns.append(_Turn(group_key(board, group), group, part))
        lost = _Lost(board, steps)
        if all(turn.group.queue == group.queue for turn in turns):
            turns.sort(reverse=True)
            return self._in_turn(turns, group, lost)
        return self._by_queue(turns, group, lost)

    def are_two(self, group: Group, pod: int, step: Step) -> bool:
        """Say whether only these two decide whose turn comes first.

        So it is where nobody waits before the group, and where all ask for the same: then others
        are passed over queue by queue, and no queue changes its place meanwhile.
        """
        number, shape_no = self.board.ledger.pods.shape[pod], self.board.ledger.pods.shape
        is_same = shape_no[step.pods[0]] == number
        return (is_same and self.all_ask(number)) or self.are_alone(group, step.group)

    def all_ask(self, number: int) -> bool:
        """Say whether everybody who waits is a lone pod of this shape."""
        if self._asked_by_all is None:
            groups = [turn.group for stack in self._others().values() for turn in stack]
            shapes = {self._lone_shape(group) for group in groups}
            self._asked_by_all = shapes.pop() if len(shapes) == 1 else -1
        return self._asked_by_all == number

    def _lone_shape(self, group: Group) -> int:
        pod = lone_pod(group)
        if pod is None or group.leaf.spec.min_members > 1 or not tree.is_ready(group):
            return -1
        return self.board.ledger.pods.shape[pod]

    def settle_two(self, group: Group, part: Chunk, step: Step) -> bool:
        """Do what `settle` does for lone pods, a waiting and an evicted one, if `are_two`."""
        board, victim = self.board, step.group
        back = Chunk(victim.leaf.spec, step.pods)
        lost = _Lost(board, (step,))
        if self._precedes(group, part, victim):
            if not self.place(board, group, part):
                return False
            if not lost.is_hopeless():
                self.place(board, victim, back)
            return True
        self.place(board, victim, back)
        return self.place(board, group, part)

    def _precedes(self, group: Group, part: Chunk, victim: Group) -> bool:
        if group.queue == victim.queue:
            return group_key(self.board, group) < group_key(self.board, victim)
        return self.goes_first(group, part, victim)

    def settle_alone(self, group: Group, part: Chunk, steps: Sequence[Step]) -> bool:
        """Place `part` for good if only it and alike victims have a say, and these come after it.

        False says nothing: then `settle` has to find out.
        """
        board, victim = self.board, steps[0].group
        return (
            self.are_alone(group, victim)
            and self.goes_first(group, part, victim)
            and self.place(board, group, part)
            and _Lost(board, steps[-1:]).is_hopeless()
        )

    def _is_plain_order(self, group: Group, steps: Sequence[Step]) -> bool:
        """Say whether all victims are lone pods of one shape in one queue: any of them is first."""
        first = steps[0]
        shape_no = self.board.ledger.pods.shape
        number, leaf = shape_no[first.pods[0]], first.group.queue
        return self.are_alone(group, first.group) and all(
            step.group.queue == leaf
            and shape_no[step.pods[0]] == number
            and lone_pod(step.group) is not None
            for step in steps
        )

    def are_alone(self, group: Group, victim: Group) -> bool:
        """Say whether only these two decide whose turn comes first: nobody else waits before."""
        others, own = self._others(), group.queue
        if own == victim.queue or any(stack for leaf, stack in others.items() if leaf != own):
            return False
        return bool(others.get(own)) and others[own][-1].group is group

    def goes_first(self, group: Group, part: Chunk, victim: Group) -> bool:
        """Say whether a group's turn comes before that of an evicted one, if they are alone."""
        own, theirs = group.queue, victim.queue
        paths = self.board.ledger.queues.paths
        mine, other = meet(paths[own], paths[theirs])
        board = self.board
        asked = board.sizes.careful(board.asked_by(part))
        back = board.sizes.careful(board.asked(tuple(victim.pods())))
        return self.places.place(mine, asked) < self.places.place(other, back)

    def _in_turn(self, turns: Iterable[_Turn], waiting: Group, lost: _Lost) -> bool:
        is_placed = False
        for turn in turns:
            if is_placed and lost.is_hopeless():
                return True
            has_place = self._take(turn, lost)
            if turn.group is waiting:
                if not has_place:
                    return False
                is_placed = True
        return True

    def _by_queue(self, turns: list[_Turn], waiting: Group, lost: _Lost) -> bool:
        board = self.board
        order: LiveOrder[_Turn] = LiveOrder(self.places, lambda turn: turn.asked(board))
        for leaf, stack in self._stacks(turns).items():
            order.put(leaf, stack)
        left = len(turns)
        while left and (turn := order.pop_next()) is not None:
            if turn.is_other:
                self._skip_alike(order, turn)
                continue
            left -= 1
            has_place = self._take(turn, lost)
            if turn.group is waiting:
                if not has_place:
                    return False
                if lost.is_hopeless():
                    return True
            order.changed(turn.group.queue)
        return True

    def _skip_alike(self, order: LiveOrder[_Turn], taken: _Turn) -> None:
        """Drop what waits behind a group and asks for the same: it would change nothing either."""
        board, leaf = self.board, taken.group.queue
        stack, asked = order.stack(leaf), taken.asked(board)
        size = len(stack)
        while len(stack) > 1:
            turn = stack[-1]
            if not turn.is_other or (turn.known_asked or turn.asked(board)) != asked:
                break
            stack.pop()
        if len(stack) != size:
            order.changed(leaf)

    def _take(self, turn: _Turn, lost: _Lost) -> bool:
        chunk = turn.chunk(self.board)
        if chunk is None or lost.is_known(chunk):
            return False
        if self.place(self.board, turn.group, chunk):
            return True
        lost.failed(turn.group, chunk)
        return False

    def _stacks(self, turns: list[_Turn]) -> dict[int, list[_Turn]]:
        """Return the turns by leaf queue among all that wait there, the next one last."""
        stacks = {leaf: others.copy() for leaf, others in self._others().items()}
        by_leaf: dict[int, list[_Turn]] = {}
        for turn in turns:
            by_leaf.setdefault(turn.group.queue, []).append(turn)
        for leaf, own in by_leaf.items():
            stack = stacks.setdefault(leaf, [])
            for turn in own:
                self._take_out(stack, turn.group)
            if len(own) > len(stack):
                stack.extend(own)
                stack.sort()
            else:
                for turn in own:
                    insort(stack, turn)
        return {leaf: stacks[leaf] for leaf in sorted(stacks)}

    def _take_out(self, stack: list[_Turn], group: Group) -> None:
        key = self._keys.get(group.model.key)
        if key is not None:
            del stack[bisect_left(stack, _Turn(key, group))]

    def _others(self) -> dict[int, list[_Turn]]:
        """Return all waiting groups by leaf queue, the next one last."""
        if self._waiting is None:
            self._waiting = {}
            ledger = self.board.ledger
            for key, count in ledger.open_groups.items():
                group = ledger.groups[key]
                if count and ledger.queues.runs_work(group.queue):
                    self._waiting.setdefault(group.queue, []).append(self._other(group))
            for stack in self._waiting.values():
                stack.sort()
        return self._waiting

    def _other(self, group: Group) -> _Turn:
        key = self._keys[group.model.key] = group_key(self.board, group)
        return _Turn(key, group, is_other=True)

    def only_waiting(self, leaf: int) -> Iterator[Group]:
        """Yield who waits in a leaf queue, next one first; nobody if others wait elsewhere."""
        others = self._others()
        if not any(stack for row, stack in others.items() if row != leaf):
            for turn in reversed(others.get(leaf, ())):
                yield turn.group

    def drop(self, leaf: int, count: int) -> None:
        """Take over that the next groups of a leaf queue do not wait any more."""
        stack = self._others()[leaf]
        for turn in stack[-count:]:
            self._keys.pop(turn.group.key, None)
        del stack[-count:]

    def forget(self, group: Group) -> None:
        """Take over that a group is not what it was."""
        if self._waiting is None:
            return
        stack = self._waiting.setdefault(group.queue, [])
        self._take_out(stack, group)
        self._keys.pop(group.model.key, None)
        if self.board.ledger.open_groups.get(group.model.key, 0):
            insort(stack, self._other(group))
            self._asked_by_all = None


def meet(mine: Sequence[int], theirs: Sequence[int]) -> tuple[int, int]:
    """Return the two queues as they meet: where their paths (leaf first) part from the top."""
    for own, other in zip(reversed(mine), reversed(theirs), strict=False):
        if own != other:
            return own, other
    return mine[0], theirs[0]


class _Lost:
    """Which shapes have no place left: room only shrinks while a what-if is settled."""

    def __init__(self, board: Board, steps: Sequence[Step]) -> None:
        self.board = board
        self.steps = steps
        waiting = board.ledger.open_groups
        self._others_wait = any(waiting.get(step.group.key, 0) for step in steps)
        """Whether pods of the victims' groups wait that did not leave: they take part in a turn."""
        self._known: set[int] = set()

    def is_known(self, chunk: Chunk) -> bool:
        """Say whether some pod of the chunk has a shape for which there is no place."""
        if not self._known:
            return False
        shape_no = self.board.ledger.pods.shape
        return any(shape_no[pod] in self._known for pod in chunk.members())

    def failed(self, group: Group, chunk: Chunk) -> None:
        """Note that a chunk found no place, if its shape alone is the cause."""
        pods = chunk.members()
        if len(pods) == 1 and group.is_flat and group.topology is None:
            self._note(pods[0])

    def _note(self, pod: int) -> bool:
        """Say whether no node at all has room for the pod, and remember it."""
        board = self.board
        number = board.ledger.pods.shape[pod]
        if number in self._known:
            return True
        if not _is_plain(board.ledger.shapes.shapes[number]):
            return False
        if finder_for(board, pod, board.all_nodes).best() is not None:
            return False
        self._known.add(number)
        return True

    def is_hopeless(self) -> bool:
        """Say whether no victim, and nothing of its group, can find a place any more."""
        if self._others_wait:
            return False
        pods = {self.board.ledger.pods.shape[pod]: pod for step in self.steps for pod in step.pods}
        return all(self._note(pod) for pod in pods.values())


def _is_plain(shape: Shape) -> bool:
    return not shape.claims
