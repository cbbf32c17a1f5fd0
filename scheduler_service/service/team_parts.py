"""The lists of a lead's page: queues, people, who waits, gangs, changes, each from records and the last plan. Pure.

Rule: only what is in a queue that the caller leads has names; of the other queues there are sums alone, as for anybody.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from scheduler_service.model import reasons
from scheduler_service.model.queue import Queue
from scheduler_service.planning.forecast import FOR_GOOD
from scheduler_service.ports import Caller
from scheduler_service.service import overlaid
from scheduler_service.service.cluster_view import Picture, queue_views
from scheduler_service.service.lead_asks import leads, led
from scheduler_service.service.room import charge_milli
from scheduler_service.store.overlays import Overlay
from scheduler_service.store.records import GroupRecord
from scheduler_service.store.use_lately import Sample
from scheduler_service.wire.cluster import QueueView
from scheduler_service.wire.pod_group import LEASE_KINDS
from scheduler_service.wire.team import (
    ChangeView,
    GangRow,
    LeaseRow,
    PersonRow,
    TeamQueue,
    TeamWaiting,
)
from scheduler_service.words.group import Standing, state_of, words_of
from scheduler_service.words.units import local, request_text

MOST_ROWS = 200
LONG_WAIT_MS = 3_600_000
HOLDING = frozenset({"Starting", "Running", "Stopping"})


@dataclass(frozen=True, slots=True)
class Promise:
    """The first start that somebody who waits was told."""

    said_at: int
    likely_at: int
    latest_at: int


@dataclass
class Scene:
    """All that a lead's page is made of."""

    picture: Picture
    ended: Sequence[GroupRecord]
    """Groups that are over and not forgotten, for waits and hours of the last days."""
    overlays: Sequence[Overlay]
    samples: Sequence[Sample]
    promises: Mapping[str, Promise]
    standing: Callable[[GroupRecord], Standing]
    now: int
    rev: int
    is_simulated: bool
    may_change: bool
    _held: dict[str, int] = field(default_factory=dict)

    @property
    def caller(self) -> Caller:
        """Who looks."""
        return self.picture.caller

    @cached_property
    def queues(self) -> Mapping[str, Queue]:
        """The queues by name."""
        return {queue.name: queue for queue in self.picture.config.queues}

    @cached_property
    def led(self) -> frozenset[str]:
        """The queues that the caller answers for."""
        return frozenset(led(self.caller, self.queues))

    @cached_property
    def live(self) -> tuple[GroupRecord, ...]:
        """The groups that are not over in those queues, oldest first."""
        own = [r for r in self.picture.records if r.queue in self.led and not r.is_over]
        return tuple(sorted(own, key=lambda record: record.order))

    @cached_property
    def waits(self) -> tuple[GroupRecord, ...]:
        """Of these, those that wait, in the order of the last plan."""
        order = self.picture.overview.waiting
        last = len(order) + 1
        found = [record for record in self.live if state_of(record) == "Waiting"]

        def place(record: GroupRecord) -> tuple[int, int]:
            item = order.get(record.key)
            return (last if item is None else item.overall), record.order

        return tuple(sorted(found, key=place))

    @cached_property
    def standings(self) -> Mapping[str, Standing]:
        """Where each of these groups stands."""
        return {record.key: self.standing(record) for record in self.live}

    @cached_property
    def in_force(self) -> tuple[Overlay, ...]:
        """The changes that have an effect now."""
        return tuple(overlay for overlay in self.overlays if overlay.is_in_force)

    def asks(self, record: GroupRecord) -> int:
        """Return what a waiting group still needs, in milli-GPU."""
        pending = sum(not pod.is_occupied and not pod.is_finished for pod in record.pods)
        return charge_milli(record.request.gpu, self.picture.nodes) * pending

    def who(self, record: GroupRecord) -> str:
        """Return the name of a group's owner, or the namespace where nobody is known to own it."""
        return record.owner or record.namespace

    def is_never(self, record: GroupRecord) -> bool:
        """Whether waiting does not help it."""
        return isinstance(self.standings[record.key].reason, FOR_GOOD)

    def is_late(self, record: GroupRecord) -> bool:
        """Whether it waits longer than it was told, or long without having been told anything."""
        promise = self.promises.get(record.key)
        if promise is not None:
            return self.now > promise.latest_at + 120_000
        return self.now - record.created_at > LONG_WAIT_MS


