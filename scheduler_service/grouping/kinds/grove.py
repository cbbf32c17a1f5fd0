"""Grove: its PodGang says which pods belong together; we only read it."""

from __future__ import annotations

import msgspec

from scheduler_service.grouping import keys
from scheduler_service.grouping.objects import Object
from scheduler_service.grouping.owners import Reference
from scheduler_service.grouping.shape import Shape, Workload, gang, group_name, with_children
from scheduler_service.model.pod_group import SubGroup
from scheduler_service.model.topology import TopologyConstraint

_POD_GANG = "grove.io/podgang"
_TOPOLOGY_NAME = "grove.io/topology-name"
_API_VERSION = "scheduler.grove.io/v1alpha1"


def pod_clique_set(work: Workload) -> Shape:
    """Return the tree of the PodGang that the pod's label names."""
    pod_gang = _pod_gang(work)
    asked_by = (pod_gang, *work.owners)
    topology = _topology_name(asked_by)
    leaves = {each.text("name"): _leaf(pod_gang, each, topology) for each in _pod_groups(pod_gang)}
    if not leaves:
        raise pod_gang.refusal("spec.podgroups is empty.", hint="Look at Grove's log.")
    labels = (each.labels.get(keys.PRIORITY_CLASS, "") for each in asked_by)
    priority = next(filter(None, labels), "") or pod_gang.text("spec", "priorityClassName")
    shape = msgspec.structs.replace(
        gang(work, minimum=sum(leaf.min_members for leaf in leaves.values())),
        name=group_name(pod_gang),
        owner=pod_gang,
        asked_by=asked_by,
        priority_class=priority,
        topology=_constraint(pod_gang.part("spec"), topology)
        or _asked_topology(asked_by, topology),
    )
    return with_children(shape, _nested(pod_gang, leaves, topology), leaf=_leaf_of(work, pod_gang))


def _pod_gang(work: Workload) -> Object:
    name = work.pod.labels.get(_POD_GANG, "")
    if not name:
        raise work.pod.refusal(f"It lacks the label {_POD_GANG}.", hint="Look at Grove's log.")
    found = work.read(Reference(_API_VERSION, "PodGang", work.pod.namespace, name))
    if found is None:
        raise work.pod.refusal(
            f"PodGang {work.pod.namespace}/{name} is not there or may not be read.",
            hint="Look whether Grove's operator runs.",
        )
    return found


def _pod_groups(pod_gang: Object) -> tuple[Object, ...]:
    return pod_gang.entries("spec", "podgroups") or pod_gang.entries("spec", "podGroups")


def _leaf(pod_gang: Object, spec: Object, topology: str) -> SubGroup:
    minimum = spec.number("minReplicas")
    name = spec.text("name")
    if not name or not minimum:
        raise pod_gang.refusal(
            f"Its pod group {name!r} has no name or no minReplicas of 1 or more.",
            hint="Look at Grove's log.",
        )
    return SubGroup(name, minimum, topology=_constraint(spec, topology))


def _nested(pod_gang: Object, leaves: dict[str, SubGroup], topology: str) -> tuple[SubGroup, ...]:
    """Return leaves and the parents that some of them share a topology constraint under."""
    rest = dict(leaves)
    parents: dict[str, SubGroup] = {}
    for spec in pod_gang.entries("spec", "topologyConstraintGroupConfigs"):
        listed = spec.value("podGroupNames")
        names = [name for name in listed if name in rest] if isinstance(listed, list) else []
        if names:
            children = tuple(rest.pop(name) for name in names)
            parents[names[0]] = SubGroup(
                spec.text("name") or f"group-{len(parents)}",
                topology=_constraint(spec, topology),
                min_subgroups=len(children),
                children=children,
            )
    return tuple((parents | rest)[name] for name in leaves if name in parents or name in rest)


def _leaf_of(work: Workload, pod_gang: Object) -> str:
    place = (work.pod.namespace, work.pod.name)
    for spec in _pod_groups(pod_gang):
        for pod in spec.entries("podReferences"):
            if (pod.text("namespace") or work.pod.namespace, pod.text("name")) == place:
                return spec.text("name")
    raise work.pod.refusal(
        f"{pod_gang} does not list it yet.", hint="Grove adds it to spec.podgroups in a moment."
    )


def _topology_name(asked_by: tuple[Object, ...]) -> str:
    names = (
        each.annotations.get(key) for each in asked_by for key in (_TOPOLOGY_NAME, keys.TOPOLOGY)
    )
    return next(filter(None, names), "")


def _constraint(spec: Object, topology: str) -> TopologyConstraint | None:
    packed = spec.part("topologyConstraint", "packConstraint")
    required, preferred = packed.text("required"), packed.text("preferred")
    if not topology or not (required or preferred):
        return None
    return TopologyConstraint(topology, required or None, preferred or None)


def _asked_topology(asked_by: tuple[Object, ...], topology: str) -> TopologyConstraint | None:
    """Return what annotations ask: Grove hands its owner's on to nobody."""

    def first(key: str) -> str | None:
        return next(filter(None, (each.annotations.get(key) for each in asked_by)), None)

    required, preferred = first(keys.TOPOLOGY_REQUIRED), first(keys.TOPOLOGY_PREFERRED)
    if not topology or not (required or preferred):
        return None
    return TopologyConstraint(topology, required, preferred)
