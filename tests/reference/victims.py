"""Who has to give, and in which order: kai-core section 5.2 and FORMAT.md's rule of leaving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING

from scheduler_service.model.pod import ALLOCATED, COUNTS_FOR_QUEUE, Pod, PodState
from scheduler_service.model.pod_group import SubGroup
from tests.reference.gang import Tree, has_enough, in_order, needed
from tests.reference.shares import ZERO, Amount, Books, plus

if TYPE_CHECKING:
    from tests.reference.allocate import Reference

States = list[tuple[Pod, PodState]]


@dataclass(frozen=True)
class Step:
    """Pods of one group that leave together: one loss."""

    group: str
    pods: tuple[Pod, ...]
    is_core: bool
    """Whether this is all that the group needs: without it nothing of the group is left."""
    number: int
    """How many had to go before it: losses are judged in this order (appendix B, 3)."""

    @property
    def keys(self) -> set[str]:
        """The keys of its pods."""
        return {pod.key for pod in self.pods}


def leaves_next(tree: Tree, states: States) -> tuple[list[Pod], bool]:
    """Return the pods of a group that leave next and whether that is all it needs."""
    surplus = _surplus(tree, tree.root, states)
    if surplus:
        return surplus, False
    return [pod for pod, state in states if state in COUNTS_FOR_QUEUE], True


def _placed(part: SubGroup, states: States) -> list[Pod]:
    names = {leaf.name for leaf in part.leaves()}
    return [p for p, state in states if state in COUNTS_FOR_QUEUE and p.sub_group in names]


def _surplus(tree: Tree, part: SubGroup, states: States) -> list[Pod]:
    """Return one step of what is above the need of a part; none if there is nothing."""
    if part.is_leaf:
        placed = in_order(_placed(part, states))
        return placed[-1:] if tree.have[part.name] > part.min_members else []
    children = tree.children_in_order(part)[::-1]
    for child in children:
        if step := _surplus(tree, child, states):
            return step
    enough = [child for child in children if has_enough(child, tree.have)]
    if len(enough) > needed(part):
        for child in enough:
            if step := _placed(child, states):
                return step
    return []


class Stack:
    """The groups that may have to give, worst first; what is taken off them is remembered."""

    def __init__(self, now: Reference, groups: set[str], protected: set[str]) -> None:
        self.now = now
        self.groups = set(groups)
        self.protected = protected
        self.gone: set[str] = set()
        self.count = 0
        self.lost: dict[str, Amount] = dict.fromkeys(now.queues, ZERO)
        """By queue, what the groups held whose turn has come, each time whole (3.5)."""
        self.books: Books = now.books()

    def _states(self, key: str) -> States:
        return [
            (pod, self.now.places[pod.key].state)
            for pod in self.now.members[key]
            if pod.key not in self.gone
        ]

    def _rank(self, key: str) -> tuple[object, ...]:
        group = self.now.groups[key]
        state = Tree(group, self._states(key)).state()
        return -group.priority, ("below", "exact", "above").index(state), group.created, group.name

    def _held(self, key: str) -> Amount:
        amount = ZERO
        for pod, state in self._states(key):
            if state in ALLOCATED:
                amount = plus(amount, self.now.held(pod))
        return amount

    def pop(self) -> Step | None:
        """Return what has to go next; None: nothing is left."""
        while self.groups:
            key = self._worst()
            states = self._states(key)
            pods, is_core = leaves_next(Tree(self.now.groups[key], states), states)
            is_short = Tree(self.now.groups[key], states).state() == "below"
            if not pods or ((is_core or is_short) and key in self.protected):
                self.groups.discard(key)
                continue
            for queue in self.books.path(self.now.groups[key].queue):
                self.lost[queue.name] = plus(self.lost[queue.name], self._held(key))
            self.gone |= {pod.key for pod in pods}
            if not any(state in COUNTS_FOR_QUEUE for _, state in self._states(key)):
                self.groups.discard(key)
            self.count += 1
            return Step(key, tuple(pods), is_core, self.count)
        return None

    def _worst(self) -> str:
        """Walk down from the top, at each level to the queue that gives first."""
        heads: dict[str, str] = {}
        for key in sorted(self.groups, key=self._rank):
            heads[self.now.groups[key].queue] = key  # the last one stays

        def give(parent: str | None) -> str | None:
            below: dict[str, str] = {}
            for queue in self.now.snapshot.queues:
                if queue.parent == parent:
                    head = heads.get(queue.name) or give(queue.name)
                    if head is not None:
                        below[queue.name] = head
            if not below:
                return None
            losses = {q: plus(self.lost[q], self._held(head)) for q, head in below.items()}
            return below[self._last(below, losses)]

        found = give(None)
        assert found is not None
        return found

    def _last(self, names: Mapping[str, str], losses: Mapping[str, Amount]) -> str:
        def compare(a: str, b: str) -> int:
            return -1 if self.books.is_before(a, b, {}, losses) else 1

        return max(names, key=cmp_to_key(compare))
