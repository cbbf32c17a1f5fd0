"""Kubeflow's training jobs: replica specs by type, and what their run policy says of a minimum."""

from __future__ import annotations

from collections.abc import Callable

from scheduler_service.grouping import keys
from scheduler_service.grouping.objects import Object, whole
from scheduler_service.grouping.shape import (
    Shape,
    Workload,
    check_count,
    gang,
    segment_topology,
    with_children,
)
from scheduler_service.model.pod_group import SubGroup

_TYPE = "training.kubeflow.org/replica-type"
_INDEX = "training.kubeflow.org/replica-index"
_JOB_NAME = "training.kubeflow.org/job-name"
_ROLE = "training.kubeflow.org/job-role"
_PYTORCH = "pytorchReplicaSpecs"


def training_job(specs: str, *required: str) -> Callable[[Workload], Shape]:
    """Return the rule of a kind with these replica specs: a gang of all, or of its policy's minimum."""

    def shape(work: Workload) -> Shape:
        return gang(work, minimum=_minimum(work.top, _replicas(work.top, specs, *required)))

    return shape


def mpi_job(work: Workload) -> Shape:
    """Return the gang; a launcher that is made only once the workers are ready is not waited for."""
    job = work.top
    counts = _replicas(job, "mpiReplicaSpecs", "Launcher", "Worker")
    waits = job.text("spec", "launcherCreationPolicy") == "WaitForWorkersReady"
    late = counts["Launcher"] if waits and not _has_launcher(work) else 0
    return gang(work, minimum=max(0, _minimum(job, counts) - late))


def pytorch_job(work: Workload) -> Shape:
    """Return a gang of master and workers; an elastic one needs its minimum only."""
    job = work.top
    counts = _replicas(job, _PYTORCH)
    elastic = job.number("spec", "elasticPolicy", "minReplicas")
    total = _minimum(job, counts) if elastic is None else _policy_minimum(job, elastic)
    masters = counts.get("Master", 0)
    children = (SubGroup("master", masters),) if masters else ()
    leaf = work.pod.labels.get(_TYPE, "").lower()
    if "Worker" in counts:
        workers, leaf = _workers(work, counts["Worker"], minimum=max(0, total - masters), leaf=leaf)
        children = (*children, workers)
    shape = gang(work, minimum=total)
    return with_children(shape, children, leaf=leaf) if children else shape


def _workers(work: Workload, count: int, *, minimum: int, leaf: str) -> tuple[SubGroup, str]:
    """Return the workers' sub-group, cut into segments if asked, and this pod's leaf."""
    size = _segment_size(work)
    if size is None or count == 0:
        return SubGroup("worker", minimum), leaf
    whole_segments = -(-minimum // size)
    check_count(work.top, -(-count // size))
    topology = segment_topology(work.pod, _worker_template(work), work.top)
    segments = tuple(
        SubGroup(
            f"worker-{index}",
            min(size, count - index * size) if index < whole_segments else 0,
            topology=topology,
        )
        for index in range(-(-count // size))
    )
    if leaf == "worker":
        leaf = f"worker-{_index(work) // size}"
    return SubGroup("worker", min_subgroups=len(segments), children=segments), leaf


def _worker_template(work: Workload) -> Object:
    return work.top.part("spec", _PYTORCH, "Worker", "template")


def _segment_size(work: Workload) -> int | None:
    text = work.pod.annotations.get(keys.SEGMENT_SIZE) or _worker_template(work).annotations.get(
        keys.SEGMENT_SIZE
    )
    if not text:
        return None
    if not (size := whole(text)):
        raise work.top.refusal(
            f"Its annotation {keys.SEGMENT_SIZE} is {text!r}.",
            hint="Write a whole number of 1 or more.",
        )
    return size


def _index(work: Workload) -> int:
    text = work.pod.labels.get(_INDEX, "")
    if (index := whole(text)) is None:
        raise work.pod.refusal(
            f"Its label {_INDEX} is {text!r}, so its segment is not known.",
            hint="The training operator sets it: look at its log.",
        )
    return index


def _replicas(job: Object, specs: str, *required: str) -> dict[str, int]:
    """Return the pods wanted of each type. A type without a number is 1, as the operator reads it."""
    path = ("spec", specs)
    types = job.table(*path)
    for name in required:
        if name not in types:
            raise job.refusal(f"spec.{specs} has no {name}.", hint="Add it.")
    counts: dict[str, int] = {}
    for name in types:
        count = job.number(*path, name, "replicas")
        counts[name] = 1 if count is None else count
    if not sum(counts.values()):
        raise job.refusal(f"spec.{specs} wants no pod.", hint="Set replicas to 1 or more.")
    return counts


def _minimum(job: Object, counts: dict[str, int]) -> int:
    return _policy_minimum(job, sum(counts.values()))


def _policy_minimum(job: Object, otherwise: int) -> int:
    asked = job.number("spec", "runPolicy", "schedulingPolicy", "minAvailable")
    return otherwise if asked is None else asked


def _has_launcher(work: Workload) -> bool:
    labels = {_JOB_NAME: work.top.name, _ROLE: "launcher"}
    launchers = [Object(each) for each in work.around.pods(work.pod.namespace, labels)]
    if labels.items() <= work.pod.labels.items():
        launchers.append(work.pod)
    return any(
        not each.is_deleted and each.text("status", "phase") not in {"Succeeded", "Failed"}
        for each in launchers
    )
