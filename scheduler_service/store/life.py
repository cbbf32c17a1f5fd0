"""How a pod group lives: pure functions from a record to the record after something happened.

Rules: 1. a gang is whole or not: the first pod that fails stops the others. 2. What is over stays over: a late
or repeated report changes nothing. 3. A place is given up only when its process has ended, never because it was
asked to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from scheduler_service.model.gpu import GpuShare
from scheduler_service.model.pod import PodState
from scheduler_service.store.records import Ending, GroupRecord, How, PodRecord
from scheduler_service.wire.pod_group import Process, TimelineEntry
from scheduler_service.wire.runner import Report

TIMELINE_LENGTH = 60
STOPPED = "stopped"
"""Reason of a pod that ended because it was asked to, not by a fault of its own."""
ONLY_LINES_LOST = "log_disk_full"
"""Reason of a pod that did its work while the disk for logs was full: it is told, and no fault of the pod."""
PORT_CLASH = "port_clash"
"""Reason of a start that is a gang's second, because another program had taken a port; of an end, that both met one."""
STARTED_AGAIN = "Another program had taken a port: started once more, on other ports"
REQUEUED_KINDS = frozenset({"gang", "batch"})
"""Kinds that wait again after an eviction; a notebook's variables would be gone, so its lease ends."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod goes: node, devices, and the name of this start."""

    node: str
    devices: tuple[GpuShare, ...]
    incarnation: str


def told(record: GroupRecord, at: int, text: str) -> GroupRecord:
    """Return the record with one more line in its timeline; the middle of a long one is dropped."""
    lines = (*record.timeline, TimelineEntry(at=at, text=text))
    if len(lines) > TIMELINE_LENGTH:
        lines = (*lines[:5], *lines[-(TIMELINE_LENGTH - 5) :])
    return replace(record, timeline=lines)


def granted(record: GroupRecord, places: Mapping[int, Place], now: int) -> GroupRecord:
    """Return the record with these ranks bound to their places."""

    def bind(pod: PodRecord) -> PodRecord:
        place = places[pod.rank]
        return PodRecord(
            rank=pod.rank,
            state=PodState.BINDING,
            incarnation=place.incarnation,
            node=place.node,
            devices=place.devices,
            bound_at=now,
        )

    after = _each(record, places, bind)
    if record.granted_at is not None:
        return after
    nodes = sorted({place.node for place in places.values()})
    after = replace(after, granted_at=now, expires_at=_expiry(record, now))
    return told(after, now, f"Granted on {', '.join(nodes)}")


def _expiry(record: GroupRecord, now: int) -> int | None:
    return None if record.ask.lease_s is None else now + record.ask.lease_s * 1000


def claimed(record: GroupRecord, ranks: Iterable[int], runner: str) -> GroupRecord:
    """Return the record with these ranks given to a runner."""
    return _each(record, ranks, lambda pod: replace(pod, runner=runner))


def unclaimed(record: GroupRecord, rank: int) -> GroupRecord:
    """Return the record with this rank free for another runner: the one that took it is lost and never started it."""
    return _each(record, (rank,), lambda pod: replace(pod, runner=None))


def started(record: GroupRecord, rank: int, report: Report, now: int) -> GroupRecord:
    """Return the record after a runner said that the pod runs. One asked to leave meanwhile goes on leaving."""
    pod = record.pods[rank]
    is_repeat = pod.started_at is not None and pod.pid == report.pid
    if not pod.is_occupied or (is_repeat and pod.start_ticks == report.start_ticks):
        return record
    state = pod.state if pod.state is PodState.RELEASING else PodState.RUNNING
    after = _each(
        record,
        (rank,),
        lambda old: replace(
            old,
            state=state,
            started_at=old.started_at or report.at,
            pid=report.pid,
            start_ticks=report.start_ticks,
        ),
    )
    if report.reason_code == PORT_CLASH and rank == 0:
        after = told(after, now, STARTED_AGAIN)
    is_news = state is PodState.RUNNING and pod.state is not PodState.RUNNING
    if is_news and all(p.state is PodState.RUNNING for p in after.pods):
        return told(after, now, _start_line(record))
    return after


def _start_line(record: GroupRecord) -> str:
    workers = len(record.pods)
    return "Started" if workers == 1 else f"All {workers} workers started"


def adopted(record: GroupRecord, rank: int, runner: str, report: Report, now: int) -> GroupRecord:
    """Return the record after a runner said that it holds this pod since before either of them began."""
    return started(claimed(record, (rank,), runner), rank, report, now)


def moved(record: GroupRecord, process: Process, incarnation: str, now: int) -> GroupRecord:
    """Return the record with its lease carried over to the restarted kernel; the devices stay the same."""
    after = _each(
        record,
        (0,),
        lambda pod: replace(
            pod,
            state=PodState.BINDING,
            incarnation=incarnation,
            runner=None,
            pid=None,
            start_ticks=None,
            gone_at=None,
        ),
    )
    return told(replace(after, process=process), now, "Carried over to the restarted kernel")


def process_gone(record: GroupRecord, rank: int, now: int) -> GroupRecord:
    """Return the record after the kernel's process ended; a restart may still carry the lease over."""
    return _each(record, (rank,), lambda pod: replace(pod, gone_at=pod.gone_at or now))


