"""A machine and its devices. Amounts are what the scheduler may hand out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from scheduler_service.model.resources import nothing

MigStrategy = Literal["single", "mixed"]
TaintEffect = Literal["NoSchedule", "NoExecute", "PreferNoSchedule"]
NodeRole = Literal["any", "gpu", "cpu"]


class GpuDevice(msgspec.Struct, frozen=True, gc=False):
    """One physical GPU: `id` is its UUID, or its index where there is none.

    `taken`: a process that is not ours uses it, so it is not handed out.
    """

    id: str
    index: int
    memory_mib: int | None = None
    model: str = ""
    simulated: bool = False
    taken: bool = False


class Taint(msgspec.Struct, frozen=True, gc=False):
    """Keeps pods without a matching toleration away."""

    key: str
    value: str = ""
    effect: TaintEffect = "NoSchedule"


class Node(msgspec.Struct, frozen=True, gc=False):
    """A machine with allocatable resources.

    `gpus` counts whole GPUs; where `devices` is given they are the ids to hand out, and `gpus` is
    the number of those not taken. `gpu_memory_mib` of each GPU, None = not known; where the sizes
    that `devices` tell differ, each GPU counts by its own.
    `foreign_*` is held by others. `ready` false: nothing new is placed here.
    """

    name: str
    gpus: int = 0
    gpu_memory_mib: int | None = None
    milli_cpu: int = 0
    memory_bytes: int = 0
    max_pods: int = 110
    labels: Mapping[str, str] = msgspec.field(default_factory=nothing)
    mig: Mapping[str, int] = msgspec.field(default_factory=nothing)
    mig_strategy: MigStrategy | None = None
    devices: tuple[GpuDevice, ...] = ()
    taints: tuple[Taint, ...] = ()
    extended: Mapping[str, int] = msgspec.field(default_factory=nothing)
    ready: bool = True
    role: NodeRole = "any"
    foreign_milli_cpu: int = 0
    foreign_memory_bytes: int = 0
    foreign_pods: int = 0

    @property
    def is_simulated(self) -> bool:
        """Whether its GPUs are simulated."""
        return any(device.simulated for device in self.devices)
