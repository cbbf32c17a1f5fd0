"""Pods, Jobs and other kinds that are one group, one group a pod, or carry one number."""

from __future__ import annotations

import msgspec

from scheduler_service.grouping import keys
from scheduler_service.grouping.objects import Kind, Object, whole
from scheduler_service.grouping.shape import Shape, Workload, gang, group_name, one_group

_SPARK_NAME = "spark-app-name"
_SPARK_GROUP = "spark-app-selector"
_JOB = Kind("batch", "Job")
_AML_NODES = "AZUREML_NODE_COUNT"


def pod(work: Workload) -> Shape:
    """Return the group of a pod of its own; driver and executors of a Spark run share one."""
    shape = one_group(work)
    labels = work.pod.labels
    if labels.get(_SPARK_NAME) and labels.get(_SPARK_GROUP):
        return msgspec.structs.replace(shape, name=labels[_SPARK_GROUP])
    return shape


def job(work: Workload) -> Shape:
    """Return one group for the Job (of a CronJob: for each run), with the minimum it names.

    A group of one pod that an older KAI made keeps its name and its minimum of 1.
    """
    owner = work.owner(_JOB) or work.top
    name = group_name(owner)
    old = f"pg-{work.pod.name}-{owner.uid}"
    others = (each for each in work.owners if each is not owner)
    shape = Shape(name=name, owner=owner, asked_by=(owner, *others))
    if work.settings.keep_old_names and old in _group_names(work, owner):
        return msgspec.structs.replace(shape, name=old)
    minimum = annotated_minimum(owner, owner)
    return msgspec.structs.replace(shape, min_members=1 if minimum is None else minimum)


def annotated_minimum(annotated: Object, owner: Object) -> int | None:
    """Return the minimum that an annotation names, None without one."""
    text = annotated.annotations.get(keys.BATCH_MIN_MEMBER)
    if text is None:
        return None
    if (number := whole(text)) is None:
        raise owner.refusal(
            f"Its annotation {keys.BATCH_MIN_MEMBER} is {text!r}.",
            hint="Write a whole number of 0 or more.",
        )
    return number


def run_ai_job(work: Workload) -> Shape:
    """Return one group a pod, named without the pod's random ending, as ever."""
    stem = work.pod.name.rpartition("-")[0] or work.pod.name
    return msgspec.structs.replace(one_group(work), name=f"pg-{stem}-{work.top.uid}")


def aml_job(work: Workload) -> Shape:
    """Return a gang of as many pods as the job has nodes."""
    counts = work.top.table("spec", "job", "options", "envs")
    count = counts.get(_AML_NODES)
    number = whole(count) if isinstance(count, str) else count
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise work.top.refusal(
            f"spec.job.options.envs.{_AML_NODES} is not a whole number.",
            hint="Set it to the number of nodes.",
        )
    return gang(work, minimum=number)


def spark_application(work: Workload) -> Shape:
    """Return one group for driver and executors; the driver alone may start."""
    batch = work.top.part("spec", "batchSchedulerOptions")
    return msgspec.structs.replace(
        one_group(work),
        queue=batch.text("queue"),
        fallback_priority_class=batch.text("priorityClassName"),
    )


def _group_names(work: Workload, owner: Object) -> set[str]:
    groups = work.around.pod_groups(work.pod.namespace, owner.uid)
    return {Object(each).name for each in groups}