# -- queues --------------------------------------------------------------------------------------
def queue_rows(scene: Scene) -> Iterator[TeamQueue]:
    """Yield the queues, parents first."""
    lent = overlaid.lent(scene.in_force)
    drained = {overlay.queue for overlay in scene.in_force if overlay.kind == "drain"}
    for view in queue_views(scene.picture):
        borrowed = _borrowed(view)
        yield TeamQueue(
            name=view.name,
            parent=view.parent,
            depth=view.depth,
            is_leaf=view.is_leaf,
            leads=view.name in scene.led,
            allocated=view.allocated.milli_gpu or 0,
            quota=view.quota.milli_gpu,
            fair_share=view.fair_share.milli_gpu or 0,
            requested=view.requested.milli_gpu or 0,
            limit=view.limit.milli_gpu,
            borrowed=borrowed,
            waiting=view.waiting,
            sentence=_standing_words(view, borrowed)
            + overlaid.loan_words(scene.in_force, view.name, scene.now),
            lent=lent.get(view.name, 0),
            drained=view.name in drained,
        )


def _borrowed(view: QueueView) -> int:
    quota = view.quota.milli_gpu
    return 0 if quota is None else max(0, (view.allocated.milli_gpu or 0) - quota)


def _standing_words(view: QueueView, borrowed: int) -> str:
    """Return the answer to "over, under, or kept from its share?" in one sentence with its number."""
    held, asked = view.allocated.milli_gpu or 0, view.requested.milli_gpu or 0
    quota = view.quota.milli_gpu
    waits = f" {view.waiting} wait." if view.waiting > 1 else " 1 waits." if view.waiting else ""
    if quota is None:
        return f"No quota.{waits}"
    if borrowed:
        return f"Borrows {_gpus(borrowed)} above its quota.{waits}"
    missing = min(asked, quota) - held
    if view.waiting and missing > 0:
        return f"Kept from {_gpus(missing)} of its quota.{waits}"
    free = quota - held
    return f"{_gpus(free)} of its quota free.{waits}" if free else f"At its quota.{waits}"


def _gpus(milli: int) -> str:
    return f"{milli / 1000:g}"


# -- people --------------------------------------------------------------------------------------
def people_rows(scene: Scene) -> Iterator[PersonRow]:
    """Yield everybody who holds or waits or ran something today, who holds most first."""
    by_person: dict[tuple[str, str], list[GroupRecord]] = defaultdict(list)
    for record in (*scene.live, *_of_today(scene)):
        by_person[scene.who(record), record.queue].append(record)
    caps = {(o.person, o.queue): o.milli_gpu for o in scene.in_force if o.kind == "cap"}
    rows = [_person(scene, key, records, caps.get(key)) for key, records in by_person.items()]
    yield from sorted(rows, key=lambda row: (-row.holds, -row.waits, row.who, row.queue))


def _of_today(scene: Scene) -> Iterator[GroupRecord]:
    today = day_start(scene.now)
    for record in scene.ended:
        if record.queue in scene.led and record.granted_at and (record.ended_at or 0) >= today:
            yield record


def _person(
    scene: Scene, key: tuple[str, str], records: Sequence[GroupRecord], cap: int | None
) -> PersonRow:
    live = [record for record in records if not record.is_over]
    held = {record.key: overlaid.holds(record) for record in live}
    total = sum(held.values())
    since = [r.granted_at for r in live if r.granted_at is not None and held[r.key]]
    idle = [held[r.key] for r in live if scene.standings[r.key].idle_ms is not None]
    is_measured = bool(scene.picture.usage) and bool(total)
    return PersonRow(
        who=key[0],
        queue=key[1],
        holds=total,
        waits=sum(state_of(record) == "Waiting" for record in live),
        since=min(since, default=None),
        idle_percent=round(100 * sum(idle) / total) if is_measured else None,
        busy_percent=_busy(scene, live),
        today_milli_hours=sum(today_ms(record, scene.now) for record in records) // 3_600,
        cap=cap,
    )


def _busy(scene: Scene, records: Sequence[GroupRecord]) -> int | None:
    """Return how busy the devices are that somebody holds a part of, weighed by the parts."""
    busy = weight = 0
    for record in records:
        for share in (share for pod in record.pods if pod.is_occupied for share in pod.devices):
            look = scene.picture.usage.get(share.device)
            if look is None or look.busy_percent is None:
                return None
            busy += look.busy_percent * share.milli
            weight += share.milli
    return round(busy / weight) if weight else None


