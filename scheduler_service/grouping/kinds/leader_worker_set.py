"""LeaderWorkerSet: a group for each of its groups; leader and workers, workers cut into segments."""

from __future__ import annotations

import msgspec

from scheduler_service.grouping import keys
from scheduler_service.grouping.objects import Object, whole
from scheduler_service.grouping.shape import (
    Shape,
    Workload,
    check_count,
    gang,
    group_name,
    segment_topology,
    with_children,
)
from scheduler_service.model.pod_group import SubGroup
from scheduler_service.model.topology import TopologyConstraint

_SIZE = "leaderworkerset.sigs.k8s.io/size"
_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
_TEMPLATE = ("spec", "leaderWorkerTemplate")
_LEADER = SubGroup("leader", 1)


def leader_worker_set(work: Workload) -> Shape:
    """Return the tree of the pod's group; one that starts with its leader is at first only that."""
    size = _size(work)
    index = _worker_index(work)
    shape = gang(work, minimum=size)
    if (number := whole(work.pod.labels.get(_GROUP, ""))) is not None:
        name = group_name(work.top, "group", str(number))
        shape = msgspec.structs.replace(shape, name=name)
    segment = _segment_size(work, size) if size > 1 else None
    if segment is None:
        workers = (SubGroup("workers", size - 1),) if size > 1 else ()
        leaf = "workers" if index else "leader"
        return with_children(shape, (_LEADER, *workers), leaf=leaf)
    check_count(work.top, size // segment)
    leader_apart = work.top.text(*_TEMPLATE, "subGroupPolicy", "subGroupPolicyType")
    cut = _leader_apart if leader_apart == "LeaderExcluded" else _leader_within
    children, leaf = cut(work, size, segment, index)
    return with_children(shape, children, leaf=leaf)


def _leader_within(
    work: Workload, size: int, segment: int, index: int
) -> tuple[tuple[SubGroup, ...], str]:
    """Cut with the leader in the first segment; a remainder of 1 makes the first one larger."""
    topology = _topology(work)
    first_size = segment + 1 if (size - 1) % segment == 0 else segment
    full, left = divmod(size - first_size, segment)
    counts = [first_size, *[segment] * full, *([left] if left else [])]
    pair = (_LEADER, SubGroup("workers", counts[0] - 1))
    first = SubGroup("segment-0", topology=topology, min_subgroups=2, children=pair)
    rest = tuple(
        SubGroup(f"segment-{number}", count, topology=topology)
        for number, count in enumerate(counts)
        if number
    )
    mine = _segment_of(index, size, segment)
    return (first, *rest), f"segment-{mine}" if mine else ("workers" if index else "leader")


def _leader_apart(
    work: Workload, size: int, segment: int, index: int
) -> tuple[tuple[SubGroup, ...], str]:
    """Cut the workers alone; they must come out even."""
    if (size - 1) % segment:
        raise work.top.refusal(
            f"{size - 1} workers do not make whole segments of {segment}, which LeaderExcluded needs.",
            hint="Change size or subGroupSize.",
        )
    topology = _topology(work)
    segments = tuple(
        SubGroup(f"segment-{number}", segment, topology=topology)
        for number in range((size - 1) // segment)
    )
    return (_LEADER, *segments), f"segment-{(index - 1) // segment}" if index else "leader"


def _segment_of(worker: int, size: int, segment: int) -> int:
    if worker == 0:
        return 0
    return (worker - 1 if (size - 1) % segment == 0 else worker) // segment


def _size(work: Workload) -> int:
    """Return the pods of a group now: 1 while a leader that starts first has no node."""
    size = work.top.number(*_TEMPLATE, "size")
    size = whole(work.pod.annotations.get(_SIZE, "")) or (1 if size is None else size)
    if size < 1:
        raise work.top.refusal("spec.leaderWorkerTemplate.size is 0.", hint="Set 1 or more.")
    leader_first = work.top.text("spec", "startupPolicy") == "LeaderReady"
    is_leader = work.pod.labels.get(_WORKER) == "0"
    return 1 if leader_first and is_leader and not work.pod.text("spec", "nodeName") else size


def _worker_index(work: Workload) -> int:
    text = work.pod.labels.get(_WORKER, "")
    if (index := whole(text)) is None:
        raise work.pod.refusal(
            f"Its label {_WORKER} is {text!r}.",
            hint="The LeaderWorkerSet controller sets it: look at its log.",
        )
    return index


def _segment_size(work: Workload, size: int) -> int | None:
    template = work.top.part(*_TEMPLATE, "workerTemplate")
    segment = work.top.number(*_TEMPLATE, "subGroupPolicy", "subGroupSize")
    if segment is None:
        text = work.top.annotations.get(keys.SEGMENT_SIZE) or template.annotations.get(
            keys.SEGMENT_SIZE
        )
        if not text:
            return None
        segment = whole(text)
    if segment is None or not 1 < segment <= size:
        raise work.top.refusal(
            "Its segment size is not a whole number from 2 to the size of a group.",
            hint=f"Correct subGroupSize or the annotation {keys.SEGMENT_SIZE}.",
        )
    return segment


def _topology(work: Workload) -> TopologyConstraint | None:
    template: Object = work.top.part(*_TEMPLATE, "workerTemplate")
    return segment_topology(work.pod, template, work.top)
