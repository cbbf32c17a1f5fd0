"""What real devices do: memory in use, how busy, who uses them without a lease. Read beside the event loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scheduler_service.agent.nvml import Devices, GpuState, Trouble
from scheduler_service.backends.local.foreign import ForeignRule
from scheduler_service.backends.local.people import user_of
from scheduler_service.store.records import GroupRecord

ONE_PERSON = ForeignRule()
ReadDevices = Callable[[], Devices | Trouble]


def no_devices() -> Devices | Trouble:
    """Return that there is nothing to measure: the devices are simulated."""
    return Devices(driver="", devices=())


@dataclass(frozen=True, slots=True)
class ForeignUse:
    """A process that uses a device without a lease; `since` is when it was first seen there."""

    index: int
    pid: int
    user: str
    """"" where its account can not be seen."""
    used_mib: int | None
    since: int


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """One device at the last look. `busy_percent` and `used_mib` None = not told."""

    used_mib: int | None
    busy_percent: int | None
    foreign: tuple[ForeignUse, ...]
    last_busy_at: int | None
    """When it was last seen at work; None = it does not tell."""


@dataclass(slots=True)
class Usage:
    """The last look at every device, by id."""

    by_device: Mapping[str, DeviceUsage] = field(default_factory=dict)

    def look(self, answer: Devices | Trouble, now: int, rule: ForeignRule = ONE_PERSON) -> bool:
        """Take over what was read; whether anything reads differently now."""
        states = answer.devices if isinstance(answer, Devices) else ()
        fresh = {state.uuid: self._usage(state, now, rule) for state in states}
        before, self.by_device = self.by_device, fresh
        return before != fresh

    def _usage(self, state: GpuState, now: int, rule: ForeignRule) -> DeviceUsage:
        before = self.by_device.get(state.uuid)
        busy = state.utilisation_percent
        last = now if busy or before is None else before.last_busy_at
        return DeviceUsage(
            used_mib=state.used_mib,
            busy_percent=busy,
            foreign=self._foreign(state, now, rule),
            last_busy_at=None if busy is None else last,
        )

    def _foreign(self, state: GpuState, now: int, rule: ForeignRule) -> tuple[ForeignUse, ...]:
        before = self.by_device.get(state.uuid)
        since = {use.pid: use.since for use in before.foreign} if before else {}
        return tuple(
            ForeignUse(
                state.index,
                process.pid,
                user_of(process.pid) or "",
                process.used_mib,
                since.get(process.pid, now),
            )
            for process in rule.of(state)
        )

    @property
    def foreign(self) -> tuple[ForeignUse, ...]:
        """Who uses a device without a lease, in the order of the devices."""
        found = [use for look in self.by_device.values() for use in look.foreign]
        return tuple(sorted(found, key=lambda use: (use.index, use.since, use.pid)))

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
