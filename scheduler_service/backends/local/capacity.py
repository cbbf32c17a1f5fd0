"""A second look before a place is given: no device beyond what it has, whatever the plan says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from scheduler_service.model.gpu import GpuShare
from scheduler_service.model.node import GpuDevice, Node
from scheduler_service.model.pod import PodState
from scheduler_service.store.records import GroupRecord

WHOLE = 1000


def overbooked(
    node: Node, present: Iterable[GroupRecord], changed: Iterable[GroupRecord]
) -> str | None:
    """Return why a device would be given twice if `changed` replaced their namesakes; None = all is well.

    Only devices of places that are being given are judged, so that who leaves is never kept.
    """
    after = list(changed)
    wanted = sorted(share.device for share in _shares(after, states=frozenset({PodState.BINDING})))
    if not wanted:
        return None
    records = {record.key: record for record in present if not record.is_over}
    records.update((record.key, record) for record in after)
    held: dict[str, list[GpuShare]] = defaultdict(list)
    for share in _shares(records.values()):
        held[share.device].append(share)
    known = {device.id: device for device in node.devices}
    return next(filter(None, (_too_much(known.get(d), d, held[d]) for d in wanted)), None)


def _shares(
    records: Iterable[GroupRecord], states: frozenset[PodState] | None = None
) -> Iterable[GpuShare]:
    for record in records:
        for pod in record.pods:
            if pod.is_occupied and (states is None or pod.state in states):
                yield from pod.devices


def _too_much(device: GpuDevice | None, name: str, shares: list[GpuShare]) -> str | None:
    if device is None:
        return f"Device {name} is not on this machine any more."
    if device.memory_mib is None:
        full = sum(share.milli for share in shares) > WHOLE
        return f"GPU {device.index} is given away already." if full else None
    mib = sum(share.memory_mib or device.memory_mib * share.milli // WHOLE for share in shares)
    return f"GPU {device.index} has no memory left for it." if mib > device.memory_mib else None
