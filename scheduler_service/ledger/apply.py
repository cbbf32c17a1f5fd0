"""What each event does to the book: one small function an event, one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler_service.ledger import bulk, events, load, states, usage
from scheduler_service.ledger.nodes import NO_NODE, Part
from scheduler_service.ledger.pods import Devices
from scheduler_service.ledger.queues import NO_QUEUE
from scheduler_service.model.node import Node
from scheduler_service.model.plan import Bind, Evict, Pipeline, Statement
from scheduler_service.model.pod import Pod, PodState
from scheduler_service.model.queue import Queue
from scheduler_service.model.snapshot import Hold

if TYPE_CHECKING:
    from scheduler_service.ledger.store import Ledger


def apply(ledger: Ledger, event: events.Event) -> None:
    """Take over one event."""
    _HANDLERS[type(event)](ledger, event)


# -- nodes ---------------------------------------------------------------------------------------


def _node_is(ledger: Ledger, event: events.NodeAdded | events.NodeChanged) -> None:
    _describe(ledger, event.node.name, event.node)


def _node_removed(ledger: Ledger, event: events.NodeRemoved) -> None:
    if event.name in ledger.nodes.row_of:
        _describe(ledger, event.name, None)


def _describe(ledger: Ledger, name: str, node: Node | None) -> None:
    """Offer afresh what a node has, with the pods on it booked again."""
    row = ledger.nodes.open_row(name)
    on_it = ledger.pods.on(row)
    for pod in on_it:
        ledger.book_pod(pod, -1)
    ledger.nodes.describe(row, node, load.slices_by_node(ledger.slices).get(name, {}))
    for claim in ledger.claims.models.values():
        if claim.foreign_consumers and ledger.claims.use[claim.key].node == row:
            ledger.nodes.book_claim(row, claim.device_class, claim.count, Part(1, 1))
    for pod in on_it:
        ledger.book_pod(pod, 1)
        ledger.charge_again(pod)


def _slices_changed(ledger: Ledger, event: events.SlicesChanged) -> None:
    names = {item.node for item in (*ledger.slices, *event.slices)}
    ledger.slices = event.slices
    for name in sorted(names & ledger.nodes.row_of.keys()):
        _describe(ledger, name, ledger.nodes.models[ledger.nodes.row_of[name]])


# -- queues --------------------------------------------------------------------------------------


def _queue_is(ledger: Ledger, event: events.QueueAdded | events.QueueChanged) -> None:
    others = [queue for queue in ledger.queues.models if queue.name != event.queue.name]
    _load_queues(ledger, [*others, event.queue])


def _queue_removed(ledger: Ledger, event: events.QueueRemoved) -> None:
    _load_queues(ledger, [queue for queue in ledger.queues.models if queue.name != event.name])


def _load_queues(ledger: Ledger, queues: list[Queue]) -> None:
    """Put all queues afresh and sum up again what their groups hold and ask for."""
    members = [(pod, group) for group in ledger.groups.values() for pod in list(group.pods())]
    for pod, _ in members:
        ledger.leave(pod)
    ledger.queues.load(queues)
    for group in ledger.groups.values():
        group.queue = ledger.queues.row_of.get(group.model.queue, NO_QUEUE)
    for pod, group in members:
        ledger.join(pod, group)


# -- groups --------------------------------------------------------------------------------------


def _group_is(ledger: Ledger, event: events.PodGroupAdded | events.PodGroupChanged) -> None:
    key = event.group.key
    old = ledger.groups.get(key)
    if old is None:
        load.add_group(ledger, event.group)
        return
    members = list(old.pods())
    for pod in members:
        ledger.leave(pod)
    ledger.gangs.pop(key, None)
    load.add_group(ledger, event.group)
    for pod in members:
        ledger.join(pod, ledger.groups[key])


def _group_removed(ledger: Ledger, event: events.PodGroupRemoved) -> None:
    members = list(ledger.orphans.pop(event.key, ()))
    group = ledger.groups.get(event.key)
    if group is not None:
        members += group.pods()
    for pod in members:
        remove_pod(ledger, ledger.pods.keys[pod])
    ledger.groups.pop(event.key, None)
    ledger.open_groups.pop(event.key, None)
    ledger.gangs.pop(event.key, None)
    ledger.back_offs.pop(event.key, None)


# -- pods ----------------------------------------------------------------------------------------


def _pod_added(ledger: Ledger, event: events.PodAdded) -> None:
    remove_pod(ledger, event.pod.key)
    bulk.add_pod(ledger, event.pod)


def _pod_removed(ledger: Ledger, event: events.PodRemoved) -> None:
    remove_pod(ledger, event.key)


def remove_pod(ledger: Ledger, key: str) -> None:
    """Take a pod out of the book, if it is there."""
    pods = ledger.pods
    row = pods.row_of.pop(key, None)
    if row is None:
        return
    ledger.leave(row)
    _move(ledger, row, states.GATED)
    _forget_orphan(ledger, pods.models[row].group, row)
    for index in (ledger.affinity_pods, ledger.deleted, ledger.promised):
        index.pop(row, None)
    ledger.holds.pop(key, None)
    pods.free_rows.append(row)


def _forget_orphan(ledger: Ledger, group: str, row: int) -> None:
    orphans = ledger.orphans.get(group)
    if orphans is not None:
        orphans.pop(row, None)
        if not orphans:
            del ledger.orphans[group]


def _move(ledger: Ledger, row: int, state: int, node: int = NO_NODE, devices: Devices = ()) -> None:
    """Move a pod for good."""
    before = ledger.pods.node[row]
    ledger.move(row, state, node, devices)
    if ledger.pods.node[row] != before:
        ledger.pods.moved(row, before)


def _pod_state(ledger: Ledger, event: events.PodStateChanged) -> None:
    pods = ledger.pods
    row = pods.row_of.get(event.key)
    if row is None:
        return
    state = states.CODE_OF[event.state]
    node, devices = NO_NODE, tuple(share.device for share in event.devices)
    if states.HAS_PLACE[state]:
        node, devices = _place(ledger, row, event)
    if states.HAS_PLACE[state] and node == NO_NODE:
        return
    if event.state is PodState.RUNNING or event.state in {PodState.SUCCEEDED, PodState.FAILED}:
        ledger.holds.pop(event.key, None)
    _move(ledger, row, state, node, devices)
    ledger.set_deleted(row, event.deleted_ms)


def _place(ledger: Ledger, row: int, event: events.PodStateChanged) -> tuple[int, tuple[str, ...]]:
    """Return the place an event tells, or the one the pod has where it tells none."""
    pods = ledger.pods
    if event.node is None:
        return pods.node[row], pods.devices[row]
    node = ledger.nodes.open_row(event.node)
    if event.devices:
        return node, tuple(share.device for share in event.devices)
    if node == pods.node[row]:
        return node, pods.devices[row]
    bare: Pod = msgspec.structs.replace(pods.models[row], devices=())
    return node, bulk.device_ids(bare, ledger.shape_of(row))


# -- what the loop assumes -----------------------------------------------------------------------


def _assumed(ledger: Ledger, event: events.Assumed) -> None:
    for operation in event.statement.operations:
        row = ledger.pods.row_of.get(operation.pod)
        if row is None:
            continue
        if isinstance(operation, Bind):
            node = ledger.nodes.open_row(operation.node)
            ids = tuple(share.device for share in operation.devices)
            _move(ledger, row, states.BINDING, node, ids)
            ledger.holds.pop(operation.pod, None)
        elif isinstance(operation, Evict):
            _evicted(ledger, row, event.now_ms)
        elif event.hold_ms:
            known = ledger.holds.get(operation.pod)
            until = event.now_ms + event.hold_ms
            if known is not None and event.now_ms < known.until_ms:
                until = known.until_ms  # a promise made again does not last longer
            ledger.holds[operation.pod] = Hold(operation.pod, operation.node, until)


def _evicted(ledger: Ledger, row: int, now_ms: int) -> None:
    pods = ledger.pods
    if states.HOLDS_NOW[pods.state[row]]:
        ledger.move(row, states.RELEASING, pods.node[row], pods.devices[row])
        ledger.set_deleted(row, now_ms)


def _undone(ledger: Ledger, event: events.AssumedUndone) -> None:
    statement: Statement = event.statement
    for operation in statement.operations:
        row = ledger.pods.row_of.get(operation.pod)
        if row is None:
            continue
        state = ledger.pods.state[row]
        if isinstance(operation, Bind) and state == states.BINDING:
            _move(ledger, row, states.PENDING)
        elif isinstance(operation, Evict) and state == states.RELEASING:
            pods = ledger.pods
            ledger.move(row, states.RUNNING, pods.node[row], pods.devices[row])
            ledger.set_deleted(row, None)
        elif isinstance(operation, Pipeline):
            ledger.holds.pop(operation.pod, None)


# -- the rest ------------------------------------------------------------------------------------


def _vetoes_changed(ledger: Ledger, event: events.VetoesChanged) -> None:
    changed = ledger.vetoes.keys() | {veto.pod for veto in event.vetoes}
    ledger.vetoes = load.by_pod(event.vetoes)
    _with_pods_out(ledger, sorted(changed & ledger.pods.row_of.keys()), lambda: None)


def _with_pods_out(ledger: Ledger, keys: list[str], change: Callable[[], None]) -> None:
    """Change something while these pods are out of the book; their holds stay."""
    rows = [ledger.pods.row_of[key] for key in keys]
    pods = [load.read_pod(ledger, row) for row in rows]
    holds = {key: ledger.holds[key] for key in keys if key in ledger.holds}
    for key in keys:
        remove_pod(ledger, key)
    change()
    for pod in pods:
        bulk.add_pod(ledger, pod)
    ledger.holds.update(holds)


def _claim_changed(ledger: Ledger, event: events.ClaimChanged) -> None:
    _with_users(ledger, event.claim.key, lambda: ledger.claims.add(event.claim))


def _claim_removed(ledger: Ledger, event: events.ClaimRemoved) -> None:
    _with_users(ledger, event.key, lambda: ledger.claims.remove(event.key))


def _with_users(ledger: Ledger, key: str, change: Callable[[], None]) -> None:
    """Change a claim while the pods that use it are out of the book."""
    pods = ledger.pods
    users = [name for name, row in pods.row_of.items() if key in _claim_keys(pods.models[row])]
    _with_pods_out(ledger, users, change)


def _claim_keys(pod: Pod) -> set[str]:
    return {f"{pod.namespace}/{name}" for name in pod.resource_claims}


def _backed_off(ledger: Ledger, event: events.BackedOff) -> None:
    ledger.back_offs[event.back_off.group] = event.back_off


def _back_off_ended(ledger: Ledger, event: events.BackOffEnded) -> None:
    ledger.back_offs.pop(event.group, None)


def _held(ledger: Ledger, event: events.Held) -> None:
    ledger.holds[event.hold.pod] = event.hold


def _hold_ended(ledger: Ledger, event: events.HoldEnded) -> None:
    ledger.holds.pop(event.pod, None)


def _topology_changed(ledger: Ledger, event: events.TopologyChanged) -> None:
    ledger.topologies.pop(event.topology.name, None)
    if event.topology.levels:
        ledger.topologies[event.topology.name] = event.topology


def _usage_changed(ledger: Ledger, event: events.UsageChanged) -> None:
    ledger.usage = dict(event.usage)
    ledger.owner_usage = {queue: dict(used) for queue, used in event.owner_usage.items()}


def _usage_tick(ledger: Ledger, event: events.UsageTick) -> None:
    held = usage.held_now(ledger, by_owner=event.by_owner)
    rule = usage.UsageRule(max(0, event.half_life_ms), max(0, event.window_ms))
    ledger.usage_book = usage.advanced(ledger.usage_book, held, event.now_ms, rule)
    ledger.usage = usage.queue_usage(ledger.usage_book)
    ledger.owner_usage = usage.owner_usage(ledger.usage_book)


def _usage_book_found(ledger: Ledger, event: events.UsageBookFound) -> None:
    ledger.usage_book = event.book
    ledger.usage = usage.queue_usage(event.book)
    ledger.owner_usage = usage.owner_usage(event.book)


_HANDLERS: dict[type[Any], Callable[[Ledger, Any], None]] = {
    events.NodeAdded: _node_is,
    events.NodeChanged: _node_is,
    events.NodeRemoved: _node_removed,
    events.QueueAdded: _queue_is,
    events.QueueChanged: _queue_is,
    events.QueueRemoved: _queue_removed,
    events.PodGroupAdded: _group_is,
    events.PodGroupChanged: _group_is,
    events.PodGroupRemoved: _group_removed,
    events.PodAdded: _pod_added,
    events.PodStateChanged: _pod_state,
    events.PodRemoved: _pod_removed,
    events.Assumed: _assumed,
    events.AssumedUndone: _undone,
    events.BackedOff: _backed_off,
    events.BackOffEnded: _back_off_ended,
    events.Held: _held,
    events.HoldEnded: _hold_ended,
    events.TopologyChanged: _topology_changed,
    events.ClaimChanged: _claim_changed,
    events.ClaimRemoved: _claim_removed,
    events.SlicesChanged: _slices_changed,
    events.VetoesChanged: _vetoes_changed,
    events.UsageChanged: _usage_changed,
    events.UsageTick: _usage_tick,
    events.UsageBookFound: _usage_book_found,
}
