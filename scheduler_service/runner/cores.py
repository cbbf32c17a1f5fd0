"""Which CPUs a pod with a CPU amount stays on: the least taken ones. Best effort: others may use them too."""

from __future__ import annotations

import os
from collections import Counter


class CoreBook:
    """Counts the pods on each CPU of this runner."""

    def __init__(self, cores: tuple[int, ...] | None = None) -> None:
        self._cores = available_cores() if cores is None else cores
        self._pods: Counter[int] = Counter()
        self._held: dict[str, tuple[int, ...]] = {}

    def take(self, incarnation: str, cpu_milli: int) -> tuple[int, ...]:
        """Return the CPUs for an amount, rounded up; none = all, where nothing was asked or all are needed."""
        count = -(-cpu_milli // 1000)
        if not 0 < count < len(self._cores):
            return ()
        chosen = sorted(self._cores, key=lambda core: (self._pods[core], core))[:count]
        self.hold(incarnation, tuple(sorted(chosen)))
        return self._held[incarnation]

    def hold(self, incarnation: str, cores: tuple[int, ...]) -> None:
        """Count a pod that is on `cores` already."""
        self.release(incarnation)
        self._held[incarnation] = cores
        self._pods.update(cores)

    def release(self, incarnation: str) -> None:
        """Forget a pod that ended."""
        self._pods.subtract(self._held.pop(incarnation, ()))


def available_cores() -> tuple[int, ...]:
    """Return the CPUs this process may use; none where the system has no affinity (macOS)."""
    if not hasattr(os, "sched_getaffinity"):
        return ()
    return tuple(sorted(os.sched_getaffinity(0)))
