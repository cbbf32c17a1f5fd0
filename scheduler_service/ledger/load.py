"""From a snapshot into the book, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from scheduler_service.ledger import bulk, states
from scheduler_service.ledger.bulk import device_ids
from scheduler_service.ledger.groups import STATES, Group, Leaf, new_group, only_leaf
from scheduler_service.ledger.nodes import NO_NODE
from scheduler_service.ledger.queues import NO_QUEUE
from scheduler_service.ledger.shape import FRACTION, MEMORY, Shape
from scheduler_service.model.claim import ResourceSlice
from scheduler_service.model.gpu import GpuShare
from scheduler_service.model.pod import Pod
from scheduler_service.model.pod_group import PodGroup, SubGroup
from scheduler_service.model.snapshot import Snapshot, StaticVeto

if TYPE_CHECKING:
    from scheduler_service.ledger.store import Ledger


def fill(ledger: Ledger, snapshot: Snapshot) -> None:
    """Put everything of a snapshot into an empty ledger."""
    ledger.topologies = {topology.name: topology for topology in snapshot.topologies}
    ledger.slices = snapshot.resource_slices
    ledger.vetoes = by_pod(snapshot.vetoes)
    ledger.holds = {hold.pod: hold for hold in snapshot.holds}
    ledger.back_offs = {back_off.group: back_off for back_off in snapshot.back_offs}
    ledger.usage = dict(snapshot.usage)
    ledger.owner_usage = {queue: dict(used) for queue, used in snapshot.owner_usage.items()}
    slices = slices_by_node(snapshot.resource_slices)
    ledger.nodes.describe_new(snapshot.nodes, slices)
    ledger.queues.load(list(snapshot.queues))
    for claim in snapshot.resource_claims:
        ledger.claims.add(claim)
    add_groups(ledger, snapshot.pod_groups)
    bulk.add_pods(ledger, snapshot.pods)
    ledger.journal.forget()


def by_pod(vetoes: tuple[StaticVeto, ...]) -> dict[str, tuple[StaticVeto, ...]]:
    """Return vetoes by pod."""
    table: dict[str, tuple[StaticVeto, ...]] = {}
    for veto in vetoes:
        table[veto.pod] = (*table.get(veto.pod, ()), veto)
    return table


def slices_by_node(slices: tuple[ResourceSlice, ...]) -> dict[str, dict[str, int]]:
    """Return node -> device class -> count."""
    table: dict[str, dict[str, int]] = {}
    for item in slices:
        classes = table.setdefault(item.node, {})
        classes[item.device_class] = classes.get(item.device_class, 0) + item.count
    return table


def add_group(ledger: Ledger, model: PodGroup) -> None:
    """Open a group, and let in the pods that came before it."""
    key = f"{model.namespace}/{model.name}"
    group = new_group(key, model, ledger.queues.row_of.get(model.queue, NO_QUEUE))
    ledger.groups[key] = group
    if not group.is_flat or group.leaf.spec.min_members > 1:
        ledger.gangs[key] = None
    if ledger.orphans:
        for pod in ledger.orphans.pop(key, ()):
            ledger.join(pod, group)


def add_groups(ledger: Ledger, models: Iterable[PodGroup]) -> None:
    """Open many groups; most of them are one pod under a root that others have too."""
    groups, row_of = ledger.groups, ledger.queues.row_of
    root: SubGroup | None = None
    only: SubGroup | None = None
    name, queue = "", NO_QUEUE
    for model in models:
        if model.gang is not root:
            root = model.gang
            only = only_leaf(root)
            if root.min_subgroups is not None or (only and only.min_members > 1):
                only = None
        if only is None or ledger.orphans:
            add_group(ledger, model)
            continue
        if model.queue != name:
            name = model.queue
            queue = row_of.get(name, NO_QUEUE)
        key = f"{model.namespace}/{model.name}"
        groups[key] = Group(key, model, queue, Leaf(only, [], [0] * STATES))


def shares_of(
    ledger: Ledger, shape: Shape, node: int, ids: tuple[str, ...]
) -> tuple[GpuShare, ...]:
    """Return what a pod of this shape holds of each device."""
    model = ledger.nodes.models[node]
    memory = model.gpu_memory_mib if model is not None else None
    if memory and node in ledger.nodes.sizes:
        size_of = ledger.nodes.size_of
        return tuple([_share(shape, device, size_of(node, device)) for device in ids])
    if len(ids) != 1:
        one = _share(shape, "", memory)
        return tuple([GpuShare(device, one.milli, one.memory_mib) for device in ids])
    return (_share(shape, ids[0], memory),)


def _share(shape: Shape, device: str, memory: int | None) -> GpuShare:
    """Return what a pod of this shape holds of a device of this size."""
    if shape.kind == FRACTION:
        milli, mib = shape.milli, shape.need_on(memory) if memory else 0
    elif shape.kind == MEMORY:
        milli, mib = -(-shape.mib * 100 // memory) * 10 if memory else 0, shape.mib
    else:
        milli, mib = 1000, memory or 0
    return GpuShare(device, milli, mib)


def read(ledger: Ledger, now_ms: int) -> Snapshot:
    """Return what the book says, frozen, in the order of names."""
    nodes = [node for node in ledger.nodes.models if node is not None]
    pods = [read_pod(ledger, row) for _, row in sorted(ledger.pods.row_of.items())]
    return Snapshot(
        now_ms=now_ms,
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        queues=tuple(ledger.queues.models),
        pod_groups=tuple(group.model for _, group in sorted(ledger.groups.items())),
        pods=tuple(pods),
        topologies=tuple(topology for _, topology in sorted(ledger.topologies.items())),
        resource_slices=ledger.slices,
        resource_claims=tuple(claim for _, claim in sorted(ledger.claims.models.items())),
        vetoes=tuple(veto for _, vetoes in sorted(ledger.vetoes.items()) for veto in vetoes),
        holds=tuple(hold for _, hold in sorted(ledger.holds.items())),
        back_offs=tuple(back_off for _, back_off in sorted(ledger.back_offs.items())),
        usage=dict(sorted(ledger.usage.items())),
        owner_usage={queue: dict(used) for queue, used in sorted(ledger.owner_usage.items())},
    )


def read_pod(ledger: Ledger, row: int) -> Pod:
    """Return a pod as it is now."""
    pods = ledger.pods
    model, node = pods.models[row], pods.node[row]
    state = states.STATE_OF[pods.state[row]]
    name = ledger.nodes.name_of(node) or model.node if node != NO_NODE else None
    shape = ledger.shapes.shapes[pods.shape[row]]
    if (
        model.state is state
        and model.node == name
        and pods.devices[row] == device_ids(model, shape)
    ):
        return model
    devices: tuple[GpuShare, ...] = ()
    if node != NO_NODE:
        devices = shares_of(ledger, shape, node, pods.devices[row])
    return msgspec.structs.replace(model, state=state, node=name, devices=devices)
