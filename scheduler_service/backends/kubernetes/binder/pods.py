"""Pods as the binder sees them: those it may bind, and those that hold a GPU for others. Pure.

Rule: `PodView` is kept for every pod of the cluster, so it holds little; who needs more reads the pod whole.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.pods import gpu_groups
from scheduler_service.backends.kubernetes.decode.requests import (
    GPU_RESOURCES,
    amounts_of,
    needed,
)
from scheduler_service.backends.kubernetes.objects import RawPod, decode_pod


class Amounts(msgspec.Struct, frozen=True, gc=False):
    """What a pod asks of a node, or a node has."""

    cpu_milli: int = 0
    memory: int = 0
    gpus: int = 0
    pods: int = 0


NOTHING = Amounts()


class PodView(msgspec.Struct, frozen=True, gc=False):
    """A pod: where it is, whether it lives, which shared devices its labels name."""

    key: str
    uid: str
    node: str = ""
    scheduler: str = ""
    is_ended: bool = False
    is_leaving: bool = False
    groups: tuple[str, ...] = ()
    has_extras: bool = False
    """Whether it names volumes or claims that may have to be made ready first."""
    asks: Amounts = NOTHING

    @property
    def is_live(self) -> bool:
        """Whether it may hold a device: not ended (one that is leaving holds on until it is gone)."""
        return not self.is_ended


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """A pod that holds one whole GPU for those who share it. `gpu` is empty until it told its UUID."""

    name: str
    uid: str
    version: str
    group: str
    node: str
    gpu: str = ""
    users: tuple[tuple[str, str], ...] = ()
    """Marks of those who were given the device: pod UID, pod key."""
    is_ended: bool = False
    is_leaving: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether it holds its device or is about to."""
        return not self.is_ended and not self.is_leaving


def pod_of(raw: bytes) -> PodView:
    """Return what is kept of a pod."""
    pod = decode_pod(raw)
    return view_of(pod)


def view_of(pod: RawPod) -> PodView:
    """Return what is kept of a pod that was read whole."""
    spec = pod.spec
    return PodView(
        key=pod.key,
        uid=pod.metadata.uid,
        node=spec.node_name,
        scheduler=spec.scheduler_name,
        is_ended=pod.is_over,
        is_leaving=bool(pod.metadata.deletion_timestamp),
        groups=gpu_groups(pod.metadata.labels),
        has_extras=bool(spec.resource_claims) or bool(volume_claims(pod)),
        asks=_asks(pod),
    )


def _asks(pod: RawPod) -> Amounts:
    total = needed(pod.spec)
    overhead = amounts_of(pod.spec.overhead)
    return _interned(
        total.get("cpu", 0) + overhead.get("cpu", 0),
        total.get("memory", 0) + overhead.get("memory", 0),
        sum(total.get(name, 0) for name in GPU_RESOURCES),
    )


@lru_cache(maxsize=4096)
def _interned(cpu_milli: int, memory: int, gpus: int) -> Amounts:
    return Amounts(cpu_milli, memory, gpus, 1)


def reservation_of(raw: bytes) -> Reservation | None:
    """Return the reservation in a pod of the reservation namespace; None for any other pod there."""
    pod = decode_pod(raw)
    meta = pod.metadata
    group = meta.labels.get(names.GPU_GROUP_LABEL, "")
    if not group:
        return None
    prefix = names.RESERVED_FOR_PREFIX
    marks = (
        (key.removeprefix(prefix), user)
        for key, user in meta.annotations.items()
        if key.startswith(prefix)
    )
    return Reservation(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        group=group,
        node=pod.spec.node_name,
        gpu=meta.annotations.get(names.RESERVED_GPU, ""),
        users=tuple(sorted(marks)),
        is_ended=pod.is_over,
        is_leaving=bool(meta.deletion_timestamp),
    )


def volume_claims(pod: RawPod) -> tuple[str, ...]:
    """Return the names of the PersistentVolumeClaims a pod mounts."""
    found: list[str] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim:
            found.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            found.append(f"{pod.metadata.name}-{volume.name}")
    return tuple(dict.fromkeys(found))


def device_claim(pod: RawPod, name: str) -> str | None:
    """Return the ResourceClaim behind a pod's own name for it; None while it has none."""
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    for claim in pod.spec.resource_claims:
        if claim.name == name:
            return claim.resource_claim_name or made.get(name)
    return None
