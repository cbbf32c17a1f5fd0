"""Volcano: its Job and its PodGroup say a minimum, and maybe one for each task."""

from __future__ import annotations

import msgspec

from scheduler_service.grouping.objects import Kind, Object, whole
from scheduler_service.grouping.owners import Reference
from scheduler_service.grouping.shape import Shape, Workload, gang, with_children
from scheduler_service.model.pod_group import SubGroup

POD_GROUP = Kind("scheduling.volcano.sh", "PodGroup")
_MEMBERSHIP = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_TASK = "volcano.sh/task-spec"
_THEIR_DEFAULT_QUEUE = "default"
_OTHER_TASKS = "other-tasks"


def volcano_job(work: Workload) -> Shape:
    """Return a gang of the Job's minimum; tasks with a minimum of their own are leaves."""
    job = work.top
    tasks = job.entries("spec", "tasks")
    wanted = {each.text("name"): _count(each, "replicas", 1) for each in tasks}
    has_own = any(each.number("minAvailable") is not None for each in tasks)
    minima = {
        name: _count(each, "minAvailable", count)
        for each, (name, count) in zip(tasks, wanted.items(), strict=True)
    }
    least = _count(job, "minAvailable", sum(wanted.values()), "spec")
    return _with_tasks(work, gang(work, minimum=least), minima if has_own else {}, job)


def volcano_pod_group(work: Workload) -> Shape:
    """Return a gang like the Volcano PodGroup above the pod."""
    group = work.top
    minima = {
        task: count
        for task, number in group.table("spec", "minTaskMember").items()
        if (count := whole(str(number))) is not None
    }
    shape = gang(work, minimum=_count(group, "minMember", 1, "spec"))
    return _with_tasks(work, shape, minima | {_OTHER_TASKS: 0} if minima else {}, group)


def below_followed_group(work: Workload) -> Workload | None:
    """Return the work seen below the Volcano PodGroup that the pod's annotation names, if any."""
    notes = work.pod.annotations
    name = next(filter(None, (notes.get(key) for key in _MEMBERSHIP)), "")
    if not name:
        return None
    version = f"{POD_GROUP.group}/v1beta1"
    found = work.read(Reference(version, POD_GROUP.name, work.pod.namespace, name))
    if found is None:
        return None
    return msgspec.structs.replace(work, owners=(found, *work.owners))


def _with_tasks(work: Workload, shape: Shape, minima: dict[str, int], spec: Object) -> Shape:
    """Return the shape with a leaf for each task, where the tasks' minima make up the whole one.

    Fewer than that, and Volcano itself does not look at the tasks; more can not be said by a tree.
    """
    queue = spec.text("spec", "queue")
    shape = msgspec.structs.replace(
        shape,
        queue="" if queue == _THEIR_DEFAULT_QUEUE else queue,
        fallback_priority_class=spec.text("spec", "priorityClassName"),
    )
    if not minima or sum(minima.values()) != shape.min_members:
        return shape
    task = work.pod.labels.get(_TASK) or work.pod.annotations.get(_TASK, "")
    if task not in minima and _OTHER_TASKS in minima:
        task = _OTHER_TASKS
    if task not in minima:
        raise work.pod.refusal(
            f"Its task {task!r} is not one of {', '.join(sorted(minima))}.",
            hint=f"Set {_TASK} to the name of its task.",
        )
    children = tuple(SubGroup(name, count) for name, count in minima.items())
    return with_children(shape, children, leaf=task)


def _count(spec: Object, field: str, otherwise: int, *path: str) -> int:
    number = spec.number(*path, field)
    return otherwise if number is None else number
