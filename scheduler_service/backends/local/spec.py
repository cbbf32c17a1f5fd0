"""Between a stored record and what the planner and the runner know of it. Pure.

Rule: the ledger's events are derived from the record before and after, so that book and store can not drift apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler_service.ledger import events
from scheduler_service.model.gpu import FractionOfGpu, GpuShare
from scheduler_service.model.node import GpuDevice
from scheduler_service.model.pod import Pod, PodState
from scheduler_service.model.pod_group import PodGroup, Preemptibility, flat_gang
from scheduler_service.store.records import GroupRecord, PodRecord
from scheduler_service.wire.pod_group import DeviceShare
from scheduler_service.wire.runner import StartOrder

WHOLE = 1000


def pod_group(record: GroupRecord) -> PodGroup:
    """Return the group as the planner sees it.

    It never grows stale: workers of one gang end one after the other, and that is no fault.
    """
    return PodGroup(
        name=record.name,
        namespace=record.namespace,
        queue=record.queue,
        gang=flat_gang(record.min_members),
        priority=record.priority,
        preemptibility=Preemptibility.PREEMPTIBLE
        if record.preemptible
        else Preemptibility.NON_PREEMPTIBLE,
        created=record.order,
        started_ms=record.granted_at,
        stale_grace_ms=None,
        made_ms=record.created_at,
        waits_since_ms=record.created_at,
        run_ms=_run_ms(record),
        owner=record.owner,
        kind=record.ask.kind,
    )


def _run_ms(record: GroupRecord) -> int | None:
    """Return how long it runs once granted: to the end of its lease, or as it was declared."""
    if record.granted_at is not None and record.expires_at is not None:
        return record.expires_at - record.granted_at
    seconds = record.ask.lease_s if record.ask.lease_s is not None else record.ask.declared_run_s
    return None if seconds is None else seconds * 1000


def pod(record: GroupRecord, member: PodRecord) -> Pod:
    """Return one pod as the planner sees it."""
    return Pod(
        name=f"{record.name}-{member.rank}",
        namespace=record.namespace,
        group=record.key,
        state=member.state,
        request=record.request,
        node=member.node if member.is_occupied else None,
        devices=member.devices if member.is_occupied else (),
    )


def ledger_events(before: GroupRecord | None, after: GroupRecord | None) -> Iterator[events.Event]:
    """Yield what the ledger must hear when a record changes from `before` to `after` (None = absent or over)."""
    old = None if before is None or before.is_over else before
    new = None if after is None or after.is_over else after
    if new is None:
        if old is not None:
            yield events.PodGroupRemoved(old.key)
        return
    if old is None:
        yield events.PodGroupAdded(pod_group(new))
        yield from (events.PodAdded(pod(new, member)) for member in new.pods)
        return
    if pod_group(old) != pod_group(new):
        yield events.PodGroupChanged(pod_group(new))
    for was, member in zip(old.pods, new.pods, strict=True):
        if pod(old, was) != pod(new, member):
            yield _state_event(new, member)


def _state_event(record: GroupRecord, member: PodRecord) -> events.PodStateChanged:
    now = pod(record, member)
    return events.PodStateChanged(now.key, now.state, now.node, now.devices)


def device_shares(
    shares: tuple[GpuShare, ...], devices: Mapping[str, GpuDevice]
) -> tuple[DeviceShare, ...]:
    """Return what a pod holds, with what is known of each device."""
    return tuple(_device_share(share, devices.get(share.device)) for share in shares)


def _device_share(share: GpuShare, device: GpuDevice | None) -> DeviceShare:
    return DeviceShare(
        id=share.device,
        index=-1 if device is None else device.index,
        model="" if device is None else device.model,
        memory_mib=None if device is None else device.memory_mib,
        milli=share.milli,
        share_mib=share.memory_mib or None,
        simulated=device is not None and device.simulated,
    )


def start_order(
    record: GroupRecord,
    member: PodRecord,
    *,
    devices: Mapping[str, GpuDevice],
    token: str,
    seal: str,
) -> StartOrder:
    """Return the order that makes a runner start this pod (or watch its process)."""
    shares = device_shares(member.devices, devices)
    gpu = record.request.gpu
    return StartOrder(
        incarnation=member.incarnation or "",
        namespace=record.namespace,
        group=record.name,
        pod=f"{record.name}-{member.rank}",
        kind=record.ask.kind,
        rank=member.rank,
        workers=len(record.pods),
        node=member.node or "",
        devices=shares,
        fraction_milli=gpu.milli if isinstance(gpu, FractionOfGpu) else _shared_milli(shares),
        share_mib=shares[0].share_mib if shares else None,
        cpu_milli=record.request.milli_cpu,
        memory_bytes=record.request.memory_bytes,
        grace_s=record.ask.grace_s,
        token=token,
        work=record.ask.work,
        signature=record.ask.signature,
        process=record.process,
        seal=seal,
    )


def _shared_milli(shares: tuple[DeviceShare, ...]) -> int:
    return shares[0].milli if shares and shares[0].milli < WHOLE else 0


def is_leaving(member: PodRecord) -> bool:
    """Whether its runner is asked to end it."""
    return member.state is PodState.RELEASING
