"""The Ledger: nodes, devices, pods, pod groups and queues in one book.

Fed by events (`apply`), read by planning, which may try anything between `checkpoint` and
`rollback`. Everything a pod holds is booked by `move` and by nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from scheduler_service.ledger import apply, core_pods, load, states
from scheduler_service.ledger.claims import ClaimTable
from scheduler_service.ledger.events import Event
from scheduler_service.ledger.groups import Group, Leaf
from scheduler_service.ledger.journal import MISSING, Journal
from scheduler_service.ledger.nodes import (
    BOUND_PART,
    NO_NODE,
    PROMISED_PART,
    NodeTable,
    Part,
)
from scheduler_service.ledger.pods import Devices, PodTable
from scheduler_service.ledger.queues import QueueSums, QueueTable
from scheduler_service.ledger.shape import Shape, ShapeBook
from scheduler_service.ledger.tidy import Tidy
from scheduler_service.ledger.usage import UsageBook
from scheduler_service.model.claim import ResourceSlice
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.model.resources import Resources
from scheduler_service.model.snapshot import BackOff, Hold, Snapshot, StaticVeto
from scheduler_service.model.topology import Topology

TAKE, GIVE = 1, -1


BINDING = states.BINDING
PREEMPTIBLE = Preemptibility.PREEMPTIBLE


def no_usage() -> tuple[dict[str, Resources], dict[str, dict[str, int]], UsageBook]:
    """Return that nobody used anything lately: no queue, no owner, an empty book."""
    return {}, {}, UsageBook()


class Change(NamedTuple):
    """A pod's state before and after, and the node it is on after."""

    was: int
    now: int
    node: int


class Start(NamedTuple):
    """What `Ledger.start` changed besides the pod's own row and its node."""

    counts: list[int]
    group: Group
    pending: int
    sums: list[QueueSums]


