"""A group's tree of sub-groups: what is ready, what starts next, what leaves next.

One rule, used with different pods: a leaf has enough when `min_members` of its pods count, an
inner group (and the root) when `min_subgroups` (default all) of its direct children have enough.
Succeeded pods always count. FORMAT.md, "How min_subgroups works".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import msgspec

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group, Leaf
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.pod_group import SubGroup

Count = Callable[[Leaf], int]
BELOW, EXACT, ABOVE = range(3)
_ACTIVE = tuple(state for state, active in enumerate(states.IS_ACTIVE) if active)


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Pods that start together, in the shape of the tree: `pods` at a leaf, `children` inside."""

    sub_group: SubGroup
    pods: tuple[int, ...] = ()
    children: tuple[Chunk, ...] = ()

    def members(self) -> tuple[int, ...]:
        """Return all its pods, in the order they are placed."""
        if not self.children:
            return self.pods
        return tuple(pod for child in self.children for pod in child.members())


def active(leaf: Leaf) -> int:
    """Return how many pods run, are bound or promised."""
    counts = leaf.counts
    return (
        counts[states.RUNNING]
        + counts[states.BINDING]
        + counts[states.PIPELINED]
        + counts[states.BOUND]
    )


def having(leaf: Leaf) -> int:
    """Return what counts towards the minimum: active and succeeded pods."""
    return active(leaf) + leaf.counts[states.SUCCEEDED]


def possible(leaf: Leaf) -> int:
    """Return what could count: active, succeeded and pending pods."""
    return having(leaf) + leaf.counts[states.PENDING]


def present(leaf: Leaf) -> int:
    """Return what counts against being stale: active, succeeded and leaving pods."""
    return having(leaf) + leaf.counts[states.RELEASING] + leaf.counts[states.STUCK]


def needed(sub_group: SubGroup) -> int:
    """Return how many members, or direct children, are needed."""
    if sub_group.is_leaf:
        return sub_group.min_members
    if sub_group.min_subgroups is None:
        return len(sub_group.children)
    return sub_group.min_subgroups


def have(group: Group, sub_group: SubGroup, count: Count) -> int:
    """Return how many members count, or direct children have enough."""
    if sub_group.is_leaf:
        return count(group.leaves[sub_group.name])
    return sum(has_enough(group, child, count) for child in sub_group.children)


def has_enough(group: Group, sub_group: SubGroup, count: Count) -> bool:
    """Say whether a node of the tree has what it needs, with the pods that `count` counts."""
    return have(group, sub_group, count) >= needed(sub_group)


def is_ready(group: Group) -> bool:
    """Say whether anything of the group may start: the pods it needs are there."""
    if group.is_flat:
        leaf = group.leaf
        minimum = leaf.spec.min_members
        return leaf.counts[states.PENDING] >= minimum or possible(leaf) >= minimum
    return has_enough(group, group.model.gang, possible)


def is_satisfied(group: Group) -> bool:
    """Say whether the group has its minimum, promised pods included."""
    return has_enough(group, group.model.gang, having)


def progress(group: Group) -> int:
    """Return BELOW, EXACT or ABOVE the minimum."""
    if group.is_flat:
        leaf = group.leaf
        placed = active(leaf)
        surplus = placed + leaf.counts[states.SUCCEEDED] - leaf.spec.min_members
        if surplus > 0 and placed:
            return ABOVE
        return EXACT if surplus >= 0 else BELOW
    if not is_satisfied(group):
        return BELOW
    return ABOVE if _has_surplus(group, group.model.gang) else EXACT


def _has_surplus(group: Group, sub_group: SubGroup) -> bool:
    if sub_group.is_leaf:
        leaf = group.leaves[sub_group.name]
        return having(leaf) > sub_group.min_members and active(leaf) > 0
    if any(_has_surplus(group, child) for child in sub_group.children):
        return True
    if have(group, sub_group, having) <= needed(sub_group):
        return False
    can_go = (child for child in sub_group.children if has_enough(group, child, having))
    return any(active(group.leaves[leaf.name]) for child in can_go for leaf in child.leaves())


# -- order of children and of pods ---------------------------------------------------------------


def ordered_pods(ledger: Ledger, leaf: Leaf) -> list[int]:
    """Return a leaf's pods in the order they start: precedence, then name."""
    if leaf.order is None:
        models = ledger.pods.models

        def key(pod: int) -> tuple[bool, int, str]:
            model = models[pod]
            return model.precedence is None, -(model.precedence or 0), model.name

        leaf.order = sorted(leaf.pods, key=key) if len(leaf.pods) > 1 else list(leaf.pods)
    return leaf.order


def ordered_children(group: Group, sub_group: SubGroup, could: Count = possible) -> list[SubGroup]:
    """Return the children, the first to start first; `could` counts what a short one may get."""

    def key(child: SubGroup) -> tuple[int, int, Fraction | int, str]:
        own, need = have(group, child, having), needed(child)
        if own < need:
            return 0, not has_enough(group, child, could), 0, child.name
        if need == 0:
            return 2, 0, own, child.name
        return 1, 0, Fraction(own, need), child.name

    return sorted(sub_group.children, key=key)


# -- what starts next ----------------------------------------------------------------------------


def next_chunk(ledger: Ledger, group: Group) -> Chunk | None:
    """Return what of a group starts together next, or None."""
    if not group.is_flat:
        return Starting(ledger, group).next_chunk()
    leaf, root = group.leaf, group.model.gang
    if len(leaf.pods) == 1:
        pods = tuple(leaf.pods) if leaf.counts[states.PENDING] else ()
    else:
        lacking = leaf.spec.min_members - having(leaf)
        pods = _pending(ledger, leaf, lacking if lacking > 0 else 1)
    if not pods:
        return None
    chunk = Chunk(leaf.spec, pods)
    return chunk if root.topology is None else Chunk(root, (), (chunk,))


