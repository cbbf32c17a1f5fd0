"""Pod groups and their leaves by row, with a count of pods in each state per leaf."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler_service.ledger.states import STUCK
from scheduler_service.model.pod_group import PodGroup, SubGroup
from scheduler_service.model.topology import TopologyConstraint

STATES = STUCK + 1


class Leaf(msgspec.Struct, gc=False, eq=False):
    """One leaf of a group's tree: its pods, and how many are in each state (journaled)."""

    spec: SubGroup
    pods: list[int]
    counts: list[int]
    order: list[int] | None = None
    """Its pods in the order they start; None when pods came or went."""


def new_leaf(spec: SubGroup) -> Leaf:
    """Return a leaf without pods."""
    return Leaf(spec, [], [0] * STATES)


class Group(msgspec.Struct, gc=False, eq=False):
    """A group's place in the book: model, queue row, leaves by name.

    There are as many groups as people have things running, so one with a single leaf keeps
    nothing that can be made when somebody asks.
    """

    key: str
    model: PodGroup
    queue: int
    leaf: Leaf
    """The first leaf: the only one of a flat group."""
    is_flat: bool = True
    several: dict[str, Leaf] | None = None
    """The leaves by name, except where a root has one leaf."""

    @property
    def leaves(self) -> dict[str, Leaf]:
        """The leaves by name."""
        return self.several or {self.leaf.spec.name: self.leaf}

    @property
    def topology(self) -> TopologyConstraint | None:
        """The constraint of a flat group, its root's or its leaf's: resources alone do not say where it may be."""
        return self.model.gang.topology or self.leaf.spec.topology

    def leaf_named(self, name: str) -> Leaf | None:
        """Return a leaf, if the tree has it."""
        if self.several is None:
            return self.leaf if self.leaf.spec.name == name else None
        return self.several.get(name)

    def count(self, state: int) -> int:
        """Return how many of its pods are in a state."""
        return sum(leaf.counts[state] for leaf in self.leaves.values())

    def pods(self) -> Iterator[int]:
        """Yield the rows of its pods, leaf by leaf."""
        for leaf in self.leaves.values():
            yield from leaf.pods


def only_leaf(root: SubGroup) -> SubGroup | None:
    """Return the leaf of a tree that is nothing but a root over one leaf."""
    children = root.children
    if len(children) == 1 and not children[0].children:
        return children[0]
    return None


def new_group(key: str, model: PodGroup, queue: int) -> Group:
    """Return a group without pods."""
    root = model.gang
    only = only_leaf(root)
    if only is not None:
        return Group(key, model, queue, new_leaf(only), root.min_subgroups is None)
    leaves = {spec.name: new_leaf(spec) for spec in root.leaves()}
    return Group(key, model, queue, next(iter(leaves.values())), not root.children, leaves)
