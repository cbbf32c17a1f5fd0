"""A stored group as people see it: the record, the last plan's word on it, and the words of its state. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from scheduler_service.backends.local.spec import device_shares
from scheduler_service.model import reasons
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, WholeGpus
from scheduler_service.model.node import GpuDevice
from scheduler_service.model.pod import PodRequest, PodState
from scheduler_service.model.reasons import Reason
from scheduler_service.store import life
from scheduler_service.store.records import GroupRecord, PodRecord
from scheduler_service.wire.pod_group import (
    ActionView,
    FailureView,
    PodGroupView,
    PodView,
    ReasonView,
    RequestView,
    ResultItem,
    TimelineEntry,
)
from scheduler_service.wire.pod_group import PodState as WirePodState
from scheduler_service.words import group as words
from scheduler_service.words.group import Standing, state_of, words_of
from scheduler_service.words.units import amount_of

POD_STATES: Mapping[PodState, WirePodState] = {
    PodState.PENDING: "Pending",
    PodState.GATED: "Gated",
    PodState.PIPELINED: "Pipelined",
    PodState.BINDING: "Binding",
    PodState.BOUND: "Bound",
    PodState.RUNNING: "Running",
    PodState.RELEASING: "Releasing",
    PodState.SUCCEEDED: "Succeeded",
    PodState.FAILED: "Failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a view needs beside the record: the machine's devices, the last plan's word, what may be done next."""

    devices: Mapping[str, GpuDevice]
    standing: Standing
    actions: tuple[ActionView, ...] = ()
    promised: frozenset[int] = frozenset()
    """Ranks with a promised place."""
    moves: tuple[TimelineEntry, ...] = ()
    """How its position changed; told, not kept over a restart."""
    is_mine: bool = True
    foreign: tuple[str, ...] = ()
    """Who uses a GPU without a lease, while this group waits for one."""
    rev: int = 0


def group_view(record: GroupRecord, scene: Scene, now: int) -> PodGroupView:
    """Return the group as every surface shows it."""
    standing = scene.standing
    said = words_of(record, standing, now)
    is_waiting = state_of(record) == "Waiting"
    return PodGroupView(
        namespace=record.namespace,
        name=record.name,
        owner=record.owner,
        mine=scene.is_mine,
        kind=record.ask.kind,
        queue=record.queue,
        request=request_view(record, scene.devices),
        workers=len(record.pods),
        min_members=record.min_members,
        priority=record.priority,
        preemptible=record.preemptible,
        state=state_of(record),
        word=said.word,
        tone=said.tone,
        icon=said.icon,
        headline=said.headline,
        detail=said.detail,
        sentence=said.sentence,
        rev=scene.rev,
        created_at=record.created_at,
        reason=_reason(record, standing),
        actions=scene.actions,
        position=standing.position if is_waiting else None,
        waiting_in_queue=standing.waiting_in_queue if is_waiting else None,
        overall=standing.overall if is_waiting else None,
        eta=standing.eta if is_waiting else None,
        declared_run_s=record.ask.declared_run_s,
        expires_at=record.expires_at,
        granted_at=record.granted_at,
        ended_at=record.ended_at,
        ended_by=_ended_by(record),
        gpu_seconds=_gpu_seconds(record, now),
        origin=record.ask.origin,
        pods=tuple(_pod_view(record, pod, scene) for pod in record.pods),
        failure=_failure(record),
        results=_results(record),
        notes=_notes(record, scene),
        simulated=_is_simulated(record, scene.devices),
        timeline=tuple(sorted((*record.timeline, *scene.moves), key=lambda entry: entry.at)),
    )


def request_view(record: GroupRecord, devices: Mapping[str, GpuDevice]) -> RequestView:
    """Return what each pod asks for, parsed and in words."""
    return request_of(record.request, devices)


def request_of(request: PodRequest, devices: Mapping[str, GpuDevice]) -> RequestView:
    """Return a request, parsed and in words."""
    gpu = request.gpu
    return RequestView(
        text=amount_of(request),
        whole=gpu.count if isinstance(gpu, WholeGpus) else 0,
        fraction_milli=gpu.milli if isinstance(gpu, FractionOfGpu) else 0,
        memory_mib=gpu.mib if isinstance(gpu, GpuMemory) else 0,
        devices=1 if gpu is None or isinstance(gpu, WholeGpus) else getattr(gpu, "devices", 1),
        cpu_milli=request.milli_cpu,
        memory_bytes=request.memory_bytes,
        share_mib=_share_mib(request, devices),
    )