def _pending(ledger: Ledger, leaf: Leaf, limit: int) -> tuple[int, ...]:
    state, found = ledger.pods.state, []
    for pod in ordered_pods(ledger, leaf):
        if state[pod] == states.PENDING:
            found.append(pod)
            if len(found) == limit:
                break
    return tuple(found)


@dataclass(slots=True)
class Starting:
    """Chooses a group's next chunk; with `simulated`, pods evicted in this try may start too.

    Of a victim that is not ready only those evicted may: what it lacks of them, or else one. The
    pods `first` (and the sub-groups they are in) come before the others.
    """

    ledger: Ledger
    group: Group
    simulated: bool = False
    pending: bool = True
    first: Collection[int] = ()

    def can_start(self) -> bool:
        """Say whether the group would have its minimum if all that may start found a place."""
        return self._is_whole(self.group.model.gang)

    def next_chunk(self) -> Chunk | None:
        """Return what starts together next, or None."""
        root = self.group.model.gang
        if self.simulated and self.pending and not self._is_whole(root):
            return replace(self, pending=False).next_chunk()
        if self.group.is_flat:
            return self._flat(root)
        if has_enough(self.group, root, having):
            return self._growth(root)
        return self._missing(root) or (None if self.pending else self._any(root))

    def _any(self, sub_group: SubGroup) -> Chunk | None:
        """Return one pod that may start, needed or not."""
        if sub_group.is_leaf:
            pods = self._eligible(self.group.leaves[sub_group.name], 1)
            return Chunk(sub_group, pods) if pods else None
        parts = (self._any(child) for child in self._order(sub_group))
        part = next((part for part in parts if part is not None), None)
        return None if part is None else Chunk(sub_group, (), (part,))

    def _flat(self, root: SubGroup) -> Chunk | None:
        leaf = self.group.leaf
        lacking = leaf.spec.min_members - having(leaf)
        pods = self._eligible(leaf, lacking if lacking > 0 else 1)
        if not pods:
            return None
        chunk = Chunk(leaf.spec, pods)
        return chunk if root.topology is None else Chunk(root, (), (chunk,))

    def _eligible(self, leaf: Leaf, limit: int) -> tuple[int, ...]:
        ledger, state = self.ledger, self.ledger.pods.state
        found: list[int] = []
        for pod in self._in_order(leaf):
            if (self.pending and state[pod] == states.PENDING) or (
                self.simulated
                and state[pod] == states.RELEASING
                and ledger.before.get(pod) is not None
            ):
                found.append(pod)
                if len(found) == limit:
                    break
        return tuple(found)

    def _in_order(self, leaf: Leaf) -> list[int]:
        pods = ordered_pods(self.ledger, leaf)
        return sorted(pods, key=lambda pod: pod not in self.first) if self.first else pods

    def _missing(self, sub_group: SubGroup) -> Chunk | None:
        """Return all that a node lacks to have enough."""
        if sub_group.is_leaf:
            leaf = self.group.leaves[sub_group.name]
            pods = self._eligible(leaf, sub_group.min_members - having(leaf))
            return Chunk(sub_group, pods) if pods else None
        short_of = needed(sub_group) - have(self.group, sub_group, having)
        parts: list[Chunk] = []
        for child in self._order(sub_group)[:short_of]:
            part = self._missing(child)
            if part is not None:
                parts.append(part)
        return Chunk(sub_group, (), tuple(parts)) if parts else None

    def _growth(self, sub_group: SubGroup) -> Chunk | None:
        """Return one more step of a node that has enough."""
        if sub_group.is_leaf:
            pods = self._eligible(self.group.leaves[sub_group.name], 1)
            return Chunk(sub_group, pods) if pods else None
        for child in self._order(sub_group):
            if has_enough(self.group, child, having):
                part = self._growth(child)
            elif self._is_whole(child):
                part = self._missing(child)
            else:
                continue
            if part is not None:
                return Chunk(sub_group, (), (part,))
        return None

    def _possible(self, leaf: Leaf) -> int:
        if not self.simulated:
            return possible(leaf)
        return having(leaf) + len(self._eligible(leaf, len(leaf.pods) + 1))

    def _is_whole(self, sub_group: SubGroup) -> bool:
        return has_enough(self.group, sub_group, self._possible)

    def _order(self, sub_group: SubGroup) -> list[SubGroup]:
        children = ordered_children(self.group, sub_group, self._possible)
        return sorted(children, key=self._rank) if self.first else children

    def _rank(self, child: SubGroup) -> tuple[bool, bool, bool]:
        """Return where a child stands; among those that lack as much, who has a first pod leads."""
        leaves = (self.group.leaves[leaf.name] for leaf in child.leaves())
        has_first = any(pod in self.first for leaf in leaves for pod in leaf.pods)
        return has_enough(self.group, child, having), not self._is_whole(child), not has_first


# -- what is there ----------------------------------------------------------------------------


def _active_pods(ledger: Ledger, group: Group, sub_group: SubGroup) -> list[int]:
    state = ledger.pods.state
    return [
        pod
        for leaf in sub_group.leaves()
        for pod in ordered_pods(ledger, group.leaves[leaf.name])
        if states.IS_ACTIVE[state[pod]]
    ]


def active_pods(ledger: Ledger, group: Group) -> Iterator[int]:
    """Yield the pods of a group that run, are bound or promised."""
    yield from _active_pods(ledger, group, group.model.gang)
