"""A group as KAI's PodGroup (scheduling.run.ai/v2alpha2), and what to write for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler_service.grouping import keys
from scheduler_service.grouping.description import GroupDescription, Grouped
from scheduler_service.grouping.durations import duration_text
from scheduler_service.grouping.objects import Object, Raw
from scheduler_service.grouping.settings import GroupingSettings
from scheduler_service.model.pod_group import SubGroup
from scheduler_service.model.topology import TopologyConstraint

API_VERSION = "scheduling.run.ai/v2alpha2"
OURS = "kai.scheduler/"
_DECIDED_BY_WORKLOAD = {
    "minMember",
    "minSubGroup",
    "subGroups",
    "preemptibility",
    "preemptionDelay",
    "stalenessGracePeriod",
}
"""These fields go when the workload no longer asks for them."""


def manifest(group: GroupDescription) -> dict[str, Any]:
    """Return the object as it is first created."""
    annotations = {**group.annotations, keys.OWNER_QUEUE: group.owner_queue}
    if group.released:
        annotations[keys.RELEASED] = group.released.value
    owner = {
        "apiVersion": group.owner.api_version,
        "kind": group.owner.kind,
        "name": group.owner.name,
        "uid": group.owner.uid,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": group.name,
            "namespace": group.namespace,
            "labels": dict(sorted(group.labels.items())),
            "annotations": dict(sorted(annotations.items())),
            "ownerReferences": [owner],
        },
        "spec": _spec(group),
    }


def merged(
    group: GroupDescription, existing: Raw, settings: GroupingSettings
) -> dict[str, Any] | None:
    """Return the object as it is to become, None where nothing changes.

    What others set stays: marks, back-off, node pool, a queue moved by hand, a topology where the
    workload has none, and all labels and annotations that the workload does not know.
    """
    wanted, old = manifest(group), Object(existing)
    spec = _merged_spec(group, wanted["spec"], old)
    annotations = {**old.annotations, **_taken_over(group, wanted, old)}
    if not group.released:
        annotations.pop(keys.RELEASED, None)
    metadata = {
        **old.table("metadata"),
        "labels": _merged_labels(wanted["metadata"]["labels"], old, spec["queue"], settings),
        "annotations": annotations,
        "ownerReferences": wanted["metadata"]["ownerReferences"],
    }
    new = {**existing, "metadata": metadata, "spec": spec}
    return None if new == _complete(old) else new


def _taken_over(group: GroupDescription, wanted: Raw, old: Object) -> dict[str, str]:
    """Return the workload's annotations that its group takes over.

    A lone pod is its own workload, and what a kubelet or a network plug-in notes on it later says nothing of the
    group: it would cost a write for each pod that starts.
    """
    notes: dict[str, str] = wanted["metadata"]["annotations"]
    if group.owner.kind != "Pod":
        return notes
    return {
        key: word for key, word in notes.items() if key in old.annotations or key.startswith(OURS)
    }


def _merged_spec(group: GroupDescription, wanted: dict[str, Any], old: Object) -> dict[str, Any]:
    before = old.table("spec")
    spec = {key: value for key, value in before.items() if key not in _DECIDED_BY_WORKLOAD}
    kept = {field: before[field] for field in group.said_by_pod if field in before}
    return {**spec, **wanted, **kept, "queue": _queue(group, old)}


def _merged_labels(
    wanted: dict[str, str], old: Object, queue: str, settings: GroupingSettings
) -> dict[str, str]:
    kept_keys = (settings.node_pool_label, settings.queue_label, keys.USER)
    kept = {key: old.labels[key] for key in kept_keys if key in old.labels}
    labels = {**old.labels, **wanted, **kept}
    if settings.queue_label in labels and queue != old.text("spec", "queue"):
        labels[settings.queue_label] = queue
    return labels


def pod_patch(pod: Raw, grouped: Grouped) -> dict[str, Any] | None:
    """Return the merge patch that makes the pod a member, None where it is one already.

    A sub-group's label of an earlier shape is taken away.
    """
    thing = Object(pod)
    metadata: dict[str, Any] = {}
    if thing.annotations.get(keys.POD_GROUP) != grouped.group.name:
        metadata["annotations"] = {keys.POD_GROUP: grouped.group.name}
    if thing.labels.get(keys.SUB_GROUP, "") != grouped.leaf:
        metadata["labels"] = {keys.SUB_GROUP: grouped.leaf or None}
    return {"metadata": metadata} if metadata else None


def _complete(old: Object) -> dict[str, Any]:
    """Return the existing object with the mappings that an empty one leaves out."""
    metadata = {**old.table("metadata"), "labels": old.labels, "annotations": old.annotations}
    return {**old.raw, "metadata": metadata, "spec": old.table("spec")}


def _queue(group: GroupDescription, old: Object) -> str:
    """Return the queue: the one it has, unless its owner was given another label since."""
    before = old.annotations.get(keys.OWNER_QUEUE)
    has_moved = before is not None and group.owner_queue not in {"", before}
    return group.queue if has_moved else old.text("spec", "queue") or group.queue


def _spec(group: GroupDescription) -> dict[str, Any]:
    root = group.gang
    has_parts = not _is_flat(root)
    spec: dict[str, Any] = {"queue": group.queue}
    if has_parts and root.min_subgroups is not None:
        spec["minSubGroup"] = root.min_subgroups
    else:
        spec["minMember"] = group.min_members
    if group.priority_class:
        spec["priorityClassName"] = group.priority_class
    if group.preemptibility:
        spec["preemptibility"] = group.preemptibility.value
    if root.topology:
        spec["topologyConstraint"] = _constraint(root.topology)
    if group.preemption_delay_ms is not None:
        spec["preemptionDelay"] = duration_text(group.preemption_delay_ms)
    if group.stale_grace_ms is not None:
        spec["stalenessGracePeriod"] = duration_text(group.stale_grace_ms)
    if has_parts:
        spec["subGroups"] = [entry for child in root.children for entry in _entries(child, "")]
    return spec


def _is_flat(root: SubGroup) -> bool:
    return [child.name for child in root.children] == ["default"] and root.children[0].is_leaf


def _entries(tree: SubGroup, parent: str) -> Iterator[dict[str, Any]]:
    """Yield the sub-group and those below it, each naming its parent."""
    entry: dict[str, Any] = {"name": tree.name}
    if parent:
        entry["parent"] = parent
    if tree.is_leaf:
        entry["minMember"] = tree.min_members
    else:
        needed = tree.min_subgroups
        entry["minSubGroup"] = len(tree.children) if needed is None else needed
    if tree.topology:
        entry["topologyConstraint"] = _constraint(tree.topology)
    yield entry
    for child in tree.children:
        yield from _entries(child, tree.name)


def _constraint(topology: TopologyConstraint) -> dict[str, str]:
    found = {"topology": topology.name}
    if topology.required_level:
        found["requiredTopologyLevel"] = topology.required_level
    if topology.preferred_level:
        found["preferredTopologyLevel"] = topology.preferred_level
    return found
