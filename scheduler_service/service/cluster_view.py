"""Queues and nodes as one caller sees them: others' names only where the queue's policy allows. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from scheduler_service.model import quantities
from scheduler_service.model.node import GpuDevice, Node
from scheduler_service.model.pod import PodState
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import Resources
from scheduler_service.ports import Caller
from scheduler_service.service import access, room
from scheduler_service.service.overview import Overview
from scheduler_service.service.usage import DeviceUsage
from scheduler_service.settings.queue_file import QueueConfig
from scheduler_service.store.records import GroupRecord, PodRecord
from scheduler_service.wire.cluster import (
    Amounts,
    DeviceView,
    ForeignProcess,
    Holder,
    NodeView,
    QueueView,
    WaitingRow,
)
from scheduler_service.words.group import state_of
from scheduler_service.words.units import request_text

COLLEAGUE = "a colleague"
MOST_ROWS = 50
HELD = frozenset({PodState.BINDING, PodState.BOUND, PodState.RUNNING})


@dataclass
class Picture:
    """What the views are made of: the live records and the last plan, as one caller may see them."""

    caller: Caller
    config: QueueConfig
    records: Sequence[GroupRecord]
    overview: Overview
    nodes: Sequence[Node] = ()
    usage: Mapping[str, DeviceUsage] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    """What is to be said of queues beside their sums, by name: changes that their leads made."""
    _names: dict[str, bool] = field(default_factory=dict)

    def shows_names(self, queue: str) -> bool:
        """Whether this caller sees who is in the queue."""
        if queue not in self._names:
            self._names[queue] = access.sees_names(self.caller, queue, self.config)
        return self._names[queue]

    def who(self, record: GroupRecord) -> str:
        """Return "you", the owner's name (where nobody is known to own it: the namespace), or "a colleague"."""
        if record.owner == self.caller.user:
            return "you"
        return (record.owner or record.namespace) if self._shows(record) else COLLEAGUE

    def _shows(self, record: GroupRecord) -> bool:
        return access.sees(self.caller, record) or self.shows_names(record.queue)

    def names(self, record: GroupRecord) -> tuple[str, str]:
        """Return namespace and name, empty where they are hidden."""
        if self._shows(record):
            return record.namespace, record.name
        return "", ""

    @cached_property
    def by_leaf(self) -> Mapping[str, list[GroupRecord]]:
        """The live groups of each leaf."""
        found: dict[str, list[GroupRecord]] = defaultdict(list)
        for record in self.records:
            found[record.queue].append(record)
        return found

    @cached_property
    def holders(self) -> Mapping[str, list[Holder]]:
        """Who holds what of each device, by its id."""
        return _holders(self)

    @cached_property
    def children(self) -> Mapping[str | None, list[Queue]]:
        """The queues below each queue, in order."""
        found: dict[str | None, list[Queue]] = defaultdict(list)
        for queue in sorted(self.config.queues, key=lambda q: (-q.priority, q.created, q.name)):
            found[queue.parent].append(queue)
        return found


def queue_views(picture: Picture) -> tuple[QueueView, ...]:
    """Return the tree of queues, parents before children."""
    return tuple(_below(None, 0, picture))


def _below(parent: str | None, depth: int, picture: Picture) -> Iterator[QueueView]:
    for queue in picture.children[parent]:
        yield _queue_view(queue, depth, picture)
        yield from _below(queue.name, depth + 1, picture)


def _groups_under(queue: str, picture: Picture) -> Iterator[GroupRecord]:
    yield from picture.by_leaf.get(queue, [])
    for child in picture.children[queue]:
        yield from _groups_under(child.name, picture)


def _queue_view(queue: Queue, depth: int, picture: Picture) -> QueueView:
    records = list(_groups_under(queue.name, picture))
    waiting = [record for record in records if state_of(record) == "Waiting"]
    allocated = _sum(_held(record) for record in records)
    requested = _sum(_asked(record, picture.nodes) for record in records)
    is_leaf = not picture.children[queue.name]
    plan = picture.overview.plan
    fair = None if plan is None else plan.fair_shares.get(queue.name)
    return QueueView(
        name=queue.name,
        parent=queue.parent,
        depth=depth,
        is_leaf=is_leaf,
        priority=queue.priority,
        quota=Amounts(
            milli_gpu=queue.gpu.quota, milli_cpu=queue.cpu.quota, memory_bytes=queue.memory.quota
        ),
        limit=Amounts(
            milli_gpu=queue.gpu.limit, milli_cpu=queue.cpu.limit, memory_bytes=queue.memory.limit
        ),
        over_quota_weight=queue.gpu.over_quota_weight,
        fair_share=_amounts(fair or Resources()),
        allocated=_amounts(allocated),
        requested=_amounts(requested),
        waiting=len(waiting),
        running=len(records) - len(waiting),
        may_submit=is_leaf and access.may_submit(picture.caller, queue.name, picture.config),
        shows_names=picture.shows_names(queue.name),
        sentence=_sentence(queue, allocated, requested - allocated, len(waiting))
        + picture.said.get(queue.name, ""),
        waiting_rows=_rows(waiting, picture) if is_leaf else (),
    )


