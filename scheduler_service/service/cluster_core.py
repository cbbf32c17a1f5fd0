"""A cluster as the looking side sees it: groups, queues, nodes and the newest plan, under the names of `looking`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from msgspec.structs import replace as with_changes

from scheduler_service.backends.kubernetes import names
from scheduler_service.ledger import events
from scheduler_service.ledger.store import Ledger
from scheduler_service.loop import Cycle, Planner
from scheduler_service.model.node import GpuDevice, Node
from scheduler_service.model.plan import Plan
from scheduler_service.ports import Caller
from scheduler_service.service import access, group_view, news, opinion
from scheduler_service.service.asking import World
from scheduler_service.service.changes import Changes
from scheduler_service.service.cluster_books import ClusterRecords
from scheduler_service.service.cluster_queues import ClusterQueues
from scheduler_service.service.cluster_view import Picture
from scheduler_service.service.core import FEW_WAITING, MOST_SHOWN, stopwatch_us
from scheduler_service.service.in_cluster import InCluster
from scheduler_service.service.look_ahead import Ahead, Scene, look_ahead
from scheduler_service.service.looking import Looking
from scheduler_service.service.moves import Moves
from scheduler_service.service.overview import Overview, overview
from scheduler_service.service.rights import Rights
from scheduler_service.settings.table import Settings
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.pod_group import ActionView, PodGroupView
from scheduler_service.words.group import state_of

SMALL = 300
"""With so few pods a look ahead is short enough to be taken between two requests."""
LOOKING = frozenset({"why", "logs"})
"""Actions that change nothing."""
REST_FACTOR = 5
"""Having an opinion of one's own takes at most a sixth of the time."""
NO_NUMBER = -1
NODE_EVENTS = (events.NodeAdded, events.NodeChanged, events.NodeRemoved)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterParts:
    """What the door stands on: the scheduler, what people may, how it plans, and what was set."""

    scheduler: InCluster
    rights: Rights
    planner: Planner
    settings: Settings
    clock: Callable[[], int]
    version: str = ""
    is_leading: Callable[[], bool] = field(default=lambda: True)


