"""Devices handed out through claims (DRA)."""

from __future__ import annotations

import msgspec

MAX_CLAIM_USERS = 256


class ResourceSlice(msgspec.Struct, frozen=True, gc=False):
    """Devices `<class>/0` … of one class on one node."""

    node: str
    device_class: str
    count: int


class ClaimAllocation(msgspec.Struct, frozen=True, gc=False):
    """The devices a claim has, all on one node."""

    node: str
    devices: tuple[str, ...] = ()


class ResourceClaim(msgspec.Struct, frozen=True, gc=False):
    """A wish for devices that pods name. `reserved_for`: keys of pods that use it now."""

    name: str
    namespace: str
    device_class: str
    count: int = 1
    queue: str | None = None
    allocation: ClaimAllocation | None = None
    reserved_for: tuple[str, ...] = ()
    foreign_consumers: int = 0

    @property
    def key(self) -> str:
        """The claim's identity: namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_gpu(self) -> bool:
        """Whether its devices count as GPUs of the node and the queue."""
        return is_gpu_class(self.device_class)


def is_gpu_class(device_class: str) -> bool:
    """Return whether devices of this class are counted as GPUs."""
    return "gpu" in device_class.lower()
