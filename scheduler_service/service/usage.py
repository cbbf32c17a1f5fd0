"""What real devices do: memory in use, how busy, who uses them without a lease. Read beside the event loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scheduler_service.agent.nvml import Devices, GpuState, Trouble
from scheduler_service.backends.local.gpus import owner_of
from scheduler_service.store.records import GroupRecord

ReadDevices = Callable[[], Devices | Trouble]


def no_devices() -> Devices | Trouble:
    """Return that there is nothing to measure: the devices are simulated."""
    return Devices(driver="", devices=())


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """One device at the last look. `busy_percent` and `used_mib` None = not told."""

    used_mib: int | None
    busy_percent: int | None
    foreign_pids: tuple[int, ...]
    last_busy_at: int | None
    """When it was last seen at work; None = it does not tell."""


@dataclass(slots=True)
class Usage:
    """The last look at every device, by id."""

    by_device: Mapping[str, DeviceUsage] = field(default_factory=dict)

    def look(self, answer: Devices | Trouble, now: int) -> bool:
        """Take over what was read; whether anything reads differently now."""
        states = answer.devices if isinstance(answer, Devices) else ()
        fresh = {state.uuid: self._usage(state, now) for state in states}
        before, self.by_device = self.by_device, fresh
        return before != fresh

    def _usage(self, state: GpuState, now: int) -> DeviceUsage:
        before = self.by_device.get(state.uuid)
        busy = state.utilisation_percent
        last = now if busy or before is None else before.last_busy_at
        return DeviceUsage(
            used_mib=state.used_mib,
            busy_percent=busy,
            foreign_pids=tuple(p.pid for p in state.processes if owner_of(p.pid) != "ours"),
            last_busy_at=None if busy is None else last,
        )

    def idle_ms(self, record: GroupRecord, now: int, *, after_s: int) -> int | None:
        """Return how long a lease's devices have done nothing, if that is known and long enough to tell."""
        devices = {share.device for pod in record.pods if pod.is_occupied for share in pod.devices}
        looks = [self.by_device.get(device) for device in devices]
        moments = [look.last_busy_at for look in looks if look is not None]
        known = [moment for moment in moments if moment is not None]
        if not devices or len(known) < len(devices) or record.granted_at is None:
            return None
        idle = now - max(*known, record.granted_at)
        return idle if idle >= after_s * 1000 else None
