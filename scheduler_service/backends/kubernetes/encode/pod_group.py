"""A PodGroup as plain objects: what the API holds as grouping reads it, and the patch to what it should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler_service.backends.kubernetes.decode.groups import (
    PodGroupSpec,
    RawConstraint,
    RawPodGroup,
    RawSubGroup,
)
from scheduler_service.backends.kubernetes.objects import OwnerReference
from scheduler_service.grouping.manifest import API_VERSION

Table = dict[str, Any]


def as_table(raw: RawPodGroup) -> Table:
    """Return the object as the API writes it; what is not said is left out."""
    meta = raw.metadata
    metadata: Table = {
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "labels": dict(meta.labels),
        "annotations": dict(meta.annotations),
    }
    if meta.owner_references:
        metadata["ownerReferences"] = [owner_table(each) for each in meta.owner_references]
    return {
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": _spec(raw.spec),
    }


def owner_table(owner: OwnerReference) -> Table:
    """Return a reference to an owner as the API writes it."""
    found: Table = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if owner.controller:
        found["controller"] = True
    if owner.block_owner_deletion is not None:
        found["blockOwnerDeletion"] = owner.block_owner_deletion
    return found


def _spec(spec: PodGroupSpec) -> Table:
    texts = {
        "queue": spec.queue,
        "priorityClassName": spec.priority_class_name,
        "preemptibility": spec.preemptibility,
        "preemptionDelay": spec.preemption_delay,
        "stalenessGracePeriod": spec.staleness_grace_period,
    }
    found: Table = {key: word for key, word in texts.items() if word}
    for key, number in (("minMember", spec.min_member), ("minSubGroup", spec.min_sub_group)):
        if number is not None:
            found[key] = number
    if spec.topology_constraint is not None:
        found["topologyConstraint"] = _constraint(spec.topology_constraint)
    if spec.sub_groups:
        found["subGroups"] = [_sub_group(each) for each in spec.sub_groups]
    return found


def _sub_group(raw: RawSubGroup) -> Table:
    found: Table = {"name": raw.name}
    if raw.parent:
        found["parent"] = raw.parent
    for key, number in (("minMember", raw.min_member), ("minSubGroup", raw.min_sub_group)):
        if number is not None:
            found[key] = number
    if raw.topology_constraint is not None:
        found["topologyConstraint"] = _constraint(raw.topology_constraint)
    return found


def _constraint(raw: RawConstraint) -> Table:
    words = {
        "topology": raw.topology,
        "requiredTopologyLevel": raw.required_topology_level,
        "preferredTopologyLevel": raw.preferred_topology_level,
    }
    return {key: word for key, word in words.items() if word}


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> Table:
    """Return the merge patch from one object to the other: only what differs, so that no other field is touched."""
    patch: Table = {}
    for key in old.keys() | new.keys():
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if key not in new:
            patch[key] = None
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            patch[key] = difference(before, after)
        else:
            patch[key] = after
    return patch


def change(old: Mapping[str, Any], new: Mapping[str, Any]) -> Table:
    """Return the patch of an object that is only taken by the version it was made for."""
    patch = difference(old, new)
    meta = old["metadata"]
    metadata = {**patch.get("metadata", {}), "resourceVersion": meta["resourceVersion"]}
    return {**patch, "metadata": metadata}
