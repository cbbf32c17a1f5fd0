"""A machine with simulated devices, and a clock that moves when it is told to."""

from __future__ import annotations

import os

from scheduler_service.backends.local.gpus import Machine, simulated_devices
from scheduler_service.model.node import Node
from scheduler_service.wire.locate import start_ticks
from scheduler_service.wire.pod_group import Process

MORNING = 1_900_000_000_000


class ManualClock:
    """Milliseconds since the epoch; stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now = MORNING

    def __call__(self) -> int:
        return self.now

    def pass_s(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.now += int(seconds * 1000)


def machine(devices: str = "2x24GiB") -> Machine:
    """Return a machine of one node with 16 CPUs and simulated devices."""
    found = simulated_devices(devices)
    node = Node(
        name="node-0",
        gpus=len(found),
        gpu_memory_mib=found[0].memory_mib if found else None,
        milli_cpu=16_000,
        memory_bytes=64 * 2**30,
        max_pods=10_000,
        devices=found,
    )
    return Machine(node, ("The GPUs are simulated.",))


def own_process() -> Process:
    """Return this very process as the holder of a lease: it certainly lives."""
    pid = os.getpid()
    return Process(pid=pid, start_ticks=start_ticks(pid) or 0)
