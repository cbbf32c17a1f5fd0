"""Pods that start together: at least the minimum of them, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from scheduler_service.model.resources import nothing
from scheduler_service.model.topology import TopologyConstraint


class Preemptibility(StrEnum):
    """Whether others may take a group's place.

    Semi-preemptible: pods up to the minimum are as non-preemptible, surplus as preemptible.
    """

    PREEMPTIBLE = "preemptible"
    SEMI_PREEMPTIBLE = "semi-preemptible"
    NON_PREEMPTIBLE = "non-preemptible"


class SubGroup(msgspec.Struct, frozen=True, gc=False):
    """A node of a group's tree: an inner one has `children`, a leaf has `min_members`.

    `min_subgroups`: how many direct children are needed, None = all. The root's name is "".
    """

    name: str = ""
    min_members: int = 1
    min_subgroups: int | None = None
    topology: TopologyConstraint | None = None
    children: tuple[SubGroup, ...] = ()

    @property
    def is_leaf(self) -> bool:
        """Whether pods, not sub-groups, are its members."""
        return not self.children

    def leaves(self) -> Iterator[SubGroup]:
        """Yield the leaves below (or itself), left to right."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


def flat_gang(min_members: int, topology: TopologyConstraint | None = None) -> SubGroup:
    """Return the tree of a group without sub-groups: a root over one leaf "default"."""
    return SubGroup(topology=topology, children=(SubGroup("default", min_members),))


class PodGroup(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A group and its rules. It is known by `namespace/name`.

    `created` is its order, smaller first (in life: ms since the epoch). `owner`, `kind` and
    `labels` mean nothing to the planner, except `owner` under user fairness. Moments and times
    in ms; `stale_grace_ms` UNSET = the policy's, None = never. `made_ms`, `last_evicted_ms` are
    for `preemption_delay_ms`, None = long ago, never. `waits_since_ms`: since when it wants to run,
    for ageing and reservations; None = it does not age. `run_ms`: how long it runs once started,
    as it said itself; None = nobody knows.
    """

    name: str
    namespace: str
    queue: str
    gang: SubGroup = msgspec.field(default_factory=lambda: flat_gang(1))
    priority: int = 50
    preemptibility: Preemptibility = Preemptibility.PREEMPTIBLE
    created: int = 0
    stale_since_ms: int | None = None
    started_ms: int | None = None
    stale_grace_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    preemption_delay_ms: int | None = None
    made_ms: int | None = None
    last_evicted_ms: int | None = None
    waits_since_ms: int | None = None
    run_ms: int | None = None
    owner: str = ""
    kind: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=nothing)

    @property
    def key(self) -> str:
        """The group's identity: namespace/name."""
        return f"{self.namespace}/{self.name}"

    def waited_ms(self, now_ms: int) -> int:
        """Return how long it has been waiting, if it waits; 0 where that is not known."""
        if self.waits_since_ms is None:
            return 0
        since = max(self.waits_since_ms, self.last_evicted_ms or 0, self.started_ms or 0)
        return max(0, now_ms - since)

    @property
    def preemptible(self) -> bool:
        """Whether all of it may be taken by others."""
        return self.preemptibility is Preemptibility.PREEMPTIBLE

    @property
    def min_members(self) -> int:
        """The sum of its leaves' minima."""
        return sum(leaf.min_members for leaf in self.gang.leaves())
