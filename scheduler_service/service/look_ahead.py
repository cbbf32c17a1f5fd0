"""What the planner says of what is not yet: starts of waiting groups, offers that start now, requests not made. Pure.

Rule: every number comes from plans tried on a ledger and rolled back; nothing is guessed beside it. The ledger
may be a copy, so that a long look can be taken aside while the service goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler_service.backends.local import spec
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.policy import Policy
from scheduler_service.planning import forecast as forecasting
from scheduler_service.planning.forecast import Forecast
from scheduler_service.planning.offers import ending_offers, other_forms, starts_without
from scheduler_service.ports import Caller, ForecastAsk, RefusedRequest
from scheduler_service.service import access, asking, estimates
from scheduler_service.service.asking import World
from scheduler_service.service.estimates import Known
from scheduler_service.service.offers import ending_words, worded
from scheduler_service.service.overview import Overview
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.pod_group import ActionView, EtaView, Submit

WHAT_IF = "what-if"
MOST_FORECAST = 50
"""Groups far behind get no time of their own: it would rest on too much that may change."""
MOST_OFFERED = 12
MOST_TRIED = 10
"""Own running groups of which it is tried out whether their end would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that a look ahead is taken from."""

    ledger: Ledger
    policy: Policy
    records: Mapping[str, GroupRecord]
    overview: Overview
    world: World
    now: int

    def known(self) -> Known:
        """Return what is known of run times."""
        return estimates.known_run_times(list(self.records.values()), self.now)


@dataclass(frozen=True, slots=True)
class Ahead:
    """When each waiting group is expected to start, and what would start sooner."""

    etas: Mapping[str, EtaView] = field(default_factory=dict)
    offered: Mapping[str, tuple[ActionView, ...]] = field(default_factory=dict)


def look_ahead(scene: Scene) -> Ahead:
    """Return the outlook of the groups that wait, the first of them with offers."""
    plan = scene.overview.plan
    keys = [] if plan is None else [item.group for item in plan.waiting]
    live = [
        scene.records[key]
        for key in keys[:MOST_FORECAST]
        if key in scene.records and key in scene.ledger.groups
    ]
    if not live:
        return Ahead()
    known = scene.known()
    answers = forecasting.forecast_waiting(
        scene.ledger, scene.policy, [r.key for r in live], scene.now, known.run_times
    )
    etas = {
        record.key: estimates.eta_view(answers[record.key], known, scene.now)
        for record in live
        if record.key in answers
    }
    return Ahead(etas, {r.key: _offers(scene, r) for r in live[:MOST_OFFERED]})


def _offers(scene: Scene, record: GroupRecord) -> tuple[ActionView, ...]:
    """Return the other forms of a request that the planner found to help and the person may ask for."""
    caller, group = Caller(record.owner), scene.ledger.groups[record.key]
    queues = _queues_for(caller, scene.world)
    found = other_forms(scene.ledger, scene.policy, group, scene.now, queues)
    views = (worded(record, offer) for offer in found)
    told: dict[tuple[str, str | None], ActionView] = {}
    for view in views:
        if view is not None and _may_ask(scene, caller, view):
            told.setdefault((view.label, view.eta_text), view)
    return tuple(told.values())


def endings(scene: Scene, key: str) -> tuple[str, ...]:
    """Return whose end would let a waiting group start, a sentence each; alike ones once."""
    group = scene.ledger.groups.get(key)
    if group is None or key not in scene.overview.waiting:
        return ()
    known = scene.known()
    found = ending_offers(scene.ledger, scene.policy, group, scene.now, known.run_times)
    told = (
        ending_words(offer, estimates.eta_view(offer.forecast, known, scene.now).text)
        for offer in found
    )
    return tuple(dict.fromkeys(told))


def helpful(scene: Scene, key: str, mine: Sequence[str]) -> frozenset[str]:
    """Return which of these groups of the asker's own would let a waiting one start if they ended."""
    group = scene.ledger.groups.get(key)
    if group is None:
        return frozenset()
    there = [other for other in mine if other in scene.ledger.groups][:MOST_TRIED]
    return frozenset(
        other
        for other in there
        if starts_without(scene.ledger, scene.policy, group, scene.now, [other])
    )


def _queues_for(caller: Caller, world: World) -> Sequence[str]:
    return [
        queue.name
        for queue in world.config.queues
        if queue.name not in world.parents and access.may_submit(caller, queue.name, world.config)
    ]


def _may_ask(scene: Scene, caller: Caller, view: ActionView) -> bool:
    """Say whether a request as offered would be taken."""
    if view.submit is None:
        return False
    try:
        wish = asking.understood(caller, view.submit, scene.world)
        asking.refuse_the_impossible(wish, scene.world)
    except RefusedRequest:
        return False
    return True


def forecast_of(
    scene: Scene, caller: Caller, wish: asking.Wish, ask: Submit | ForecastAsk, known: Known
) -> Forecast:
    """Return what a request would get if it were made now."""
    name = asking.free_name(WHAT_IF, lambda name: f"{caller.user}/{name}" in scene.records)
    submit = ask if isinstance(ask, Submit) else Submit(kind=ask.kind)
    order = 1 + max((record.order for record in scene.records.values()), default=0)
    record = asking.new_record(caller, submit, wish, name=name, now=scene.now, order=order)
    group = spec.pod_group(record), [spec.pod(record, member) for member in record.pods]
    return forecasting.forecast(scene.ledger, scene.policy, group, scene.now, known.run_times)
