"""A cluster's pod group as a record: what the API server holds of it, in the shape that all views are made of. Pure.

Rules: 1. A record is made from the objects of now and what the ledger was told of them; nothing is kept beside them.
2. An owner is known only where our own account wrote one down; a label is no proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.groups import RawPodGroup
from scheduler_service.backends.kubernetes.decode.quantities import moment_or_none
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.grouping import keys
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, Mig
from scheduler_service.model.pod import PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.service.asking import PREEMPTIBLE_BELOW, PRIORITY_OF_KIND
from scheduler_service.service.cluster_pods import (
    WHOLE,
    Member,
    in_order,
    of_now,
    pod_record,
    used_gpu_ms,
)
from scheduler_service.store import life
from scheduler_service.store.records import OCCUPIED, Ending, GroupRecord, How, PodRecord
from scheduler_service.wire.pod_group import Kind, Submit, TimelineEntry

SERVERS = frozenset(
    {"Notebook", "Deployment", "StatefulSet", "ReplicaSet", "Service", "RayService", "RayCluster"}
)
"""Kinds of owners whose pods serve until somebody ends them."""


_MOST_DIGITS = 10
DEADLINE = "DeadlineExceeded"
"""Why Kubernetes ends a pod whose time (`activeDeadlineSeconds`, for us the end of a lease) is over."""


class _Notice(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""
    sentence: str = ""
    at: int = 0


_decode_notice = msgspec.json.Decoder(_Notice).decode
_decode_asked = msgspec.json.Decoder(Submit).decode


def record_of(
    raw: RawPodGroup,
    model: PodGroup,
    members: Sequence[Member],
    memory_of: Callable[[str], int | None],
) -> GroupRecord:
    """Return the group as a record. `memory_of`: MiB of each GPU of a node, where that is known."""
    chosen = in_order(of_now(members))
    pods = tuple(pod_record(rank, one, memory_of) for rank, one in enumerate(chosen))
    request = chosen[0].pod.request if chosen else PodRequest()
    enough = max(1, model.min_members)
    granted_at = _granted_at(pods, enough)
    ask = _ask(raw, model, chosen, request)
    ending, ended_at = _ending(raw, model, chosen, pods)
    return GroupRecord(
        namespace=model.namespace,
        name=model.name,
        owner=raw.metadata.annotations.get(names.OWNER_ANNOTATION, ""),
        queue=model.queue,
        ask=ask,
        request=request,
        min_members=model.min_members,
        priority=model.priority,
        preemptible=model.preemptible,
        created_at=model.created,
        order=model.created,
        pods=pods,
        granted_at=granted_at,
        expires_at=None
        if granted_at is None or ask.lease_s is None
        else granted_at + ask.lease_s * 1000,
        ending=ending,
        ended_at=ended_at,
        used_gpu_ms=sum(used_gpu_ms(pod) for pod in pods if pod.is_finished),
        timeline=tuple(_timeline(model, pods, granted_at)),
    )


def expected(caller: str, ask: Submit, request: PodRequest, *, key: str, now: int) -> GroupRecord:
    """Return the record of a request whose objects were just made and are not followed yet."""
    namespace, _, name = key.partition("/")
    workers = max(1, ask.workers)
    priority = PRIORITY_OF_KIND[ask.kind] if ask.priority is None else ask.priority
    return GroupRecord(
        namespace=namespace,
        name=name,
        owner=caller,
        queue=ask.queue or names.DEFAULT_QUEUE,
        ask=ask,
        request=request,
        min_members=ask.min_members or workers,
        priority=priority,
        preemptible=priority < PREEMPTIBLE_BELOW if ask.preemptible is None else ask.preemptible,
        created_at=now,
        order=now,
        pods=tuple(PodRecord(rank=rank) for rank in range(workers)),
        timeline=(TimelineEntry(at=now, text="Asked"),),
    )


def gone(record: GroupRecord, now: int) -> GroupRecord:
    """Return the last record of a group whose objects were deleted."""
    if record.is_over:
        return record
    used = record.used_gpu_ms + sum(life.gpu_ms(pod, now) for pod in record.pods)
    ending = record.ending or Ending(how="cancelled", at=now, text="Its objects were deleted.")
    line = "Lost" if ending.how == "evicted" else "Ended"
    pods = tuple(_stopped(pod, now) for pod in record.pods)
    after = msgspec.structs.replace(
        record, ending=ending, ended_at=now, used_gpu_ms=used, pods=pods
    )
    return life.told(after, now, line)


def _stopped(pod: PodRecord, now: int) -> PodRecord:
    """Return a pod that held a place as one that was ended."""
    if not pod.is_occupied:
        return pod
    return msgspec.structs.replace(
        pod, state=PodState.FAILED, ended_at=now, reason_code=life.STOPPED
    )


# -- the group ---------------------------------------------------------------------------------------
def _ask(
    raw: RawPodGroup, model: PodGroup, chosen: Sequence[Member], request: PodRequest
) -> Submit:
    """Return what was asked of our API, or would have been for the same."""
    if (asked := asked_of(raw)) is not None:
        return replace(asked, queue=model.queue, lease_s=_lease_s(raw, asked))
    gpu = request.gpu
    grace = max((_grace_s(one.raw) for one in chosen), default=30)
    return Submit(
        kind=_kind(raw, len(chosen), model.min_members),
        name=model.name,
        queue=model.queue,
        gpu=_gpu_text(gpu),
        gpu_memory=str(gpu.mib) if isinstance(gpu, GpuMemory) else None,
        devices=gpu.devices if isinstance(gpu, FractionOfGpu | GpuMemory) else 1,
        cpu=f"{request.milli_cpu}m" if request.milli_cpu else None,
        memory=str(request.memory_bytes) if request.memory_bytes else None,
        workers=max(1, len(chosen)),
        min_members=model.min_members,
        priority=model.priority,
        preemptible=model.preemptible,
        declared_run_s=None if model.run_ms is None else model.run_ms // 1000,
        grace_s=grace,
    )


def _lease_s(raw: RawPodGroup, asked: Submit) -> int | None:
    """Return how long a lease lasts: what was asked, or what its end was moved to since."""
    moved = raw.metadata.annotations.get(names.LEASE_ANNOTATION)
    if moved is None or asked.kind != "lease":
        return asked.lease_s
    return int(moved) if moved.isdecimal() and len(moved) <= _MOST_DIGITS else None


def asked_of(raw: RawPodGroup) -> Submit | None:
    """Return the request that our API made this group's objects for, None where it did not."""
    notes = raw.metadata.annotations
    text = notes.get(names.ASKED_ANNOTATION) if notes.get(names.OWNER_ANNOTATION) else None
    try:
        return None if text is None else _decode_asked(text)
    except msgspec.MsgspecError:
        return None


