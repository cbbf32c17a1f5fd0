"""What if these pods left: would the waiting group fit, and would that be allowed?

One search serves one waiting group in one action. Victims are collected one step after another.
First only those on one node at a time (with the rest of their gangs) leave together; only if that
finds nothing several nodes are emptied together, those with the least room first. In each try the
waiting group and the victims are placed again in the order of their queues: a victim of a queue
that comes first is put back first. Everything happens on the journal and is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.shape import WHOLE
from scheduler_service.planning import room
from scheduler_service.planning.board import Board
from scheduler_service.planning.nearby import Nearby
from scheduler_service.planning.settling import Settling
from scheduler_service.planning.tree import Chunk
from scheduler_service.planning.victims import Entry, Step

_LOST = frozenset({states.RELEASING, states.PENDING})
_AWAY = _LOST | {states.PIPELINED}
ONE_BY_ONE = 16
"""Gangs of so many pods get room pod by pod; for larger ones that would be too many what-ifs."""
CLOSE_LOOK = 64
"""After so many victims, larger steps: the work stays in proportion to the victims."""
TRIES_FOR_ONE = 24
"""What-ifs with several nodes emptied for a single pod."""
Verdict = Callable[[Chunk, Sequence[Step]], bool]
"""Whether pods may be lost for (this part of) a chunk, given those that would be, step by step."""


def cut(chunk: Chunk, count: int) -> Chunk:
    """Return the chunk with its first `count` pods only."""
    if not chunk.children:
        return Chunk(chunk.sub_group, chunk.pods[:count])
    children = []
    for child in chunk.children:
        part = cut(child, count)
        size = len(part.members())
        if size:
            children.append(part)
        count -= size
    return Chunk(chunk.sub_group, (), tuple(children))


@dataclass(slots=True)
class Budget:
    """How many what-ifs a group may have in one action; None = no bound."""

    left: int | None

    def spend(self) -> bool:
        """Take one, or say that none is left."""
        if self.left is None:
            return True
        self.left -= 1
        return self.left >= 0

    def give_back(self) -> None:
        """Take back one that decided nothing."""
        if self.left is not None:
            self.left += 1


@dataclass(slots=True)
class Search:
    """The search for one waiting group."""

    board: Board
    settling: Settling
    group: Group
    chunk: Chunk
    victims: Iterable[Step]
    is_allowed: Verdict
    budget: Budget
    alone: Sequence[Entry] = ()
    """The victims again, if they are of one queue: the last one goes first."""
    released: list[Entry] = field(default_factory=list)
    """Victims that were released at once."""
    _steps: list[Step] = field(default_factory=list)
    _turn: dict[int, int] = field(default_factory=dict)
    """When a step was walked to, by its first pod: losses are judged in this order."""
    _source: Iterator[Step] | None = None
    simulations: int = 0

    def solve(self) -> bool:
        """Leave the board as after the least disturbing allowed try, or as it was."""
        self._source = iter(self.victims)
        total = len(self.chunk.members())
        if total == 1 and self._swap():
            return True
        return self._release() or self._sweep() or self._grow(total) or self._together()

    @property
    def walked(self) -> int:
        """How many victims were looked at."""
        return len(self._steps)

    def _walk(self, gone: frozenset[int]) -> Iterator[Step]:
        """Yield the victims in order, without those that are victims already."""
        number = 0
        source = self._source or iter(())
        while True:
            if number == len(self._steps):
                for step in islice(source, 1):
                    self._turn[step.pods[0]] = number
                    self._steps.append(step)
                if number == len(self._steps):
                    return
            step = self._steps[number]
            number += 1
            if gone.isdisjoint(step.pods):
                yield step

    # -- one pod for one pod -----------------------------------------------------------------

    def _swap(self) -> bool:
        """Make room for a whole-GPU pod at the first victim, if that is a lone pod like it.

        The same as the first try of `_grow`, without building what only larger tries need.
        """
        board, state = self.board, self.board.ledger.pods.state
        step = next(self._walk(frozenset()), None)
        if step is None or not self._are_alike(step) or not self.budget.spend():
            return False
        (victim,) = step.pods
        mark = board.checkpoint()
        board.evict(victim)
        if self.settling.settle_two(self.group, self.chunk, step):
            lost = [step] if state[victim] in _LOST else []
            if self.is_allowed(self.chunk, lost):
                board.counts.simulations += 1
                return True
        board.rollback(mark)
        self.budget.give_back()
        return False

    def _are_alike(self, step: Step) -> bool:
        """Say whether both are lone pods, the place is large enough and nobody else has a say."""
        ledger = self.board.ledger
        (pod,) = self.chunk.members()
        if len(step.pods) > 1 or not self._is_simple(pod, self.group):
            return False
        (victim,) = step.pods
        free = ledger.nodes.all_gpu[ledger.pods.node[victim]] + ledger.shape_of(victim).gpus
        return (
            self._is_simple(victim, step.group)
            and states.HOLDS_NOW[ledger.pods.state[victim]]
            and free >= ledger.shape_of(pod).gpus
            and self.settling.are_two(self.group, pod, step)
        )

    def _is_simple(self, pod: int, group: Group) -> bool:
        """Say whether a pod is its whole group, wants whole GPUs and has no other rules."""
        ledger = self.board.ledger
        shape = ledger.shape_of(pod)
        return (
            group.is_flat
            and len(group.leaf.pods) == 1
            and group.topology is None
            and shape.kind == WHOLE
            and not shape.claims
            and not ledger.affinity_pods
        )

    # -- alike pods, alike victims --------------------------------------------------------------

    def _release(self) -> bool:
        """Do in one step what `_sweep` does, if all victims are lone pods of one plain shape.

        Nothing that goes another way is found here; False leaves all to the general way.
        """
        board, settling = self.board, self.settling
        if (
            not self.alone
            or len(self.chunk.members()) == 1
            or not self.group.is_flat
            or board.ledger.affinity_pods
            or not settling.are_alone(self.group, self.alone[-1].group)
        ):
            return False
        filters = room.Room(board, self.chunk.members())
        chosen, walked = filters.first_enough(self.alone) if filters.is_alike else ([], 0)
        if not chosen or not self.budget.spend():
            return False
        pods = [entry.pod for entry in chosen]
        steps = self._in_two(chosen, pods)
        mark = board.checkpoint()
        board.release(pods)
        is_settled = settling.settle_alone(self.group, self.chunk, steps)
        if is_settled and self.is_allowed(self.chunk, steps):
            self.released = chosen
            board.counts.simulations += 1
            board.counts.victims_walked += walked
            return True
        board.rollback(mark)
        self.budget.give_back()
        return False

    def _in_two(self, chosen: Sequence[Entry], pods: list[int]) -> list[Step]:
        """Return victims of one queue as two steps: the last one, for itself, is judged."""
        charges = tuple(self.board.ledger.pods.charge[pod] for pod in pods)
        last = Step(chosen[-1].group, (pods[-1],), charges[-1:])
        if len(pods) == 1:
            return [last]
        return [Step(chosen[0].group, tuple(pods[:-1]), charges[:-1]), last]

    # -- alike pods, nodes alone -------------------------------------------------------------

    def _sweep(self) -> bool:
        """Make room for pods that are alike in one pass, if all victims are on one node each.

        What growing pod by pod would find if no victim came back: each node gives its victims
        once they make room for one pod more. One try at the end; whatever does not fit this
        picture is left to `_grow`, and so are small gangs for which a victim came back.
        """
        if len(self.chunk.members()) == 1 or not self.group.is_flat:
            return False
        filters = room.Room(self.board, self.chunk.members())
        if not filters.is_alike:
            return False
        node_of = self.board.ledger.pods.node
        waiting: dict[int, list[Step]] = {}
        chosen: list[Step] = []
        counter = filters.counter()
        for step in self._walk(frozenset()):
            node = node_of[step.pods[0]]
            if len(step.pods) > 1 and any(node_of[pod] != node for pod in step.pods):
                return False
            waiting.setdefault(node, []).append(step)
            if counter.add(node, step):
                chosen.extend(waiting.pop(node))
            if counter.is_enough:
                return bool(chosen) and self._take_all(chosen, filters)
        return False

    def _take_all(self, chosen: list[Step], filters: room.Room) -> bool:
        """Make room for all pods at the cost of these victims."""
        mark, state = self.board.checkpoint(), self.board.ledger.pods.state
        if self._try(self.chunk, chosen, filters, is_last=True) is None:
            return False
        if filters.size > ONE_BY_ONE or all(
            state[pod] in _LOST for step in chosen for pod in step.pods
        ):
            return True
        self.board.rollback(mark)
        return False

    # -- one node at a time ------------------------------------------------------------------

    def _grow(self, total: int) -> bool:
        """Make room for 1, 2, 3, … pods, keeping the victims found; in larger steps for many."""
        recorded: list[Step] = []
        low, high = 0, 1
        while low < high <= total:
            found = self._probe(high, recorded, is_last=high == total)
            if found is None:
                break
            recorded, low = found, high
            high = high + 1 if total <= ONE_BY_ONE else min(2 * high, total)
        if low == total:
            return True
        if low == 0 or total <= ONE_BY_ONE:
            return False
        while high - low > 1:
            middle = (low + high) // 2
            found = self._probe(middle, recorded, is_last=False)
            if found is None:
                high = middle
            else:
                recorded, low = found, middle
        return self._probe(total, recorded, is_last=True) is not None

    def _probe(self, count: int, recorded: list[Step], *, is_last: bool) -> list[Step] | None:
        """Return the victims that make room for the first `count` pods, or None."""
        part = cut(self.chunk, count) if count < len(self.chunk.members()) else self.chunk
        filters = room.Room(self.board, part.members())
        gone = frozenset(pod for step in recorded for pod in step.pods)
        if recorded:
            found = self._try(part, recorded, filters, is_last=is_last)
            if found is not None:
                return found
        nearby = Nearby(self.board)
        for step in self._walk(gone):
            nearby.add(step)
            for steps in nearby.scenarios(step.group):
                found = self._try(part, [*recorded, *steps], filters, is_last=is_last)
                if found is not None:
                    return found
            if self._is_spent:
                return None
        return None

    # -- several nodes together --------------------------------------------------------------

    def _together(self) -> bool:
        """Empty several nodes together for the whole chunk: least room first, then more.

        After each of the first victims, then each time there are twice as many, and at the end.
        """
        filters, nearby = room.Room(self.board, self.chunk.members()), Nearby(self.board)
        until = self.simulations + TRIES_FOR_ONE if filters.size == 1 else None
        number = 0
        for number, step in enumerate(self._walk(frozenset()), start=1):
            nearby.add(step)
            if number > CLOSE_LOOK and number & (number - 1):
                continue
            if self._empty_nodes(nearby, filters):
                return True
            if self._is_spent or (until is not None and self.simulations > until):
                return False
        return number > CLOSE_LOOK and self._empty_nodes(nearby, filters)

    def _empty_nodes(self, nearby: Nearby, filters: room.Room) -> bool:
        if not filters.might_fit(nearby.steps()):
            return False
        return any(
            self._try(self.chunk, steps, filters, is_last=True) is not None
            for steps in nearby.prefixes(filters)
        )

    @property
    def _is_spent(self) -> bool:
        return self.budget.left is not None and self.budget.left < 0

    # -- one try -----------------------------------------------------------------------------

    def _try(
        self, part: Chunk, steps: list[Step], filters: room.Room, *, is_last: bool
    ) -> list[Step] | None:
        """Return the victims that would really go or move, or None; keeps the last one's state."""
        if not filters.might_fit(steps) or not self.budget.spend():
            return None
        board, state = self.board, self.board.ledger.pods.state
        board.counts.simulations += 1
        self.simulations += 1
        mark = board.checkpoint()
        for step in steps:
            for pod in step.pods:
                board.evict(pod)
        if self.settling.settle(self.group, part, steps):
            in_order = sorted(steps, key=lambda step: self._turn[step.pods[0]])
            lost = _only(in_order, lambda pod: state[pod] in _LOST)
            if self.is_allowed(part, lost):
                # A gang is kept as a whole: evicting only its moved pods next time would break it.
                found = [step for step in steps if any(state[pod] in _AWAY for pod in step.pods)]
                if not is_last:
                    board.rollback(mark)
                return found
        board.rollback(mark)
        return None


def _only(steps: Iterable[Step], keep: Callable[[int], bool]) -> list[Step]:
    """Return the steps with the pods to keep, without those that have none."""
    found = (step.only(keep) for step in steps)
    return [step for step in found if step.pods]