def _share_mib(request: PodRequest, devices: Mapping[str, GpuDevice]) -> int | None:
    """GPU memory that comes with the request, where all devices agree on it."""
    sizes = {device.memory_mib for device in devices.values()}
    size = sizes.pop() if len(sizes) == 1 else None
    gpu = request.gpu
    if isinstance(gpu, GpuMemory):
        return gpu.mib * gpu.devices
    if size is None:
        return None
    if isinstance(gpu, WholeGpus):
        return size * gpu.count
    return gpu.milli * size // 1000 * gpu.devices if isinstance(gpu, FractionOfGpu) else None


def _reason(record: GroupRecord, standing: Standing) -> ReasonView | None:
    if record.ending is not None:
        if record.ending.reason is not None:
            return reason_view(record.ending.reason)
        return None
    if standing.reason is None or state_of(record) != "Waiting":
        return None
    return reason_view(standing.reason)


def reason_view(reason: Reason) -> ReasonView:
    """Return a reason with its code, sentence and facts."""
    facts = {
        name: value
        for name in reason.__struct_fields__
        if isinstance(value := getattr(reason, name), str | int) or value is None
    }
    return ReasonView(code=reasons.code(reason), text=reasons.sentence(reason), facts=facts)


def _ended_by(record: GroupRecord) -> Literal["owner", "other"] | None:
    if record.ending is None or not record.ending.by:
        return None
    return "owner" if record.ending.by == record.owner else "other"


def _gpu_seconds(record: GroupRecord, now: int) -> int:
    return (record.used_gpu_ms + sum(life.gpu_ms(pod, now) for pod in record.pods)) // 1000


def _pod_view(record: GroupRecord, pod: PodRecord, scene: Scene) -> PodView:
    state = POD_STATES[pod.state]
    is_waiting = pod.state is PodState.PENDING and record.ending is None
    fitting = scene.standing.fitting
    if is_waiting and pod.rank in scene.promised:
        state = "Pipelined"
    return PodView(
        name=pod.name or f"{record.name}-{pod.rank}",
        rank=pod.rank,
        state=state,
        incarnation=pod.incarnation,
        node=pod.node,
        address=pod.address if scene.is_mine else None,
        devices=device_shares(pod.devices, scene.devices),
        fits=pod.rank < fitting if is_waiting and fitting is not None else None,
        started_at=pod.started_at,
        ended_at=pod.ended_at,
        exit_code=pod.exit_code,
        signal=pod.signal,
        reason=_pod_reason(pod),
        progress=(scene.standing.progress or {}).get(pod.rank),
    )


def _pod_reason(pod: PodRecord) -> ReasonView | None:
    if pod.state is not PodState.FAILED:
        return None
    return ReasonView(code=pod.reason_code or "failed", text=words.why_it_failed(pod))


def _failure(record: GroupRecord) -> FailureView | None:
    first = life.first_failure(record) if record.ending is not None else None
    if first is None or first.failure is None:
        return None
    told = first.failure
    return FailureView(
        rank=first.rank,
        at=first.ended_at or 0,
        message=told.message,
        traceback=told.traceback,
        cell_line=told.cell_line,
        source=told.source,
    )


def _results(record: GroupRecord) -> tuple[ResultItem, ...]:
    return next((pod.results for pod in record.pods if pod.results), ())


def _is_simulated(record: GroupRecord, devices: Mapping[str, GpuDevice]) -> bool:
    return record.request.gpu is not None and any(device.simulated for device in devices.values())


def _notes(record: GroupRecord, scene: Scene) -> tuple[str, ...]:
    notes = list(record.notes)
    if _is_simulated(record, scene.devices):
        notes.append("simulated")
    elif isinstance(record.request.gpu, FractionOfGpu | GpuMemory):
        notes.append("memory not enforced")
    if not record.request.milli_cpu:
        notes.append("CPU not limited")
    return (*notes, *scene.foreign)
