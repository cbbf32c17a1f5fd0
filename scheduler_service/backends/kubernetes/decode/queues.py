"""From KAI's Queue to the model's: devices, millicores and megabytes become integers, -1 becomes None."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.quantities import moment_or_none
from scheduler_service.backends.kubernetes.objects import Meta, Quantities, decoder
from scheduler_service.grouping.durations import duration_ms
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare, nothing

MEGABYTE = 10**6
FINE = 1000
"""Weights with a fraction are all taken a thousandfold: only their relation counts."""
FLAT_PARENT = "default"


class RawShare(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a queue may have of one resource; nothing said is 0, as KAI reads it."""

    quota: float = 0
    limit: float = 0
    over_quota_weight: float = 0


class RawShares(msgspec.Struct, frozen=True, gc=False):
    """The three resources."""

    gpu: RawShare = RawShare()
    cpu: RawShare = RawShare()
    memory: RawShare = RawShare()


class RawIdle(msgspec.Struct, frozen=True, gc=False):
    """When a lease counts as idle."""

    after: str = ""


class QueueSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a queue is."""

    display_name: str = ""
    parent_queue: str = ""
    priority: int | None = None
    resources: RawShares = RawShares()
    preempt_min_runtime: str | None = None
    reclaim_min_runtime: str | None = None
    subjects: tuple[str, ...] | None = None
    namespaces: tuple[str, ...] | None = None
    show_names: bool = False
    idle: RawIdle | None = None


class QueueStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a queue and those below it hold and ask for, and who is below it."""

    allocated: Quantities = msgspec.field(default_factory=nothing)
    allocated_non_preemptible: Quantities = msgspec.field(default_factory=nothing)
    requested: Quantities = msgspec.field(default_factory=nothing)
    child_queues: tuple[str, ...] = ()


class RawQueue(msgspec.Struct, frozen=True, gc=False):
    """A Queue of the API."""

    metadata: Meta
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


decode_queue = decoder(RawQueue)


def _amount(value: float, unit: int) -> int | None:
    return None if value < 0 else round(Decimal(str(value)) * unit)


def _share(raw: RawShare, unit: int, fine: int) -> QueueShare:
    return QueueShare(
        quota=_amount(raw.quota, unit),
        limit=_amount(raw.limit, unit),
        over_quota_weight=max(0, round(Decimal(str(raw.over_quota_weight)) * fine)),
    )


def weight_scale(queues: Iterable[RawQueue]) -> int:
    """Return by what all weights are multiplied so that none loses its fraction."""
    weights = (
        share.over_quota_weight
        for raw in queues
        for share in (raw.spec.resources.gpu, raw.spec.resources.cpu, raw.spec.resources.memory)
    )
    return FINE if any(weight != int(weight) for weight in weights) else 1


def _runtime(text: str | None) -> int | None:
    return duration_ms(text) if text else None


def queue_of(raw: RawQueue, *, fine: int = 1) -> Queue:
    """Return the model's queue; `fine` = `weight_scale` of all queues."""
    spec, shares = raw.spec, raw.spec.resources
    return Queue(
        name=raw.metadata.name,
        parent=spec.parent_queue or None,
        priority=names.DEFAULT_QUEUE_PRIORITY if spec.priority is None else spec.priority,
        created=moment_or_none(raw.metadata.creation_timestamp) or 0,
        gpu=_share(shares.gpu, 1000, fine),
        cpu=_share(shares.cpu, 1, fine),
        memory=_share(shares.memory, MEGABYTE, fine),
        preempt_min_runtime_ms=_runtime(spec.preempt_min_runtime),
        reclaim_min_runtime_ms=_runtime(spec.reclaim_min_runtime),
    )


def queues_of(found: Mapping[str, RawQueue], *, is_flat: bool = False) -> dict[str, Queue]:
    """Return all queues by name. `is_flat`: without the fairness of the hierarchy, all below one parent."""
    fine = weight_scale(found.values())
    queues = {name: queue_of(raw, fine=fine) for name, raw in found.items()}
    if not is_flat:
        return queues
    everything = QueueShare(None, None, 1)
    flat = {
        name: msgspec.structs.replace(queue, parent=FLAT_PARENT)
        for name, queue in queues.items()
        if queue.parent is not None
    }
    top = Queue(FLAT_PARENT, gpu=everything, cpu=everything, memory=everything)
    return {FLAT_PARENT: top, **flat}