def _sentence(queue: Queue, held: Resources, asked: Resources, waiting: int) -> str:
    have = quantities.gpu_words(held.milli_gpu)
    if queue.gpu.quota:
        have = f"{have.partition(' ')[0]} of {quantities.gpu_words(queue.gpu.quota)}"
    if not waiting:
        return f"{have} held, nobody waits."
    wish = quantities.gpu_words(max(0, asked.milli_gpu)).partition(" ")[0]
    return f"{have} held, {wish} asked."


def _rows(waiting: Sequence[GroupRecord], picture: Picture) -> tuple[WaitingRow, ...]:
    rows = []
    for record in waiting:
        standing = picture.overview.standing(record.key)
        namespace, name = picture.names(record)
        rows.append(
            WaitingRow(
                namespace=namespace,
                name=name,
                who=picture.who(record),
                mine=record.owner == picture.caller.user,
                position=standing.position or len(waiting),
                request_text=_row_text(record),
                eta_text="no time known" if standing.eta is None else standing.eta.text,
            )
        )
    ordered = sorted(rows, key=lambda row: (row.position, row.name))
    return tuple(row for number, row in enumerate(ordered) if number < MOST_ROWS or row.mine)


def _row_text(record: GroupRecord) -> str:
    """Return what is asked for, as short as a row of the panel needs it: "4 × 0.5 GPU"."""
    workers = len(record.pods)
    amount = request_text(record.request, 1)
    return amount if workers == 1 else f"{workers} × {amount}"


def _held(record: GroupRecord) -> Resources:
    return _sum(_pod_held(record, pod) for pod in record.pods)


def _pod_held(record: GroupRecord, pod: PodRecord) -> Resources:
    if pod.state not in HELD:
        return Resources()
    milli = sum(share.milli for share in pod.devices)
    return Resources(milli, record.request.milli_cpu, record.request.memory_bytes)


def _asked(record: GroupRecord, nodes: Sequence[Node]) -> Resources:
    """What a group holds and waits for; memory counts by the largest device, as nothing is placed yet."""
    held = _held(record)
    waiting = sum(pod.state is PodState.PENDING for pod in record.pods)
    charge = room.charge_milli(record.request.gpu, nodes)
    return held + Resources(
        charge * waiting, record.request.milli_cpu * waiting, record.request.memory_bytes * waiting
    )


def _sum(parts: Iterator[Resources]) -> Resources:
    total = Resources()
    for part in parts:
        total += part
    return total


def _amounts(amount: Resources) -> Amounts:
    return Amounts(
        milli_gpu=amount.milli_gpu, milli_cpu=amount.milli_cpu, memory_bytes=amount.memory_bytes
    )


def node_view(node: Node, picture: Picture) -> NodeView:
    """Return a node and its devices, with who holds what."""
    holders = picture.holders
    devices = tuple(
        _device_view(device, holders.get(device.id, []), picture.usage.get(device.id))
        for device in node.devices
    )
    return NodeView(
        name=node.name,
        simulated=node.is_simulated,
        milli_cpu=node.milli_cpu,
        memory_bytes=node.memory_bytes,
        max_pods=node.max_pods,
        milli_gpu=len(node.devices) * 1000,
        allocated_milli_gpu=sum(device.allocated_milli for device in devices),
        labels=dict(node.labels),
        devices=devices,
        schedulable=node.ready,
    )


def _holders(picture: Picture) -> Mapping[str, list[Holder]]:
    found: dict[str, list[Holder]] = defaultdict(list)
    for record in picture.records:
        namespace, name = picture.names(record)
        for pod in record.pods:
            for share in pod.devices if pod.is_occupied else ():
                found[share.device].append(
                    Holder(
                        namespace=namespace,
                        name=name,
                        who=picture.who(record),
                        mine=record.owner == picture.caller.user,
                        queue=record.queue,
                        milli=share.milli,
                        memory_mib=share.memory_mib or None,
                        releasing=pod.state is PodState.RELEASING,
                    )
                )
    return found


def _device_view(device: GpuDevice, holders: list[Holder], usage: DeviceUsage | None) -> DeviceView:
    foreign = () if usage is None else usage.foreign
    return DeviceView(
        id=device.id,
        index=device.index,
        model=device.model,
        memory_mib=device.memory_mib,
        simulated=device.simulated,
        allocated_milli=sum(holder.milli for holder in holders),
        holders=tuple(holders),
        foreign_pids=tuple(use.pid for use in foreign),
        foreign=tuple(
            ForeignProcess(pid=use.pid, user=use.user, since=use.since, used_mib=use.used_mib)
            for use in foreign
        ),
        used_mib=None if usage is None else usage.used_mib,
        busy_percent=None if usage is None else usage.busy_percent,
    )


def devices_text(node: Node) -> str:
    """Return what a node has: "2 simulated GPUs, 24 GiB each"."""
    count = len(node.devices)
    if not count:
        return "no GPU"
    kind = "simulated GPU" if node.is_simulated else (node.devices[0].model or "GPU")
    plural = "s" if count > 1 else ""
    sizes = {device.memory_mib for device in node.devices}
    size = sizes.pop() if len(sizes) == 1 else None
    if size is None:
        return f"{count} {kind}{plural}"
    return f"{count} {kind}{plural}, {quantities.mib_words(size)}{' each' if count > 1 else ''}"