def stopping(record: GroupRecord, ending: Ending, *, line: str) -> GroupRecord:
    """Return the record on its way to its end: who holds a place is asked to leave, who waits is done."""
    if record.is_over or (record.ending is not None and not record.ending.requeue):
        return record

    def leave(pod: PodRecord) -> PodRecord:
        if pod.is_occupied:
            return replace(pod, state=PodState.RELEASING)
        return pod

    after = _each(record, range(len(record.pods)), leave)
    return settled(told(replace(after, ending=ending), ending.at, line), ending.at)


def evicted(record: GroupRecord, ranks: Iterable[int], ending: Ending, *, line: str) -> GroupRecord:
    """Return the record after some pods were asked to leave; too few left means all of it leaves."""
    going = frozenset(ranks)
    staying = sum(pod.is_occupied and pod.rank not in going for pod in record.pods)
    if staying < record.min_members:
        return stopping(record, ending, line=line)
    after = _each(
        record,
        going,
        lambda pod: (
            replace(pod, state=PodState.RELEASING, reason_text=ending.text)
            if pod.is_occupied
            else pod
        ),
    )
    return told(after, ending.at, f"{len(going)} of {len(record.pods)} workers make room")


def ended(record: GroupRecord, rank: int, report: Report, now: int) -> GroupRecord:
    """Return the record after a runner said that the pod's process ended, and what follows for its group."""
    pod = record.pods[rank]
    if record.is_over or not pod.is_occupied:
        return record
    if record.ending is None and pod.state is PodState.RELEASING:
        return _each(_charged(record, pod, now), (rank,), lambda old: PodRecord(rank=old.rank))
    is_whole = not report.reason_code or report.reason_code == ONLY_LINES_LOST
    good = report.exit_code == 0 and report.signal is None and is_whole
    after = _each(
        _charged(record, pod, now),
        (rank,),
        lambda old: replace(
            old,
            state=PodState.SUCCEEDED if good else PodState.FAILED,
            ended_at=report.at,
            exit_code=report.exit_code,
            signal=report.signal,
            reason_code=_reason_code(pod, report, is_good=good),
            reason_text=report.reason_text,
            failure=report.failure,
            results=report.results,
        ),
    )
    return settled(after, now)


def _reason_code(pod: PodRecord, report: Report, *, is_good: bool) -> str:
    if report.reason_code or is_good:
        return report.reason_code or ""
    was_asked = pod.state is PodState.RELEASING and report.failure is None
    return STOPPED if was_asked else ""


def _charged(record: GroupRecord, pod: PodRecord, now: int) -> GroupRecord:
    return replace(record, used_gpu_ms=record.used_gpu_ms + gpu_ms(pod, now))


def gpu_ms(pod: PodRecord, now: int) -> int:
    """Return GPU-milliseconds that the pod has held its devices for, since it was bound."""
    if pod.bound_at is None or not pod.is_occupied:
        return 0
    return sum(share.milli for share in pod.devices) * max(0, now - pod.bound_at) // 1000


def settled(record: GroupRecord, now: int) -> GroupRecord:
    """Return the record with what follows from its pods: the others of a failed gang leave, the last one ends it."""
    if record.is_over:
        return record
    if record.ending is None:
        return _settle_running(record, now)
    if any(pod.is_occupied for pod in record.pods):
        return record
    if record.ending.requeue:
        return _waits_again(record, now)
    return replace(record, ended_at=now)


def _settle_running(record: GroupRecord, now: int) -> GroupRecord:
    if any(pod.state is PodState.FAILED for pod in record.pods):
        how: How = "released" if record.is_external else "failed"
        line = "Released when its process ended" if record.is_external else "A worker failed"
        return stopping(record, Ending(how=how, at=now, grace_s=record.ask.grace_s), line=line)
    if all(pod.state is PodState.SUCCEEDED for pod in record.pods):
        how = "released" if record.is_external else "succeeded"
        line = "Released when its process ended" if record.is_external else "Finished"
        after = replace(record, ending=Ending(how=how, at=now), ended_at=now)
        return told(after, now, line)
    return record


def _waits_again(record: GroupRecord, now: int) -> GroupRecord:
    after = replace(
        record,
        pods=tuple(PodRecord(rank=pod.rank) for pod in record.pods),
        ending=None,
        granted_at=None,
        expires_at=None,
        requeues=record.requeues + 1,
    )
    return told(after, now, "Waits again")


def first_failure(record: GroupRecord) -> PodRecord | None:
    """Return the pod that failed first of its own (not one that was stopped with the others), if any."""
    failed = [
        pod for pod in record.pods if pod.state is PodState.FAILED and pod.reason_code != STOPPED
    ]
    return min(
        failed, key=lambda pod: (pod.ended_at or 0, pod.failure is None, pod.rank), default=None
    )


def _each(
    record: GroupRecord, ranks: Iterable[int], change: Callable[[PodRecord], PodRecord]
) -> GroupRecord:
    chosen = frozenset(ranks)
    pods = tuple(change(pod) if pod.rank in chosen else pod for pod in record.pods)
    return replace(record, pods=pods)
