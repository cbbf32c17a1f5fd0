"""The parts of the service and how they hang together: store, backend, desk, loop, revisions, timers.

Rule: everything runs in one thread of one event loop; nothing here waits for a disk or device longer than a
write to SQLite takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from scheduler_service import history
from scheduler_service.backends.local.cluster import LocalCluster, ReadMachine
from scheduler_service.backends.local.desk import RunnerDesk
from scheduler_service.backends.local.recovery import Recovery
from scheduler_service.backends.local.tokens import PodTokens
from scheduler_service.errors import BackendError
from scheduler_service.ledger.store import Ledger
from scheduler_service.loop import Cycle, Loop, Planner
from scheduler_service.model.node import GpuDevice, Node
from scheduler_service.model.reasons import NeverFits, NotEnoughOnNode, Reason
from scheduler_service.ports import Caller
from scheduler_service.service import group_view, news
from scheduler_service.service.asking import World
from scheduler_service.service.captures import Captures
from scheduler_service.service.changes import NODES, QUEUES, Changes
from scheduler_service.service.cluster_view import Picture
from scheduler_service.service.look_ahead import Ahead, Scene, look_ahead
from scheduler_service.service.looking import Looking
from scheduler_service.service.moves import Moves
from scheduler_service.service.overview import Overview, overview
from scheduler_service.service.queue_source import QueueSource
from scheduler_service.service.usage import ReadDevices, Usage, no_devices
from scheduler_service.service.usage_file import UsageFile
from scheduler_service.settings.table import Settings
from scheduler_service.store.audit import Audit
from scheduler_service.store.books import Books
from scheduler_service.store.database import Opened, open_database
from scheduler_service.store.files import FileStore
from scheduler_service.store.groups import Groups
from scheduler_service.store.logs import LogStore
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.pod_group import ActionView, PodGroupView
from scheduler_service.wire.signing import load_or_create_key
from scheduler_service.words.foreign import foreign_sentence
from scheduler_service.words.group import Standing, state_of
from scheduler_service.words.recovery import lost_note

IDLE_KINDS = frozenset({"lease", "kernel", "server"})
MOST_SHOWN = 3
"""Offers beside a request; whoever asks why hears all."""
FEW_WAITING = 6
"""Up to so many waiting groups get a new forecast in every cycle."""
T = TypeVar("T")


def wall_clock_ms() -> int:
    """Return ms since the epoch."""
    return time.time_ns() // 1_000_000


def stopwatch_us() -> int:
    """Return microseconds of a clock that never jumps."""
    return time.perf_counter_ns() // 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the service is made of from outside: settings, machine, planner, clock."""

    settings: Settings
    read_machine: ReadMachine
    read_devices: ReadDevices = no_devices
    planner: Planner
    clock: Callable[[], int] = wall_clock_ms
    version: str = ""


