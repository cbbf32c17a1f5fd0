"""The patches of statuses: what a group's or a queue's pods ask for and hold. None where the API says so already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler_service.backends.kubernetes.decode.groups import ResourcesStatus
from scheduler_service.backends.kubernetes.decode.queues import QueueStatus
from scheduler_service.backends.kubernetes.encode.pod_group import difference

Texts = Mapping[str, str]


def quantity(milli: int) -> str:
    """Return an amount in thousandths as the API writes it."""
    whole, rest = divmod(milli, 1000)
    return f"{milli}m" if rest else str(whole)


def _fields(told: ResourcesStatus | QueueStatus) -> dict[str, Any]:
    return {
        "requested": dict(told.requested),
        "allocated": dict(told.allocated),
        "allocatedNonPreemptible": dict(told.allocated_non_preemptible),
    }


def resources_patch(uid: str, told: ResourcesStatus, wanted: Mapping[str, Texts]) -> dict[str, Any]:
    """Return the patch of a PodGroup's status."""
    changed = difference(_fields(told), wanted)
    return {"metadata": {"uid": uid}, "status": {"resourcesStatus": changed}}


def queue_patch(
    uid: str, told: QueueStatus, wanted: Mapping[str, Texts], children: Sequence[str]
) -> dict[str, Any]:
    """Return the patch of a Queue's status."""
    changed = difference(_fields(told), wanted)
    if tuple(children) != told.child_queues:
        changed["childQueues"] = list(children)
    return {"metadata": {"uid": uid}, "status": changed}
