"""Who uses a device of this machine without a lease.

Rules: 1. A process that only draws (a display server) asks for no lease. 2. Where one person runs the service, their
own processes are theirs to manage. 3. Where it is shared, who holds a part of a device may use it from any process of
theirs; everybody else's use is foreign. 4. A process that can not be seen is foreign unless the device is held.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from scheduler_service.agent.nvml import GpuProcess, GpuState
from scheduler_service.backends.local.people import owner_of, user_of

Holders = Mapping[str, frozenset[str]]
"""Who holds a part of each device, by its id."""
NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ForeignRule:
    """What counts as use without a lease. `shared`: several people's processes are told apart by their accounts."""

    shared: bool = False
    holders: Holders = field(default_factory=dict)

    def of(self, state: GpuState) -> tuple[GpuProcess, ...]:
        """Return the processes that use a device without a lease."""
        return tuple(p for p in state.processes if not p.draws_only and self._is_foreign(p, state))

    def _is_foreign(self, process: GpuProcess, state: GpuState) -> bool:
        holders = self.holders.get(state.uuid, NOBODY)
        if not self.shared:
            owner = owner_of(process.pid)
            return owner == "other" or (owner == "unseen" and not holders)
        return _is_strangers(user_of(process.pid), holders)


def _is_strangers(user: str | None, holders: Collection[str]) -> bool:
    return not holders if user is None else user not in holders
