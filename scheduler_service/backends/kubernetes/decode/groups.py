"""From KAI's PodGroup to the model's: the tree of sub-groups, priority, preemptibility, times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.quantities import moment_or_none
from scheduler_service.backends.kubernetes.objects import (
    Meta,
    Quantities,
    RawPriorityClass,
    decoder,
)
from scheduler_service.grouping import keys
from scheduler_service.grouping.durations import duration_ms
from scheduler_service.model.pod_group import PodGroup, Preemptibility, SubGroup, flat_gang
from scheduler_service.model.resources import nothing
from scheduler_service.model.topology import TopologyConstraint

DEEPEST = 16
"""Trees deeper than this are nobody's; it also ends a circle."""


class RawConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where members must, and should, be together."""

    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class RawSubGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One node of a group's tree, as the API has it: flat, with the parent's name."""

    name: str
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str | None = None
    topology_constraint: RawConstraint | None = None


class PodGroupSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a group asks for."""

    queue: str = ""
    min_member: int | None = None
    min_sub_group: int | None = None
    priority_class_name: str = ""
    preemptibility: str = ""
    sub_groups: tuple[RawSubGroup, ...] = ()
    topology_constraint: RawConstraint | None = None
    mark_unschedulable: bool = True
    scheduling_backoff: int = -1
    preemption_delay: str = ""
    staleness_grace_period: str = ""


class SchedulingCondition(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "transition_id": "transitionID",
        "node_pool": "nodePool",
        "last_transition_time": "lastTransitionTime",
    },
):
    """A verdict of a scheduler on a group."""

    type: str = ""
    node_pool: str = ""
    status: str = ""
    transition_id: str = ""
    last_transition_time: str | None = None
    reasons: tuple[Mapping[str, Any], ...] = ()
    reason: str = ""
    message: str = ""


class ResourcesStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the pods of a group ask for and hold."""

    allocated: Quantities = msgspec.field(default_factory=nothing)
    allocated_non_preemptible: Quantities = msgspec.field(default_factory=nothing)
    requested: Quantities = msgspec.field(default_factory=nothing)


NO_RESOURCES = ResourcesStatus()


class PodGroupStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What schedulers and controllers said of a group."""

    resources_status: ResourcesStatus = NO_RESOURCES
    scheduling_conditions: tuple[SchedulingCondition, ...] = ()


class RawPodGroup(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup of the API."""

    metadata: Meta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


decode_pod_group = decoder(RawPodGroup)


class Classes(msgspec.Struct, gc=False):
    """The priority classes of the cluster."""

    by_name: dict[str, int] = msgspec.field(default_factory=dict)
    default: int | None = None

    @classmethod
    def of(cls, found: Mapping[str, RawPriorityClass]) -> Classes:
        """Return the classes by name, with the cluster's default."""
        defaults = [item.value for item in found.values() if item.global_default]
        return cls(
            {item.metadata.name: item.value for item in found.values()},
            max(defaults) if defaults else None,
        )

    def value(self, name: str) -> int:
        """Return the priority of a class; an unknown one counts as the cluster's default, else as KAI's 50."""
        if name in self.by_name:
            return self.by_name[name]
        return self.default if self.default is not None else names.DEFAULT_PRIORITY


def is_released(raw: RawPodGroup) -> bool:
    """Whether its workload is over, suspended or being deleted: nothing of it is placed any more."""
    return bool(raw.metadata.annotations.get(keys.RELEASED) or raw.metadata.deletion_timestamp)


def has_given_up(raw: RawPodGroup, pool: str) -> bool:
    """Whether a group wants one try only in a node pool, and had it."""
    if raw.spec.scheduling_backoff != 1 or not raw.status.scheduling_conditions:
        return False
    newest = max(raw.status.scheduling_conditions, key=lambda item: int(item.transition_id or 0))
    return newest.node_pool == (pool or names.DEFAULT_NODE_POOL)


def constraint_of(raw: RawConstraint | None) -> TopologyConstraint | None:
    """Return the constraint, None where it names no topology."""
    if raw is None or not raw.topology:
        return None
    return TopologyConstraint(
        raw.topology,
        raw.required_topology_level or None,
        raw.preferred_topology_level or None,
    )


def gang_of(spec: PodGroupSpec) -> SubGroup:
    """Return the tree of a group. A sub-group of an unknown parent hangs below the root."""
    topology = constraint_of(spec.topology_constraint)
    if not spec.sub_groups:
        return _flat(1 if spec.min_member is None else max(0, spec.min_member), topology)
    known = {item.name.lower() for item in spec.sub_groups}
    children: dict[str, list[RawSubGroup]] = {}
    for item in spec.sub_groups:
        parent = (item.parent or "").lower()
        children.setdefault(parent if parent in known else "", []).append(item)
    return SubGroup(
        min_subgroups=spec.min_sub_group,
        topology=topology,
        children=tuple(_node(item, children, 1) for item in children.get("", ())),
    )


_FLAT: dict[int, SubGroup] = {}


def _flat(min_members: int, topology: TopologyConstraint | None) -> SubGroup:
    """Return the tree of a flat group; equal ones without a topology are one object."""
    if topology is not None:
        return flat_gang(min_members, topology)
    return _FLAT.setdefault(min_members, flat_gang(min_members))


def _node(raw: RawSubGroup, children: Mapping[str, list[RawSubGroup]], depth: int) -> SubGroup:
    below = children.get(raw.name.lower(), ()) if depth < DEEPEST else ()
    topology = constraint_of(raw.topology_constraint)
    if not below:
        return SubGroup(raw.name, max(0, raw.min_member or 0), topology=topology)
    return SubGroup(
        raw.name,
        min_subgroups=raw.min_sub_group,
        topology=topology,
        children=tuple(_node(item, children, depth + 1) for item in below),
    )


def preemptibility_of(said: str, priority: int) -> Preemptibility:
    """Return what the group says, else what its priority means to KAI."""
    try:
        return Preemptibility(said)
    except ValueError:
        pass
    if priority < names.NON_PREEMPTIBLE_FROM:
        return Preemptibility.PREEMPTIBLE
    return Preemptibility.NON_PREEMPTIBLE


def _grace(text: str) -> int | msgspec.UnsetType | None:
    """Return the group's own grace: UNSET = the policy's, None = never."""
    value = duration_ms(text) if text else None
    if value is None:
        return msgspec.UNSET
    return None if value < 0 else value


def group_of(raw: RawPodGroup, classes: Classes) -> PodGroup:
    """Return the model's group."""
    meta, spec = raw.metadata, raw.spec
    notes = meta.annotations
    priority = classes.value(spec.priority_class_name)
    delay = duration_ms(spec.preemption_delay) if spec.preemption_delay else None
    created = moment_or_none(meta.creation_timestamp) or 0
    return PodGroup(
        name=meta.name,
        namespace=meta.namespace,
        queue=spec.queue,
        gang=gang_of(spec),
        priority=priority,
        preemptibility=preemptibility_of(spec.preemptibility, priority),
        created=created,
        stale_since_ms=moment_or_none(notes.get(names.STALE_SINCE)),
        started_ms=moment_or_none(notes.get(names.LAST_START)),
        stale_grace_ms=_grace(spec.staleness_grace_period),
        preemption_delay_ms=delay if delay and delay > 0 else None,
        made_ms=created or None,
        waits_since_ms=created or None,
        last_evicted_ms=moment_or_none(notes.get(names.LAST_EVICTION)),
        owner=notes.get(names.OWNER_ANNOTATION) or meta.labels.get(keys.USER, ""),
    )
