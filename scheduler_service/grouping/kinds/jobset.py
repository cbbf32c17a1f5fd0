"""JobSet: one group; each replicated job a part of it, each of its Jobs a leaf."""

from __future__ import annotations

import msgspec

from scheduler_service.grouping import keys
from scheduler_service.grouping.kinds.plain import annotated_minimum
from scheduler_service.grouping.objects import Kind, Object, whole
from scheduler_service.grouping.shape import (
    Shape,
    Workload,
    check_count,
    gang,
    group_name,
    template_topology,
    with_children,
)
from scheduler_service.model.pod_group import SubGroup

_JOB_SET = Kind("jobset.x-k8s.io", "JobSet")
_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
_JOB_INDEX = "jobset.sigs.k8s.io/job-index"


def job_set(work: Workload) -> Shape:
    """Return the tree of a JobSet, or the flat group that an older KAI made of it."""
    owner = work.owner(_JOB_SET) or work.top
    if (old := _old_group(work, owner)) is not None:
        minimum = annotated_minimum(owner, owner)
        shape = gang(work, minimum=1 if minimum is None else minimum)
        return msgspec.structs.replace(shape, name=old)
    children = tuple(
        part for each in owner.entries("spec", "replicatedJobs") if (part := _part(owner, each))
    )
    if not children:
        raise owner.refusal("spec.replicatedJobs wants no pod.", hint="Add a replicated job.")
    needed = _needed(owner, len(children))
    minima = sorted(sum(leaf.min_members for leaf in child.leaves()) for child in children)
    shape = gang(work, minimum=sum(minima[:needed]))
    return with_children(shape, children, leaf=_leaf(work), min_subgroups=needed)


def _part(owner: Object, spec: Object) -> SubGroup | None:
    """Return a replicated job's part, None where it has no replicas."""
    name = spec.text("name")
    replicas = spec.number("replicas")
    count = 1 if replicas is None else replicas
    if count == 0:
        return None
    check_count(owner, count)
    template = spec.part("template")
    minimum = annotated_minimum(template, owner)
    if minimum is None:
        parallel = template.number("spec", "parallelism")
        minimum = 1 if parallel is None else parallel
    elif minimum < 1:
        raise owner.refusal(
            f"{keys.BATCH_MIN_MEMBER} of replicated job {name} is {minimum}.", hint="Set 1 or more."
        )
    topology = template_topology(template)
    leaves = tuple(
        SubGroup(f"{name}-replica-{index}", minimum, topology=topology) for index in range(count)
    )
    return SubGroup(name, min_subgroups=count, children=leaves)


def _needed(owner: Object, parts: int) -> int:
    """Return how many replicated jobs must be able to start: one after the other, one is enough."""
    asked = annotated_minimum(owner, owner)
    if asked is not None:
        if asked < 1:
            raise owner.refusal(f"{keys.BATCH_MIN_MEMBER} is {asked}.", hint="Set 1 or more.")
        return min(asked, parts)
    in_order = owner.text("spec", "startupPolicy", "startupPolicyOrder") == "InOrder"
    return 1 if in_order else parts


def _leaf(work: Workload) -> str:
    name = work.pod.labels.get(_REPLICATED_JOB, "")
    index = whole(work.pod.labels.get(_JOB_INDEX, ""))
    if not name or index is None:
        raise work.pod.refusal(
            f"It lacks the labels {_REPLICATED_JOB} and {_JOB_INDEX}.",
            hint="The JobSet controller sets them: look at its log.",
        )
    return f"{name}-replica-{index}"


def _old_group(work: Workload, owner: Object) -> str | None:
    """Return the name of the flat group that this pod's JobSet already has, if it has one."""
    base = group_name(owner)
    groups = work.around.pod_groups(work.pod.namespace, work.top.uid)
    flat = {
        group.name
        for group in map(Object, groups)
        if group.name.startswith(base) and not group.entries("spec", "subGroups")
    }
    own = f"{base}-{work.pod.labels.get(_REPLICATED_JOB, '')}"
    if own in flat:
        return own
    return base if flat else None
