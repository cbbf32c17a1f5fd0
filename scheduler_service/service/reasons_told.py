"""The items of "Why am I waiting?": each a fact with one thing to do about it, in the order people need them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler_service.model import reasons
from scheduler_service.model.quantities import gpu_words
from scheduler_service.model.reasons import NoScenario, NoVictims, Reason
from scheduler_service.service.overview import Overview
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.explain import ExplainItem
from scheduler_service.wire.pod_group import ActionId, ActionView, Kind
from scheduler_service.words.group import state_of
from scheduler_service.words.units import amount_of, clock_words

TITLES: Mapping[str, str] = {
    "non_preemptible_over_quota": "Quota",
    "over_limit": "Limit",
    "fair_share_reached": "Fair share",
    "gang_short": "All or none",
    "not_ready": "All or none",
    "not_enough_on_node": "Room",
    "behind": "Ahead of you",
    "held_for_other": "Kept for others",
    "kept_for_other": "Kept for others",
    "room_kept": "Kept for you",
    "backing_off": "Starting failed",
    "waits_for_release": "Promised",
    "held_back": "Your lead",
    "never_fits": "Never",
}
TITLES_BY_ACTION: Mapping[str, str] = {
    "preempt": "Priority",
    "reclaim": "Other queues",
    "consolidate": "Moving others",
}
"""For an action that could make no room: what it is about."""
ENDS: Mapping[Kind, tuple[ActionId, str, str]] = {
    "lease": ("release", "Release it", "%gpu release"),
    "kernel": ("release", "Release it", "%gpu release"),
    "gang": ("cancel", "Stop it", "%gang stop"),
    "batch": ("cancel", "Stop it", "%gang stop"),
}
"""What ends a request of a kind by its name; servers are ended where they were started."""
OTHER_TITLE = "Reason"
MOST_REASONS = 4


@dataclass(frozen=True, slots=True)
class Scene:
    """A group, why it waits, and who else is there."""

    record: GroupRecord
    reasons: Sequence[Reason]
    overview: Overview
    records: Mapping[str, GroupRecord]
    now: int
    viewer: str
    endings: Sequence[str] = ()
    """Whose end would let it start, as sentences."""
    helpful: frozenset[str] = frozenset()
    """Which groups of the viewer's own are such ones."""
    foreign: Sequence[str] = ()
    """Who uses a GPU without a lease, as sentences."""


def items(scene: Scene) -> Iterator[ExplainItem]:
    """Yield the facts, the blocking one first."""
    told: set[str] = set()
    for reason in scene.reasons:
        title = title_of(reason)
        text = reasons.sentence(reason)
        if len(told) < MOST_REASONS and text not in told:
            told.add(text)
            yield ExplainItem(title=title, text=text)
    if state_of(scene.record) != "Waiting":
        return
    yield from _ahead(scene)
    yield from (ExplainItem(title="Without a lease", text=text) for text in scene.foreign)
    yield from (ExplainItem(title="Would help", text=text) for text in scene.endings)
    yield from _frees(scene)
    yield from _yours(scene)


def title_of(reason: Reason) -> str:
    """Return the word or two that stand before the reason's sentence."""
    if isinstance(reason, NoVictims | NoScenario):
        return TITLES_BY_ACTION.get(reason.action, OTHER_TITLE)
    return TITLES.get(reasons.code(reason), OTHER_TITLE)


def _ahead(scene: Scene) -> Iterator[ExplainItem]:
    mine = scene.overview.waiting.get(scene.record.key)
    if mine is None or mine.position <= 1:
        return
    ahead = [
        scene.records[key]
        for key, item in scene.overview.waiting.items()
        if item.position < mine.position
        and scene.overview.queue_of.get(key) == scene.record.queue
        and key in scene.records
    ]
    count = len(ahead)
    what = "1 request" if count == 1 else f"{count} requests"
    yield ExplainItem(title="Ahead of you", text=f"{what} before yours in {scene.record.queue}.")


def _frees(scene: Scene) -> Iterator[ExplainItem]:
    ends = [
        (record.expires_at, record)
        for record in scene.records.values()
        if record.expires_at is not None and record.expires_at > scene.now and _held(record)
    ]
    if ends:
        at, record = min(ends, key=lambda pair: (pair[0], pair[1].key))
        amount = gpu_words(_held(record))
        text = f"A lease of {amount} in {record.queue} ends at {clock_words(at, scene.now)}."
        yield ExplainItem(title="Frees it", text=text)


def held_by_the_viewer(scene: Scene) -> list[GroupRecord]:
    """Return what the person who asks holds besides this."""
    return [
        record
        for record in scene.records.values()
        if record.owner == scene.viewer
        and record.key != scene.record.key
        and _held(record)
        and record.ending is None
    ]


def _yours(scene: Scene) -> Iterator[ExplainItem]:
    """Say what the person holds; to end it is offered only where that alone lets this one start."""
    mine = held_by_the_viewer(scene)
    if mine:
        record = min(mine, key=lambda record: record.key not in scene.helpful)
        where = record.ask.origin.notebook or record.name
        text = f"{where} holds {amount_of(record.request)}."
        action = _end_of(record) if record.key in scene.helpful else None
        yield ExplainItem(title="Yours", text=text, action=action)


def _end_of(record: GroupRecord) -> ActionView | None:
    if record.ask.kind not in ENDS:
        return None
    action, label, line = ENDS[record.ask.kind]
    return ActionView(id=action, label=label, code=f"{line} {record.name}")


def _held(record: GroupRecord) -> int:
    return sum(share.milli for pod in record.pods if pod.is_occupied for share in pod.devices)
