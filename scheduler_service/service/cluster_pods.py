"""The pods of a cluster's group as records: which of them count, in which order, what each holds, how it ended. Pure.

Rule: which whole GPU a pod has is the device plug-in's business: such a share is named by its pod and number.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.pods import LEADER_FIRST
from scheduler_service.backends.kubernetes.decode.quantities import moment_or_none
from scheduler_service.backends.kubernetes.objects import RawPod, Terminated
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, GpuShare, Mig
from scheduler_service.model.pod import FINISHED, Pod, PodState
from scheduler_service.runner import termination
from scheduler_service.store.records import PodRecord
from scheduler_service.wire.runner import Report

WHOLE = 1000
RETRIES = frozenset({"Job"})
"""Kinds of owners that make a new pod for one that failed."""
INDICES = (
    "jobset.sigs.k8s.io/job-index",
    "leaderworkerset.sigs.k8s.io/group-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "apps.kubernetes.io/pod-index",
)
"""Labels and annotations that number the pods of a workload."""
REASONS: Mapping[str, str] = {"OOMKilled": "out_of_memory"}
SIGNALLED = 128
"""A shell's exit code is this and the number of the signal that ended its program."""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod, as the API has it and as the ledger knows it."""

    raw: RawPod
    pod: Pod


# -- which pods, in which order ----------------------------------------------------------------------
def of_now(members: Sequence[Member]) -> list[Member]:
    """Return the pods that count: of one place in a workload the newest, and no failed try beside a new one."""
    newest: dict[object, Member] = {}
    for one in sorted(members, key=_freshness):
        newest[_place_in_workload(one)] = one
    found = [*newest.values()]
    if any(one.pod.state not in FINISHED for one in found):
        return [one for one in found if not _is_failed_try(one)]
    return found


def _freshness(one: Member) -> tuple[bool, str, str]:
    meta = one.raw.metadata
    return one.pod.state not in FINISHED, meta.creation_timestamp, meta.name


def _place_in_workload(one: Member) -> object:
    numbers = _numbers(one.raw)
    if not numbers or _controller(one.raw) not in RETRIES:
        return one.raw.metadata.name
    owners = tuple(owner.uid for owner in one.raw.metadata.owner_references)
    return owners, numbers


def _is_failed_try(one: Member) -> bool:
    return one.pod.state is PodState.FAILED and _controller(one.raw) in RETRIES


def _controller(raw: RawPod) -> str:
    return next((owner.kind for owner in raw.metadata.owner_references if owner.controller), "")


def in_order(members: Sequence[Member]) -> list[Member]:
    """Return the pods as their workload counts them: its leader, then by number, then by name."""
    return sorted(members, key=_mark)


def _mark(one: Member) -> tuple[bool, tuple[int, ...], list[tuple[int, str]]]:
    is_leader = (one.pod.precedence or 0) >= LEADER_FIRST
    return not is_leader, _numbers(one.raw), _natural(one.raw.metadata.name)


def _numbers(raw: RawPod) -> tuple[int, ...]:
    meta = raw.metadata
    found = (meta.labels.get(key) or meta.annotations.get(key, "") for key in INDICES)
    return tuple(int(text) for text in found if text.isdecimal())


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts "w-10" after "w-9"."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


# -- one pod -----------------------------------------------------------------------------------------
def pod_record(rank: int, one: Member, memory_of: Callable[[str], int | None]) -> PodRecord:
    """Return a pod as a record."""
    raw, pod = one.raw, one.pod
    node = pod.node or raw.spec.node_name or None
    has_run = pod.state in FINISHED or pod.state in {PodState.RUNNING, PodState.RELEASING}
    bound_at = None if node is None else _scheduled_at(raw)
    record = PodRecord(
        rank=rank,
        name=raw.metadata.name,
        state=pod.state,
        incarnation=raw.metadata.uid or None,
        node=node,
        address=raw.status.pod_ip or None,
        devices=_shares(raw, pod, memory_of(node)) if node is not None else (),
        bound_at=bound_at,
        started_at=moment_or_none(raw.status.start_time) if has_run and node else None,
    )
    return _ended(record, raw) if pod.state in FINISHED else record


def _scheduled_at(raw: RawPod) -> int | None:
    told = raw.status.condition(names.POD_SCHEDULED)
    at = None if told is None else moment_or_none(told.last_transition_time)
    return at or moment_or_none(raw.status.start_time)


def _shares(raw: RawPod, pod: Pod, memory_mib: int | None) -> tuple[GpuShare, ...]:
    """Return what a pod holds of devices; whole ones are told by number, as nobody says which they are."""
    if pod.devices:
        return pod.devices
    gpu, mark = pod.request.gpu, raw.metadata.uid or raw.key
    return tuple(
        GpuShare(f"{mark}/{number}", milli, memory)
        for number, (milli, memory) in enumerate(_parts(gpu, memory_mib))
    )


def _parts(gpu: GpuRequest | None, memory_mib: int | None) -> list[tuple[int, int]]:
    """Return milli-GPU and MiB of each device that goes with a request."""
    memory = memory_mib or 0
    if gpu is None:
        return []
    if isinstance(gpu, FractionOfGpu):
        return [(gpu.milli, gpu.milli * memory // WHOLE)] * gpu.devices
    if isinstance(gpu, GpuMemory):
        part = gpu.mib * WHOLE // memory if memory else 0
        return [(part, gpu.mib)] * gpu.devices
    if isinstance(gpu, Mig):
        return [(gpu.compute_slices() * WHOLE, 0)]
    return [(WHOLE, memory)] * gpu.count


def _ended(record: PodRecord, raw: RawPod) -> PodRecord:
    """Return the record of a pod that ended, with how."""
    ends = raw.status.ends
    worst = next((end for end in ends if end.exit_code or end.signal), None)
    end = worst or next(iter(ends), Terminated())
    moments = [at for one in ends if (at := moment_or_none(one.finished_at)) is not None]
    at = max(moments, default=record.started_at or record.bound_at)
    is_good = record.state is PodState.SUCCEEDED
    ended = msgspec.structs.replace(
        record,
        ended_at=at,
        exit_code=end.exit_code if ends else None,
        signal=_signal(end),
        reason_code=REASONS.get(end.reason, ""),
    )
    said = termination.read(end.message)
    if said is not None:
        return _with_word(ended, said)
    why = "" if is_good else _why(end, raw, has_ends=bool(ends))
    return msgspec.structs.replace(ended, reason_text=why)


def _with_word(record: PodRecord, said: Report) -> PodRecord:
    """Return the record with what our entry point in the pod said of its work."""
    return msgspec.structs.replace(
        record,
        failure=said.failure,
        results=said.results,
        reason_code=said.reason_code or record.reason_code,
        reason_text=said.reason_text,
    )


def _signal(end: Terminated) -> str | None:
    number = end.signal or max(0, end.exit_code - SIGNALLED)
    try:
        return signal.Signals(number).name if number else None
    except ValueError:
        return None


def _why(end: Terminated, raw: RawPod, *, has_ends: bool) -> str:
    told = end.message.strip() or raw.status.message.strip()
    if told or has_ends:
        return told.splitlines()[0] if told else ""
    return raw.status.reason or "Kubernetes ended it and does not say why."


def used_gpu_ms(pod: PodRecord) -> int:
    """Return GPU-milliseconds that an ended pod held."""
    if pod.bound_at is None or pod.ended_at is None:
        return 0
    milli = sum(share.milli for share in pod.devices)
    return milli * max(0, pod.ended_at - pod.bound_at) // WHOLE