class Core(Looking):
    """State and machinery shared by the service's doors."""

    records: Groups

    def __init__(self, parts: Parts) -> None:
        state = parts.settings.state_dir
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.settings = parts.settings
        self.version = parts.version
        self.clock = parts.clock
        database = state / "kai.db"
        opened = open_database(database)
        self._connection = opened.connection
        self.books = self._books(opened, database)
        self.records = Groups(opened.connection, database)
        self.audit = Audit(opened.connection, database)
        self.history = history.History(opened.connection, database)
        self.log_store = LogStore(
            state / "logs.db", lines_per_group=self.settings.log_lines_per_group
        )
        self.files = FileStore(self.settings.files_url or str(state / "files"), state / "scratch")
        self.changes = Changes(self.clock())
        self.captures = Captures()
        self.overview = Overview()
        self.usage = Usage()
        self.usage_file = UsageFile(state / "usage.json")
        self.read_devices = parts.read_devices
        self.notes = [self.log_store.note] if self.log_store.note else []
        if self.records.unreadable:
            self.notes.append(
                f"{self.records.unreadable} kept requests could not be read and are left out."
            )
        self.faults: dict[str, str] = {}
        """What goes wrong now beside the requests themselves, by part; told in health until it works again."""
        self.is_stopping = False
        self._build(parts, state)

    def _books(self, opened: Opened, database: Path) -> Books:
        """Return the books; new ones where the service's key is older than they are were lost, or damaged."""
        is_lost = opened.is_new and (database.parent / "service.key").exists()
        note = lost_note(opened.note, database) if is_lost else opened.note or ""
        return Books(opened.connection, database, now=self.clock(), lost=is_lost, note=note)

    def _build(self, parts: Parts, state: Path) -> None:
        self.on_tick: list[Callable[[], None]] = []
        """What else the clock asks for, once a second."""
        self.on_housekeeping: list[Callable[[int], None]] = []
        """What else is forgotten; called with the oldest moment that is kept."""
        self.cluster = LocalCluster(self.records, parts.read_machine)
        tokens = PodTokens(load_or_create_key(state / "service.key"))
        self.recovery = Recovery(
            self.records, self.cluster, tokens, books=self.books, clock=self.clock
        )
        self.desk = RunnerDesk(
            self.records,
            self.cluster,
            tokens,
            clock=self.clock,
            lost_after_s=self.settings.runner_lost_s,
            move_wait_s=self.settings.move_wait_s,
        )
        self.desk.on_progress = self.refresh
        self.desk.unclaimed_s = self.settings.unclaimed_s if self.settings.shared else None
        self.queue_source = QueueSource(
            self.settings.queues or state / "queues.yaml", len(self.cluster.node.devices)
        )
        self.loop = Loop(
            self.cluster,
            planner=lambda *asked: self.recovery.held(parts.planner(*asked)),
            policy=self.queue_source.config.policy,
            clock=self.clock,
            stopwatch_us=stopwatch_us,
            on_cycle=self._cycle_done,
        )
        self._views: dict[str, PodGroupView] = {}
        self._view_revs: dict[str, int] = {}
        self._number_offset = self.history.last_number
        self._told_ending: set[str] = set()
        self._alone_since: dict[str, int] = {}
        self.is_outlook_due = False
        self._moves = Moves()
        self.offered: dict[str, tuple[ActionView, ...]] = {}
        self._ticks = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.records.subscribe(self._record_changed)

    @property
    def world(self) -> World:
        """What requests are judged by now; payloads are asked for per owner by the caller of this."""
        return World(
            config=self.queue_source.config,
            nodes=(self.cluster.node,),
            workers_limit=self.settings.workers_limit,
            has_payload=lambda _sha: False,
        )

    @property
    def is_simulated(self) -> bool:
        """Whether the GPUs are simulated."""
        return self.cluster.node.is_simulated

    @property
    def devices(self) -> Mapping[str, GpuDevice]:
        """The devices of this machine, by id."""
        return self.cluster.devices

    def shown_nodes(self, picture: Picture) -> tuple[Node, ...]:
        """Return this machine."""
        del picture
        return (self.cluster.node,)

    def picture(self, caller: Caller) -> Picture:
        """Return what the views of queues and nodes are made of, for one caller."""
        return Picture(
            caller=caller,
            config=self.queue_source.config,
            records=[record for record in self.records if not record.is_over],
            overview=self.overview,
            nodes=(self.cluster.node,),
            usage=self.usage.by_device,
        )

    def foreign_lines(self) -> tuple[str, ...]:
        """Return who uses a GPU of this machine without a lease, as sentences."""
        now = self.clock()
        return tuple(
            foreign_sentence(use.index, use.user, use.pid, since=use.since, now=now)
            for use in self.usage.foreign
        )

    def for_now(self, reason: Reason) -> Reason:
        """Return the reason without "never" where only somebody's use without a lease is in the way."""
        if not isinstance(reason, NeverFits) or not self.usage.foreign:
            return reason
        return NotEnoughOnNode(
            reason.resource, reason.wanted, reason.largest, self.cluster.node.name, reason.detail
        )

    @property
    def live_count(self) -> int:
        """How many groups are not over."""
        return sum(not record.is_over for record in self.records)

    @contextlib.contextmanager
    def told_in_health(self, part: str) -> Iterator[None]:
        """Let a record beside the truth fail without failing the request; health tells it until it works again."""
        try:
            yield
        except BackendError as error:
            self.faults[part] = f"The {part} is incomplete: {error}"
        else:
            self.faults.pop(part, None)

    # -- views ---------------------------------------------------------------------------------
    def standing(self, record: GroupRecord) -> Standing:
        """Return where a group stands, with what its workers say."""
        standing = self.overview.standing(record.key)
        if standing.reason is not None:
            standing = replace(standing, reason=self.for_now(standing.reason))
        if record.ask.kind in IDLE_KINDS and record.ending is None:
            after_s = self.queue_source.config.rules_of(record.queue).idle_after_s
            idle = self.usage.idle_ms(record, self.clock(), after_s=after_s)
            standing = replace(standing, idle_ms=idle)
        progress = {
            pod.rank: self.desk.progress[pod.incarnation]
            for pod in record.pods
            if pod.incarnation in self.desk.progress
        }
        return replace(standing, progress=progress) if progress else standing

    def view(self, record: GroupRecord, *, is_mine: bool) -> PodGroupView:
        """Return a group as its owner (or lead, or an admin) sees it."""
        scene = group_view.Scene(
            devices=self.cluster.devices,
            standing=self.standing(record),
            actions=self.actions(record),
            moves=self._moves.of(record.key),
            promised=self.overview.promised.get(record.key, frozenset()),
            is_mine=is_mine,
            foreign=self.foreign_lines() if state_of(record) == "Waiting" else (),
            rev=self._view_revs.get(record.key, self.changes.rev),
        )
        return group_view.group_view(record, scene, self.clock())

    def actions(self, record: GroupRecord) -> tuple[ActionView, ...]:
        """Return what can be done next with a group: offers first, then the plain actions."""
        offered = self.offered.get(record.key, ()) if state_of(record) == "Waiting" else ()
        return (*offered[:MOST_SHOWN], *news.actions_of(record))

    def refresh(self, key: str) -> None:
        """Make the group's view again, and a revision if it reads differently now."""
        record = self.records.find(key)
        if record is None:
            self._moves.forget(key)
            if self._views.pop(key, None) is not None:
                self._view_revs.pop(key, None)
                self.changes.group(key)
            return
        view = replace(self.view(record, is_mine=True), rev=0, gpu_seconds=0)
        if self._views.get(key) != view:
            self._views[key] = view
            self._view_revs[key] = self.changes.group(key)
            if view.state == "Waiting":  # its row in the waiting list reads differently too
                self.changes.part(QUEUES)

    def _record_changed(self, before: GroupRecord | None, after: GroupRecord | None) -> None:
        record = after or before
        if record is None:
            return
        if before is not None and after is not None:
            for notice in news.notices(before, after, self.clock()):
                self.changes.notice(record.key, notice)
        if after is not None and after.is_over:
            self.log_store.wake()
        self.refresh(record.key)
        self.changes.part(QUEUES)
        self.changes.part(NODES)

    # -- the loop's news -----------------------------------------------------------------------
    def _cycle_done(self, cycle: Cycle) -> None:
        before = self.overview
        queue_of = {
            item.group: record.queue
            for item in cycle.plan.waiting
            if (record := self.records.find(item.group)) is not None
        }
        self.overview = overview(cycle.plan, queue_of, before.etas)
        self.is_outlook_due = not self.has_few_waiting
        if self.has_few_waiting:
            self.take_outlook(look_ahead(self.scene()))
        view = history.cycle_view(
            cycle.plan,
            number=self._number_offset + cycle.number,
            duration_us=cycle.duration_us,
            accepted=cycle.accepted,
            refused=cycle.refused,
        )
        with self.told_in_health("history"):
            if self.history.note(view):
                self.captures.note(view.number, cycle)
        self._moves.note(before, self.overview, cycle.plan.now_ms)
        for key in sorted({*before.waiting, *self.overview.waiting}):
            self.refresh(key)
        if before.plan is None or before.plan.fair_shares != cycle.plan.fair_shares:
            self.changes.part(QUEUES)

    # -- looking ahead -------------------------------------------------------------------------
    @property
    def has_few_waiting(self) -> bool:
        """Whether a look ahead is short enough to be taken between two requests."""
        return len(self.overview.waiting) <= FEW_WAITING

    def scene(self) -> Scene:
        """Return what a look ahead is taken from, over the ledger itself."""
        return Scene(
            ledger=self.loop.ledger,
            policy=self.loop.policy,
            records={record.key: record for record in self.records},
            overview=self.overview,
            world=self.world,
            now=self.clock(),
        )

    async def ask_ahead(self, question: Callable[[Scene], T]) -> T:
        """Return what `question` finds; with many waiting it is asked aside, over a copy of the ledger."""
        scene = self.scene()
        if self.has_few_waiting:
            return question(scene)
        snapshot = scene.ledger.snapshot(scene.now)
        return await asyncio.to_thread(
            lambda: question(replace(scene, ledger=Ledger.from_snapshot(snapshot)))
        )

    def take_outlook(self, ahead: Ahead) -> None:
        """Show from now on what a look ahead found."""
        self.offered = dict(ahead.offered)
        self.overview = replace(self.overview, etas=ahead.etas)