def day_start(now: int) -> int:
    """Return the beginning of the day, in this machine's time zone."""
    start = local(now).replace(hour=0, minute=0, second=0, microsecond=0)
    return int(start.timestamp() * 1000)


def today_ms(record: GroupRecord, now: int) -> int:
    """Return what a group used today, in GPU-milliseconds."""
    if record.granted_at is None:
        return 0
    end = record.ended_at or now
    ran = max(1, end - record.granted_at)
    today = max(0, end - max(record.granted_at, day_start(now)))
    whole = record.used_gpu_ms + overlaid.holds(record) * (ran if not record.is_over else 0) // 1000
    return whole * today // ran


# -- who waits, who holds, gangs -----------------------------------------------------------------
def waiting_rows(scene: Scene) -> Iterator[TeamWaiting]:
    """Yield who waits, in the order of their queues."""
    count = Counter(record.queue for record in scene.waits)
    for record in scene.waits[:MOST_ROWS]:
        standing = scene.standings[record.key]
        position = standing.position or count[record.queue]
        reason = "" if standing.reason is None else reasons.sentence(standing.reason)
        yield TeamWaiting(
            group=record.key,
            name=record.name,
            who=scene.who(record),
            queue=record.queue,
            position=position,
            asks=scene.asks(record),
            asks_text=request_text(record.request, len(record.pods)),
            reason=reason or "It was just asked for.",
            since=record.created_at,
            eta_text=_eta_words(scene, record, standing),
            late=scene.is_late(record) and not scene.is_never(record),
            priority=record.priority,
            first=position == 1,
            last=position == count[record.queue],
        )


def _eta_words(scene: Scene, record: GroupRecord, standing: Standing) -> str:
    if scene.is_never(record):
        return "never"
    return "no time known" if standing.eta is None else standing.eta.text


def lease_rows(scene: Scene) -> Iterator[LeaseRow]:
    """Yield the leases that are held, the longest idle first."""
    held = [r for r in scene.live if r.ask.kind in LEASE_KINDS and state_of(r) in HOLDING]
    rows = [
        LeaseRow(
            group=record.key,
            name=record.name,
            who=scene.who(record),
            queue=record.queue,
            holds=overlaid.holds(record),
            since=record.granted_at or record.created_at,
            idle_ms=scene.standings[record.key].idle_ms,
        )
        for record in held
        if record.ending is None
    ]
    yield from sorted(rows, key=lambda row: (-(row.idle_ms or 0), row.since, row.group))


def gang_rows(scene: Scene) -> Iterator[GangRow]:
    """Yield the gangs, in the words of their cards."""
    for record in scene.live:
        if record.ask.kind != "gang":
            continue
        said = words_of(record, scene.standings[record.key], scene.now)
        yield GangRow(
            group=record.key,
            name=record.name,
            who=scene.who(record),
            queue=record.queue,
            workers=len(record.pods),
            running=sum(pod.is_occupied for pod in record.pods),
            state=state_of(record),
            word=said.word,
            tone=said.tone,
            icon=said.icon,
            sentence=said.headline,
        )


# -- changes -------------------------------------------------------------------------------------
def change_rows(scene: Scene) -> Iterator[ChangeView]:
    """Yield the changes in the caller's queues, in force first, then the newest."""
    seen = [o for o in scene.overlays if o.queue in scene.led]
    seen.sort(key=lambda overlay: (not overlay.is_in_force, -overlay.id))
    for overlay in seen[:30]:
        yield change_view(overlay, scene.caller, scene.queues)


def change_view(overlay: Overlay, caller: Caller, queues: Mapping[str, Queue]) -> ChangeView:
    """Return a change as its lead sees it."""
    return ChangeView(
        id=overlay.id,
        kind=overlay.kind,
        queue=overlay.queue,
        text=overlay.text,
        reason=overlay.reason,
        by=overlay.by,
        at=overlay.at,
        until=overlay.until,
        ended_at=overlay.ended_at,
        ended_by=overlay.ended_by,
        ended_why=overlay.ended_why,
        in_force=overlay.is_in_force,
        may_undo=overlay.is_in_force and leads(caller, overlay.queue, queues),
    )
