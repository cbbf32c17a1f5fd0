"""The local backend: places are rows in the store, processes are started by the owners' runners.

Rules: 1. A place is on disk before its statement is accepted. 2. A statement is one transaction. 3. What the
ledger hears is derived from the records before and after (`spec.ledger_events`). 4. No device is given twice,
whatever the plan says: checked here again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from scheduler_service.backends.local import spec
from scheduler_service.backends.local.capacity import overbooked
from scheduler_service.backends.local.foreign import NOBODY, Holders
from scheduler_service.backends.local.gpus import Machine
from scheduler_service.backends.local.tokens import new_incarnation
from scheduler_service.errors import BackendError
from scheduler_service.ledger import events
from scheduler_service.model import reasons
from scheduler_service.model.node import GpuDevice, Node
from scheduler_service.model.plan import Bind, Evict, Statement
from scheduler_service.model.pod import PodState
from scheduler_service.ports import Accepted, Refused
from scheduler_service.store import life
from scheduler_service.store.groups import Groups
from scheduler_service.store.records import Ending, GroupRecord

SOMEBODY = "another request"
ReadMachine = Callable[[Holders], Machine]


class LocalCluster:
    """This machine as a backend. `read` tells what it has now, given who holds what of it."""

    name = "local"

    def __init__(self, groups: Groups, read: ReadMachine) -> None:
        self._groups = groups
        self._read = read
        self._observed: list[events.Event] = []
        self._seen = asyncio.Event()
        self.machine = read(self.holders())

    @property
    def node(self) -> Node:
        """The machine as a node."""
        return self.machine.node

    @property
    def devices(self) -> dict[str, GpuDevice]:
        """The devices of this machine by id."""
        return {device.id: device for device in self.node.devices}

    async def start(self) -> None:
        """Tell the ledger of the machine and of every live group, then of each change."""
        self._tell([events.NodeAdded(self.node)])
        for record in sorted(self._groups, key=lambda record: record.order):
            self._tell(spec.ledger_events(None, record))
        self._groups.subscribe(lambda before, after: self._tell(spec.ledger_events(before, after)))

    async def stop(self) -> None:
        """Leave everything as it is: processes go on, the store is the truth."""

    async def refresh_node(self) -> bool:
        """Read the machine again, tell the ledger if it changed, and return whether it did."""
        holders = self.holders()
        before, self.machine = self.machine, await asyncio.to_thread(self._read, holders)
        if before.node == self.node:
            return False
        self._tell([events.NodeChanged(self.node)])
        return True

    def holders(self) -> Holders:
        """Return whose pods hold a part of each device now."""
        found: dict[str, frozenset[str]] = {}
        for record in self._groups:
            for pod in record.pods if not record.is_over else ():
                for share in pod.devices if pod.is_occupied else ():
                    found[share.device] = found.get(share.device, NOBODY) | {record.owner}
        return found

    def observed(self) -> Sequence[events.Event]:
        """Return, and forget, what happened since the last call."""
        taken, self._observed = self._observed, []
        self._seen.clear()
        return taken

    async def wait_observed(self, timeout_s: float) -> bool:
        """Wait until something happened; False after `timeout_s`."""
        try:
            await asyncio.wait_for(self._seen.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def _tell(self, new: Iterable[events.Event]) -> None:
        self._observed.extend(new)
        if self._observed:
            self._seen.set()

    async def apply(self, statement: Statement, now: int) -> Accepted | Refused:
        """Write the statement's places and evictions in one transaction. The ledger keeps its promises."""
        changed = self._changed(statement, now)
        if isinstance(changed, Refused):
            return changed
        try:
            self._groups.put(*changed)
        except BackendError as error:
            return Refused(reasons.Refused(str(error)))
        return Accepted()

    def _changed(self, statement: Statement, now: int) -> list[GroupRecord] | Refused:
        binds: dict[str, dict[int, life.Place]] = defaultdict(dict)
        evictions: dict[str, dict[int, reasons.Reason]] = defaultdict(dict)
        for operation in statement.operations:
            group, rank = _group_and_rank(operation.pod)
            if isinstance(operation, Bind):
                place = life.Place(operation.node, operation.devices, new_incarnation())
                binds[group][rank] = place
            elif isinstance(operation, Evict):
                evictions[group][rank] = operation.reason
        records = []
        for key in sorted({*binds, *evictions}):
            record = self._groups.find(key)
            why = _unfit(record, binds.get(key, {}))
            if record is None or why is not None:
                return Refused(reasons.Refused(why or f"{key} is no longer there."))
            records.append(_after(record, binds.get(key, {}), evictions.get(key, {}), now))
        why = overbooked(self.node, self._groups, records)
        return records if why is None else Refused(reasons.Refused(why))


def _group_and_rank(pod_key: str) -> tuple[str, int]:
    group, _, rank = pod_key.rpartition("-")
    return group, int(rank)


def _unfit(record: GroupRecord | None, places: dict[int, life.Place]) -> str | None:
    """Return why the books moved on since the plan was made, if they did."""
    if record is None or record.is_over:
        return "The request is no longer there."
    if not places:
        return None
    if record.ending is not None:
        return "The request is being ended."
    if any(record.pods[rank].state is not PodState.PENDING for rank in places):
        return "One of its pods has a place already."
    return None


def _without_names(reason: reasons.Reason, owner: str) -> reasons.Reason:
    """Return the reason as the evicted person may read it: whose request it was for is not theirs to know."""
    if isinstance(reason, reasons.PreemptedBy | reasons.ReclaimedBy | reasons.MovedFor):
        is_own = reason.group.partition("/")[0] == owner
        return reason if is_own else replace(reason, group=SOMEBODY)
    return reason


def _after(
    record: GroupRecord,
    places: dict[int, life.Place],
    evictions: dict[int, reasons.Reason],
    now: int,
) -> GroupRecord:
    after = life.granted(record, places, now) if places else record
    if not evictions:
        return after
    reason = _without_names(next(iter(evictions.values())), record.owner)
    text = reasons.sentence(reason)
    ending = Ending(
        how="evicted",
        at=now,
        grace_s=record.ask.grace_s,
        requeue=record.ask.kind in life.REQUEUED_KINDS,
        reason=reason,
        text=text,
    )
    return life.evicted(after, evictions, ending, line=text)