class ClusterCore(Looking):
    """State and machinery shared by the rooms of the cluster's door."""

    records: ClusterRecords

    def __init__(self, parts: ClusterParts) -> None:
        self.parts = parts
        self.clock = parts.clock
        self.rights = parts.rights
        self.scheduler = parts.scheduler
        self.cluster = parts.scheduler.cluster
        self.changes = Changes(self.clock())
        self.records = ClusterRecords(self.cluster, self.clock)
        self.queue_source = ClusterQueues(self.cluster)
        self.overview = Overview()
        self.offered: dict[str, tuple[ActionView, ...]] = {}
        self.revs: dict[str, int] = {}
        """The revision in which each group's view last changed, of those that were told."""
        self._moves = Moves()
        self._cycle: Cycle | None = None
        self._rests_until = 0
        self._kinds: tuple[Node, ...] | None = None
        self._devices: Mapping[str, GpuDevice] | None = None
        self.cluster.on_events.append(self._nodes_told)
        self._is_looking = asyncio.Lock()

    # -- the newest plan ---------------------------------------------------------------------------
    async def freshen(self) -> None:
        """Take over the newest plan; where it is not ours to decide, what we would say."""
        before = self.overview
        plan = self._newest_plan()
        if plan is not None:
            groups = self.cluster.world.told.groups
            queue_of = {
                item.group: groups[item.group].queue
                for item in plan.waiting
                if item.group in groups
            }
            etas = {key: eta for key, eta in before.etas.items() if key in queue_of}
            self.overview = overview(plan, queue_of, etas, rank_of=self.records.rank_of)
            self._moves.note(before, self.overview, plan.now_ms)
            if self._is_quick:
                self.take_outlook(look_ahead(self.scene()))

    def _newest_plan(self) -> Plan | None:
        """Return the newest plan if it is another than before."""
        cycle = self.scheduler.cycles[-1] if self.scheduler.cycles else None
        if cycle is None or cycle is self._cycle or stopwatch_us() < self._rests_until:
            return None
        self._cycle = cycle
        ledger = self.scheduler.loop.ledger
        if self.scheduler.manner.decides:
            return cycle.plan if self.decides else opinion.unmade(cycle.plan, ledger)
        began = stopwatch_us()
        plan = opinion.of(self.parts.planner, ledger, self.cluster.policy, self.clock())
        self._rests_until = stopwatch_us() + REST_FACTOR * (stopwatch_us() - began)
        return plan

    @property
    def decides(self) -> bool:
        """Whether it is we who decide here."""
        manner = self.scheduler.manner
        return manner.decides and not manner.dry_run

    @property
    def _is_quick(self) -> bool:
        pods = len(self.scheduler.loop.ledger.pods.row_of)
        return 0 < len(self.overview.waiting) <= FEW_WAITING and pods <= SMALL

    # -- what each world says of itself ------------------------------------------------------------
    @property
    def world(self) -> World:
        """What requests are judged by now."""
        return World(
            config=self.queue_source.config,
            nodes=tuple(self.cluster.world.told.nodes.values()),
            workers_limit=self.parts.settings.workers_limit,
            has_payload=lambda _sha: False,
            default_queue=names.DEFAULT_QUEUE,
        )

    @property
    def devices(self) -> Mapping[str, GpuDevice]:
        """One device of each kind: the devices themselves are the plug-in's to name."""
        if self._devices is None:
            self._devices = {
                name: GpuDevice(name, NO_NUMBER, node.gpu_memory_mib, model_of(node))
                for node in self.kinds_of_nodes
                if (name := f"kind-{node.gpu_memory_mib or 'unknown'}")
            }
        return self._devices

    @property
    def kinds_of_nodes(self) -> tuple[Node, ...]:
        """One node with GPUs of each size of memory."""
        if self._kinds is None:
            nodes = self.cluster.world.told.nodes.values()
            self._kinds = tuple({node.gpu_memory_mib: node for node in nodes if node.gpus}.values())
        return self._kinds

    def _nodes_told(self, news: Sequence[events.Event]) -> None:
        """Look at the nodes anew when the ledger hears of one."""
        if any(isinstance(event, NODE_EVENTS) for event in news):
            self._kinds = self._devices = None

    @property
    def is_simulated(self) -> bool:
        """A cluster's devices are whatever its nodes say they are."""
        return False

    def scene(self) -> Scene:
        """Return what a look ahead is taken from, over the ledger itself."""
        return Scene(
            ledger=self.scheduler.loop.ledger,
            policy=self.cluster.policy,
            records={record.key: record for record in self.records},
            overview=self.overview,
            world=self.world,
            now=self.clock(),
        )

    async def ask_ahead(self, question: Callable[[Scene], T]) -> T:
        """Return what `question` finds; but for a small cluster it is asked aside, over a copy, one at a time."""
        if self._is_quick or len(self.scheduler.loop.ledger.pods.row_of) <= SMALL:
            return question(self.scene())
        async with self._is_looking:
            scene = self.scene()
            snapshot = scene.ledger.snapshot(scene.now)
            return await asyncio.to_thread(
                lambda: question(replace(scene, ledger=Ledger.from_snapshot(snapshot)))
            )

    def take_outlook(self, ahead: Ahead) -> None:
        """Show from now on what a look ahead found."""
        self.offered = dict(ahead.offered)
        self.overview = replace(self.overview, etas=ahead.etas)

    def picture(self, caller: Caller) -> Picture:
        """Return what the views of queues and nodes are made of, for one caller."""
        return Picture(
            caller=caller,
            config=self.queue_source.config,
            records=self.records.live(),
            overview=self.overview,
            nodes=self.kinds_of_nodes,
        )

    def shown_nodes(self, picture: Picture) -> Sequence[Node]:
        """Return the nodes with a device for each that is held, and for each that is free."""
        held: dict[str, dict[str, None]] = {}
        for record in picture.records:
            for pod in record.pods:
                for share in pod.devices if pod.is_occupied and pod.node else ():
                    held.setdefault(pod.node or "", {})[share.device] = None
        nodes = sorted(self.cluster.world.told.nodes.values(), key=lambda node: node.name)
        is_told = picture.caller.is_admin
        return [_with_devices(node, [*held.get(node.name, ())], is_told=is_told) for node in nodes]

    async def again(self, caller: Caller) -> Caller:
        """Return a caller of a long stream with what they may by now."""
        return await self.rights.again(caller)

    def may_know(self, caller: Caller, key: str) -> bool:
        """Whether a caller may hear that a group, which is gone, was there."""
        return access.sees_namespace(caller, key.partition("/")[0])

    def is_owner(self, caller: Caller, key: str) -> bool:
        """Whether a group is (or was) the caller's own."""
        record = self.records.find(key)
        return record is not None and record.owner == caller.user

    # -- views -------------------------------------------------------------------------------------
    def view(self, record: GroupRecord, *, is_mine: bool) -> PodGroupView:
        """Return a group as its owner (or lead, or an admin) sees it."""
        scene = group_view.Scene(
            devices={**self.devices, **self._own_devices(record)},
            standing=self.overview.standing(record.key),
            actions=self.actions(record),
            moves=self._moves.of(record.key),
            promised=self.overview.promised.get(record.key, frozenset()),
            is_mine=is_mine,
            rev=self.revs.get(record.key, self.changes.rev),
        )
        view = group_view.group_view(record, scene, self.clock())
        raw = self.records.raw(record.key)
        if self.decides or raw is None or view.state != "Waiting":
            return view
        return opinion.in_their_words(view, raw, self.cluster.world.scope.pool)

    def _own_devices(self, record: GroupRecord) -> Mapping[str, GpuDevice]:
        """Return what is known of the devices that a group holds."""
        nodes = self.cluster.world.told.nodes
        return {
            share.device: GpuDevice(share.device, NO_NUMBER, node.gpu_memory_mib, model_of(node))
            for pod in record.pods
            if pod.node is not None and (node := nodes.get(pod.node)) is not None
            for share in pod.devices
        }

    def actions(self, record: GroupRecord) -> tuple[ActionView, ...]:
        """Return what can be done next with a group; one that was not made here is ended where it was made."""
        plain = news.actions_of(record)
        if not record.owner:
            ends = {"cancel"} if self.ends_here(record) else set()
            return tuple(action for action in plain if action.id in LOOKING | ends)
        offered = self.offered.get(record.key, ()) if state_of(record) == "Waiting" else ()
        found = (*offered[:MOST_SHOWN], *plain)
        if record.ask.kind == "lease" or record.ask.work is not None:
            return found
        return tuple(action for action in found if action.submit is None)  # its work is not kept

    def ends_here(self, record: GroupRecord) -> bool:
        """Whether a group ends when its pods do: nothing makes them anew."""
        return all(
            not any(owner.controller for owner in raw.metadata.owner_references)
            for _, raw in self.records.pods(record)
        )


def model_of(node: Node) -> str:
    """Return what a node says its GPUs are."""
    return node.labels.get(names.GPU_PRODUCT_LABEL, "")


def _with_devices(node: Node, held: Sequence[str], *, is_told: bool) -> Node:
    """Return a node with its devices: first those that are held, then the free ones. Labels are for admins."""
    free = max(0, node.gpus - len(held))
    ids = [*held, *(f"{node.name}/free-{number}" for number in range(free))]
    model = model_of(node)
    devices = tuple(
        GpuDevice(name, index, node.gpu_memory_mib, model) for index, name in enumerate(ids)
    )
    return with_changes(node, devices=devices, labels=node.labels if is_told else {})
