"""Amounts of the three resources that queues share out. Integers only, unlimited is None."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

_NOTHING: dict[str, Any] = {}


def nothing() -> dict[str, Any]:
    """Return the one empty mapping that all values without labels and the like share.

    There are hundreds of thousands of them; nobody may write to it.
    """
    return _NOTHING


Resource = Literal["gpu", "cpu", "memory"]
RESOURCES: tuple[Resource, Resource, Resource] = ("gpu", "cpu", "memory")


class Resources(msgspec.Struct, frozen=True, gc=False):
    """An amount of each resource: milli-GPU, milli-CPU, bytes."""

    milli_gpu: int = 0
    milli_cpu: int = 0
    memory_bytes: int = 0

    def __add__(self, other: Resources) -> Resources:
        """Return the sum, resource by resource."""
        return Resources(
            self.milli_gpu + other.milli_gpu,
            self.milli_cpu + other.milli_cpu,
            self.memory_bytes + other.memory_bytes,
        )

    def __sub__(self, other: Resources) -> Resources:
        """Return the difference, resource by resource; it may be negative."""
        return Resources(
            self.milli_gpu - other.milli_gpu,
            self.milli_cpu - other.milli_cpu,
            self.memory_bytes - other.memory_bytes,
        )

    def of(self, resource: Resource) -> int:
        """Return the amount of one resource."""
        if resource == "gpu":
            return self.milli_gpu
        return self.milli_cpu if resource == "cpu" else self.memory_bytes


ZERO = Resources()


class QueueShare(msgspec.Struct, frozen=True, gc=False):
    """What a queue may have of one resource. `None` is unlimited; a limit of 0 is a real cap."""

    quota: int | None = None
    limit: int | None = None
    over_quota_weight: int = 1