class Started:
    """Takes back starts: puts the pod among the pending ones again, with all sums of before."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __setitem__(self, pod: int, old: Start) -> None:
        """Put back what was before."""
        ledger, pods = self._ledger, self._ledger.pods
        counts, group, pending, sums = old
        counts[states.PENDING] += 1
        counts[pods.state[pod]] -= 1
        ledger.open_groups[group.key] = pending
        for row, allocated, non_preemptible, waiting in sums:
            ledger.queues[row] = (allocated, non_preemptible, waiting)
        pods.state[pod], pods.node[pod], pods.devices[pod] = states.PENDING, NO_NODE, ()
        pods.charge[pod], pods.is_core[pod] = 0, False


class Ledger:
    """The long-lived book. A moment is never kept: `now` comes with the call that needs it."""

    def __init__(self) -> None:
        self.journal, self.tidy = Journal(), Tidy()
        self.started = Started(self)
        self.nodes = NodeTable(self.journal)
        self.queues = QueueTable(self.journal)
        self.pods = PodTable()
        self.groups: dict[str, Group] = {}
        self.shapes = ShapeBook()
        self.claims = ClaimTable(self.journal, self.nodes)
        self.before: dict[int, tuple[int, int, Devices] | None] = {}
        """State, node and devices before the statement that is being tried, of its pods."""
        self.open_groups: dict[str, int] = {}
        """Groups with pending pods, and how many; 0 only until the next event."""
        self.closed: list[str] = []
        """Groups that had no pending pod left at some moment since the last event."""
        self.gangs: dict[str, None] = {}
        """Groups that can be below their minimum while some of them run."""
        self.deleted: dict[int, None] = {}
        """Pods that were told to go at a moment that is known."""
        self.promised: dict[int, None] = {}
        """Pods that came with a promise, whatever they are now."""
        self.orphans: dict[str, dict[int, None]] = {}
        """Pods whose group, or sub-group in it, is not there yet, by the group's key."""
        self.topologies: dict[str, Topology] = {}
        self.slices: tuple[ResourceSlice, ...] = ()
        self.vetoes: dict[str, tuple[StaticVeto, ...]] = {}
        self.holds: dict[str, Hold] = {}
        self.back_offs: dict[str, BackOff] = {}
        self.usage, self.owner_usage, self.usage_book = no_usage()
        self.affinity_pods: dict[int, None] = {}
        """Pods with rules about other pods, in whatever state."""

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> Ledger:
        """Return a ledger that holds what the snapshot says."""
        ledger = cls()
        load.fill(ledger, snapshot)
        return ledger

    def snapshot(self, now_ms: int) -> Snapshot:
        """Return everything that decides, frozen, in the order of names."""
        return load.read(self, now_ms)

    def apply(self, event: Event) -> None:
        """Take over what happened."""
        apply.apply(self, event)
        for key in self.closed:
            if self.open_groups.get(key) == 0:
                del self.open_groups[key]
        self.closed.clear()
        self.journal.forget()
        self.tidy.after_event(self)

    def apply_all(self, events: Iterable[Event]) -> None:
        """Take over events in their order."""
        for event in events:
            self.apply(event)

    def checkpoint(self) -> int:
        """Return a mark to roll back to."""
        return self.journal.checkpoint()

    def rollback(self, mark: int) -> None:
        """Undo everything since the mark."""
        self.journal.rollback(mark)

    # -- the one way in which pods change --------------------------------------------------------

    def shape_of(self, pod: int) -> Shape:
        """Return the shape of a pod row."""
        return self.shapes.shapes[self.pods.shape[pod]]

    def group_of(self, pod: int) -> Group | None:
        """Return the group of a pod row, if it is there."""
        leaf = self.pods.leaf[pod]
        return None if leaf is None else self.groups.get(self.pods.models[pod].group)

    def remember(self, pod: int) -> None:
        """Note what a pod was before the statement, once."""
        before, pods = self.before, self.pods
        old = before.get(pod, MISSING)
        if old is None or old is MISSING:
            self.journal.entries.append((before, pod, old))
            before[pod] = (pods.state[pod], pods.node[pod], pods.devices[pod])

    def start(self, pod: int, state: int, node: int, devices: Devices = ()) -> None:
        """Bind or promise a pending pod: `move` for the case that happens most. O(depth).

        What it changes of pod, group and queues is journaled as one entry.
        """
        pods = self.pods
        leaf = pods.leaf[pod]
        shape = self.shapes.shapes[pods.shape[pod]]
        if pods.state[pod] != states.PENDING or leaf is None or shape.claims:
            self.move(pod, state, node, devices)
            return
        nodes, group = self.nodes, self.groups[pods.models[pod].group]
        if group.model.preemptibility is Preemptibility.SEMI_PREEMPTIBLE:
            self.move(pod, state, node, devices)
            return
        nodes.book(node, shape, devices, BOUND_PART if state == BINDING else PROMISED_PART)
        charge = shape.charge_milli
        if shape.pending_mib:
            charge = nodes.charge_of(node, shape, devices)
        counts, pending = leaf.counts, self.open_groups[group.key]
        counts[states.PENDING] -= 1
        counts[state] += 1
        self.open_groups[group.key] = pending - 1
        is_core = group.model.preemptibility is not PREEMPTIBLE and _is_core(group, leaf)
        pods.state[pod], pods.node[pod] = state, node
        pods.devices[pod], pods.charge[pod], pods.is_core[pod] = devices, charge, is_core
        sums: list[QueueSums] = []
        if group.queue >= 0:
            sums = self.queues.start(group.queue, shape.asked, charge, non_preemptible=is_core)
        self.journal.entries.append((self.started, pod, Start(counts, group, pending, sums)))

    def move(self, pod: int, state: int, node: int = NO_NODE, devices: Devices = ()) -> None:
        """Put a pod into a state and place; books nodes, claims, queues and counts. O(depth)."""
        pods = self.pods
        self.journal.entries.append((pods, pod, pods.old(pod)))
        old_state, old_node = pods.state[pod], pods.node[pod]
        shape = self.shapes.shapes[pods.shape[pod]]
        old_devices = pods.devices[pod]
        if not states.HAS_PLACE[state]:
            node, devices = NO_NODE, ()
        if old_node == node != NO_NODE and old_devices == devices:
            self._rebook_in_place(pod, shape, old_state, state)
        else:
            if old_node != NO_NODE:
                self._book(pod, shape, old_node, old_devices, old_state, GIVE)
            if node != NO_NODE:
                self._book(pod, shape, node, devices, state, TAKE)
        pods.state[pod], pods.node[pod], pods.devices[pod] = state, node, devices
        self._set_state(pod, shape, old_state, state, node)
        self._settle_core(pod)

    def move_away(self, pod: int, node: int, devices: Devices) -> None:
        """Promise a leaving pod another place; the one it leaves stays booked as leaving."""
        pods = self.pods
        shape = self.shapes.shapes[pods.shape[pod]]
        self.journal.put(pods.left, pod, (pods.node[pod], pods.devices[pod]))
        self._book(pod, shape, node, devices, states.PIPELINED, TAKE)
        self.journal.entries.append((pods, pod, pods.old(pod)))
        was, pods.state[pod], pods.node[pod] = pods.state[pod], states.PIPELINED, node
        pods.devices[pod] = devices
        self._set_state(pod, shape, was, states.PIPELINED, node)
        self._settle_core(pod)

    def _settle_core(self, pod: int) -> None:
        leaf = self.pods.leaf[pod]
        if leaf is not None:
            core_pods.settle(self, self.groups[self.pods.models[pod].group], leaf)

    def _book(
        self, pod: int, shape: Shape, node: int, devices: Devices, state: int, sign: int
    ) -> None:
        part = Part(states.HOLDS_NOW[state] * sign, states.HOLDS_LATER[state] * sign)
        self.nodes.book(node, shape, devices, part)
        if shape.claims:
            self.claims.book(self.pods.models[pod].namespace, shape.claims, node, part)

    def _rebook_in_place(self, pod: int, shape: Shape, old: int, new: int) -> None:
        node, devices = self.pods.node[pod], self.pods.devices[pod]
        now = states.HOLDS_NOW[new] - states.HOLDS_NOW[old]
        later = states.HOLDS_LATER[new] - states.HOLDS_LATER[old]
        if not now and not later:
            return
        if not now and states.HOLDS_NOW[new]:
            self.nodes.turn(node, shape, devices, -later)
            if shape.claims:
                namespace = self.pods.models[pod].namespace
                self.claims.book(namespace, shape.claims, node, Part(0, later))
            return
        self._book(pod, shape, node, devices, old, GIVE)
        self._book(pod, shape, node, devices, new, TAKE)

    def _set_state(self, pod: int, shape: Shape, old: int, new: int, node: int) -> None:
        """Book the change of state at the group's counts and the queues."""
        leaf = self.pods.leaf[pod]
        if leaf is None:
            return
        journal = self.journal
        if old != new:
            counts = leaf.counts
            journal.set(counts, old, counts[old] - 1)
            journal.set(counts, new, counts[new] + 1)
        group = self.groups[self.pods.models[pod].group]
        if (old == states.PENDING) != (new == states.PENDING):
            self._count_pending(group, shape, 1 if new == states.PENDING else -1)
        self._charge(pod, leaf, Change(old, new, node))

    def book_pod(self, pod: int, sign: int) -> None:
        """Take (1) or give back (-1) what a pod has on its node, all else left alone."""
        pods = self.pods
        shape = self.shapes.shapes[pods.shape[pod]]
        self._book(pod, shape, pods.node[pod], pods.devices[pod], pods.state[pod], sign)

    def charge_again(self, pod: int) -> None:
        """Charge a pod's queue what its node's devices make of its request now."""
        leaf = self.pods.leaf[pod]
        if leaf is not None:
            state = self.pods.state[pod]
            self._charge(pod, leaf, Change(state, state, self.pods.node[pod]))

    # -- pods and their groups -----------------------------------------------------------------

    def set_deleted(self, pod: int, deleted_ms: int | None) -> None:
        """Note when a pod should have been gone, None if it is not to go."""
        model = self.pods.models[pod]
        if model.deleted_ms != deleted_ms:
            self.pods.models[pod] = msgspec.structs.replace(model, deleted_ms=deleted_ms)
        if deleted_ms is None:
            self.deleted.pop(pod, None)
        else:
            self.deleted[pod] = None

    def join(self, pod: int, group: Group) -> None:
        """Count a pod in its leaf and charge its queue. A pod of an unknown sub-group stays an orphan."""
        pods = self.pods
        leaf = group.leaf_named(pods.models[pod].sub_group)
        if leaf is None:
            self.orphans.setdefault(group.key, {})[pod] = None
            return
        state, shape = pods.state[pod], self.shapes.shapes[pods.shape[pod]]
        pods.leaf[pod] = leaf
        leaf.pods.append(pod)
        leaf.order = None
        leaf.counts[state] += 1
        if state == states.PENDING:
            self._count_pending(group, shape, 1)
        self._charge(pod, leaf, Change(states.GATED, state, pods.node[pod]))
        core_pods.settle(self, group, leaf)

    def leave(self, pod: int) -> None:
        """Take a pod out of its leaf, and its charge off its queue."""
        pods = self.pods
        leaf, group = pods.leaf[pod], self.group_of(pod)
        if leaf is None or group is None:
            return
        state, shape = pods.state[pod], self.shapes.shapes[pods.shape[pod]]
        self._charge(pod, leaf, Change(state, states.GATED, NO_NODE))
        if state == states.PENDING:
            self._count_pending(group, shape, -1)
        leaf.counts[state] -= 1
        leaf.pods.remove(pod)
        leaf.order = None
        pods.leaf[pod] = None
        core_pods.settle(self, group, leaf)

    def _count_pending(self, group: Group, shape: Shape, sign: int) -> None:
        count = self.open_groups.get(group.key, 0) + sign
        self.journal.put(self.open_groups, group.key, count)
        if not count:
            self.closed.append(group.key)
        if group.queue >= 0:
            asked = shape.asked
            if shape.claims:
                claimed = self.claims.gpus(group.model.namespace, shape) * 1000
                asked = (asked[0], asked[1], asked[2] + claimed, asked[3])
            self.queues.add_waiting(group.queue, asked, sign)

    def _charge(self, pod: int, leaf: Leaf, change: Change) -> None:
        """Charge (or discharge) the pod's queue; a memory request costs what its GPUs make of it."""
        pods = self.pods
        was_active, active = states.IS_ACTIVE[change.was], states.IS_ACTIVE[change.now]
        if not was_active and not active:
            return
        shape = self.shapes.shapes[pods.shape[pod]]
        group = self.groups[pods.models[pod].group]
        charge = self._cost(group, shape, change.node, pods.devices[pod]) if active else 0
        if was_active and active and charge == pods.charge[pod]:
            return
        if was_active and group.queue >= 0:
            held = (-shape.milli_cpu, -shape.memory_bytes, -pods.charge[pod])
            self.queues.add_allocated(group.queue, held, non_preemptible=pods.is_core[pod])
        pods.charge[pod] = charge
        if not active:
            return
        if not was_active:
            pods.is_core[pod] = _is_core(group, leaf)
        if group.queue >= 0:
            held = (shape.milli_cpu, shape.memory_bytes, charge)
            self.queues.add_allocated(group.queue, held, non_preemptible=pods.is_core[pod])

    def _cost(self, group: Group, shape: Shape, node: int, devices: Devices) -> int:
        """Return what a queue is charged for a pod on a node, in milli-GPU."""
        cost = self.nodes.charge_of(node, shape, devices)
        if shape.claims:
            cost += self.claims.gpus(group.model.namespace, shape) * 1000
        return cost


def _is_core(group: Group, leaf: Leaf) -> bool:
    """Return whether one more pod of this leaf is booked as non-preemptible (it is counted already)."""
    kind = group.model.preemptibility
    if kind is Preemptibility.SEMI_PREEMPTIBLE:
        active = sum(count for state, count in enumerate(leaf.counts) if states.IS_ACTIVE[state])
        return active <= leaf.spec.min_members
    return kind is Preemptibility.NON_PREEMPTIBLE
