"""Ray: a cluster is a gang of its head and of each worker group's minimum, whoever owns the cluster."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from scheduler_service.grouping.kinds.plain import job
from scheduler_service.grouping.objects import Kind, Object
from scheduler_service.grouping.owners import Reference
from scheduler_service.grouping.shape import (
    Shape,
    Workload,
    gang,
    template_topology,
    with_children,
)
from scheduler_service.model.pod_group import SubGroup

_CLUSTER = Kind("ray.io", "RayCluster")
_JOB = Kind("batch", "Job")
_GROUP = "ray.io/group"
_PRIORITY = "ray.io/priority-class-name"
_HEAD = "headgroup"


def ray(*status_paths: str) -> Callable[[Workload], Shape]:
    """Return the rule of a kind whose status names its cluster at the first of these paths.

    The Job that submits a RayJob starts by itself: the cluster does not wait for it.
    """

    def shape(work: Workload) -> Shape:
        if work.owner(_CLUSTER) is None and work.owner(_JOB) is not None:
            return job(work)
        return _of_cluster(work, _cluster(work, status_paths))

    return shape


def _cluster(work: Workload, status_paths: tuple[str, ...]) -> Object:
    """Return the cluster that the status names, else the one this pod belongs to."""
    above = work.owner(_CLUSTER)
    named = next((n for path in status_paths if (n := work.top.text(*path.split(".")))), "")
    if named and (above is None or above.name != named):
        version = above.api_version if above else work.top.api_version
        reference = Reference(version, _CLUSTER.name, work.pod.namespace, named)
        return work.read(reference) or above or _missing(work, named)
    return above or _missing(work, named)


def _missing(work: Workload, name: str) -> Object:
    raise work.top.refusal(
        f"Its RayCluster {name or 'is not named in its status and'} can not be read.",
        hint="Look whether the Ray operator runs.",
    )


def _of_cluster(work: Workload, cluster: Object) -> Shape:
    groups = _worker_groups(cluster)
    head = template_topology(cluster.part("spec", "headGroupSpec", "template"))
    children = (SubGroup(_HEAD, 1, topology=head), *groups)
    minimum = sum(child.min_members for child in children)
    shape = msgspec.structs.replace(
        gang(work, minimum=minimum), priority_class=work.top.labels.get(_PRIORITY, "")
    )
    if _is_flat(work, shape):
        return shape
    return with_children(shape, children, leaf=work.pod.labels.get(_GROUP, ""))


def _worker_groups(cluster: Object) -> tuple[SubGroup, ...]:
    groups = []
    for index, spec in enumerate(cluster.entries("spec", "workerGroupSpecs")):
        if minimum := _group_minimum(cluster, spec, index):
            name = spec.text("groupName") or f"worker-group-{index}"
            topology = template_topology(spec.part("template"))
            groups.append(SubGroup(name, minimum, topology=topology))
    return tuple(groups)


def _group_minimum(cluster: Object, spec: Object, index: int) -> int:
    """Return the pods that the group starts with; 0 leaves it out."""
    if spec.flag("suspend") or spec.flag("suspended"):
        return 0
    least = spec.number("minReplicas") or 0
    wanted = spec.number("replicas")
    if wanted is not None and least > wanted:
        raise cluster.refusal(
            f"spec.workerGroupSpecs[{index}] has minReplicas {least} and only {wanted} replicas.",
            hint="Raise replicas or lower minReplicas.",
        )
    hosts = spec.number("numOfHosts")
    return (least or wanted or 0) * (1 if hosts is None else hosts)


def _is_flat(work: Workload, shape: Shape) -> bool:
    """Tell whether the group exists from a time before sub-groups: then it keeps none."""
    groups = work.around.pod_groups(work.pod.namespace, shape.owner.uid)
    same = [Object(each) for each in groups if Object(each).name == shape.name]
    return any(not each.entries("spec", "subGroups") for each in same)