def _kind(raw: RawPodGroup, pods: int, min_members: int) -> Kind:
    owner = next(iter(raw.metadata.owner_references), None)
    if owner is not None and owner.kind in SERVERS:
        return "server"
    return "gang" if max(pods, min_members) > 1 else "batch"


def _gpu_text(gpu: GpuRequest | None) -> str | None:
    if gpu is None or isinstance(gpu, GpuMemory | Mig):
        return None
    return f"{gpu.milli / WHOLE:g}" if isinstance(gpu, FractionOfGpu) else str(gpu.count)


def _grace_s(raw: RawPod) -> int:
    told = raw.metadata.deletion_grace_period_seconds
    if told is None:
        told = raw.spec.termination_grace_period_seconds
    return 30 if told is None else told


def _granted_at(pods: Sequence[PodRecord], enough: int) -> int | None:
    """Return when enough pods had a place; None while they have not."""
    moments = sorted(
        pod.bound_at
        for pod in pods
        if pod.bound_at is not None and (pod.state in OCCUPIED or pod.is_finished)
    )
    return moments[enough - 1] if len(moments) >= enough else None


def _ending(
    raw: RawPodGroup, model: PodGroup, chosen: Sequence[Member], pods: Sequence[PodRecord]
) -> tuple[Ending | None, int | None]:
    """Return that and how a group ends, and when it has."""
    released = raw.metadata.annotations.get(keys.RELEASED, "")
    is_done = bool(pods) and all(pod.is_finished for pod in pods)
    if is_done or (released in {"finished", "deleted"} and not pods):
        at = max((pod.ended_at or 0 for pod in pods), default=0) or model.created
        failed = [one.raw for one in chosen if one.pod.state is PodState.FAILED]
        if failed and all(raw.metadata.deletion_timestamp for raw in failed):
            return _taken_away(failed, at), at
        return Ending(how=_how(chosen, pods, released), at=at), at
    return _eviction(model, chosen), None


def _how(chosen: Sequence[Member], pods: Sequence[PodRecord], released: str) -> How:
    if any(one.raw.status.reason == DEADLINE for one in chosen):
        return "time_over"
    if any(pod.state is PodState.FAILED for pod in pods):
        return "failed"
    return "cancelled" if released == "deleted" and not pods else "succeeded"


def _eviction(model: PodGroup, chosen: Sequence[Member]) -> Ending | None:
    """Return the eviction that leaves too few pods, if there is one under way."""
    leaving = [one for one in chosen if one.pod.state is PodState.RELEASING]
    told = [one for one in leaving if names.EVICTION_NOTICE in one.raw.metadata.annotations]
    held = sum(one.pod.state in OCCUPIED for one in chosen)
    if not told or held - len(leaving) >= max(1, model.min_members):
        return None
    first = told[0].raw
    return _taken_away([first], moment_or_none(first.metadata.deletion_timestamp) or 0)


def _taken_away(pods: Sequence[RawPod], at: int) -> Ending:
    """Return the ending of a group whose pods were told to go: by us, as their notice says, or by somebody else."""
    told = [raw for raw in pods if names.EVICTION_NOTICE in raw.metadata.annotations]
    if not told:
        return Ending(how="cancelled", at=at, text="Its pods were deleted.")
    notice = _notice(told[0].metadata.annotations[names.EVICTION_NOTICE])
    how: How = "cancelled" if notice.reason == "cancelled" else "evicted"
    moment = notice.at or at
    return Ending(how=how, at=moment, grace_s=_grace_s(told[0]), text=notice.sentence)


def _notice(text: str) -> _Notice:
    try:
        return _decode_notice(text)
    except msgspec.MsgspecError:
        return _Notice()


def _timeline(
    model: PodGroup, pods: Sequence[PodRecord], granted_at: int | None
) -> Iterator[TimelineEntry]:
    if model.created:
        yield TimelineEntry(at=model.created, text="Asked")
    if granted_at is not None:
        nodes = sorted({pod.node for pod in pods if pod.node})
        where = ", ".join(nodes) if len(nodes) <= 3 else f"{len(nodes)} nodes"  # noqa: PLR2004 - fits a line
        yield TimelineEntry(at=granted_at, text=f"Granted on {where}")
    starts = [pod.started_at for pod in pods if pod.started_at is not None]
    if pods and len(starts) == len(pods):
        text = "Started" if len(pods) == 1 else f"All {len(pods)} workers started"
        yield TimelineEntry(at=max(starts), text=text)
