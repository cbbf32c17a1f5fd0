"""When a request that was not made yet would start: now, in about so long, or never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from scheduler_service.ledger import trial
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import GpuRequest
from scheduler_service.model.plan import Bind, Pipeline, Plan, Waiting
from scheduler_service.model.pod import Pod
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.policy import Policy
from scheduler_service.model.reasons import (
    GpuMemoryUnknown,
    NeverFits,
    NoMatchingNode,
    NonPreemptibleOverQuota,
    OverLimit,
    QueueMissing,
    QueueNotLeaf,
    Reason,
)
from scheduler_service.planning import timeline
from scheduler_service.planning.cycle import plan

Verdict = Literal["now", "by_eviction", "about", "unknown", "never"]
FOR_GOOD = (GpuMemoryUnknown, NeverFits, NoMatchingNode, QueueMissing, QueueNotLeaf)


class RunTime(msgspec.Struct, frozen=True, gc=False):
    """How long a running group still runs, or a waiting one runs once it started: a range in ms."""

    earliest_ms: int
    latest_ms: int


class Forecast(msgspec.Struct, frozen=True, gc=False):
    """The answer. `position`: its place in its queue, `overall`: in all; 1 is next.

    `eta_ms` is a range from now, where something supports a number. `reason`: what it waits for,
    or why it is never possible. "by_eviction": others would be asked to leave for it now.
    """

    verdict: Verdict
    position: int = 1
    overall: int = 1
    eta_ms: tuple[int, int] | None = None
    reason: Reason | None = None


class Change(msgspec.Struct, frozen=True, gc=False):
    """What is different: another form of the request, or groups of others (`endings`) that end."""

    gpu: GpuRequest | None = None
    pods: int | None = None
    preemptible: bool = False
    queue: str | None = None
    endings: tuple[str, ...] = ()


class CounterOffer(msgspec.Struct, frozen=True, gc=False):
    """A change that would help, in words, and when the group would start with it."""

    what: str
    forecast: Forecast
    change: Change = Change()


RunTimes = Mapping[str, RunTime]
NOBODY_KNOWS: RunTimes = {}


def forecast(
    ledger: Ledger,
    policy: Policy,
    request: tuple[PodGroup, Sequence[Pod]],
    now_ms: int,
    run_times: RunTimes = NOBODY_KNOWS,
) -> Forecast:
    """Return when a group that is not there would start if it were asked for now.

    Its name must be free; the ledger is afterwards as before.
    """
    group, pods = request
    with trial.added(ledger, group, pods):
        return forecast_waiting(ledger, policy, (group.key,), now_ms, run_times)[group.key]


def forecast_waiting(
    ledger: Ledger,
    policy: Policy,
    groups: Sequence[str],
    now_ms: int,
    run_times: RunTimes = NOBODY_KNOWS,
) -> dict[str, Forecast]:
    """Return when each of these groups, which have pending pods, will start."""
    result = plan(ledger, policy, now_ms)
    waiting = {item.group: item for item in result.waiting}
    known = {key: at_once(result, key, waiting.get(key)) for key in groups}
    if all(known.values()):
        return {key: answer for key, answer in known.items() if answer is not None}
    early, late = (
        timeline.starts(ledger, policy, now_ms, ends_in_ms=ends)
        for ends in (
            {key: span.earliest_ms for key, span in run_times.items()},
            {key: span.latest_ms for key, span in run_times.items()},
        )
    )
    return {
        key: answer or _later(waiting[key], early.get(key), late.get(key))
        for key, answer in known.items()
    }


def at_once(result: Plan, key: str, waiting: Waiting | None) -> Forecast | None:
    """Return the answer for a group if this very plan decides it; `waiting`: its entry there."""
    for statement in result.statements:
        if statement.group != key:
            continue
        if any(isinstance(operation, Bind) for operation in statement.operations):
            return Forecast("now")
        if any(isinstance(operation, Pipeline) for operation in statement.operations):
            reason = waiting.main_reason if waiting else None
            return Forecast("by_eviction", reason=reason)
    if waiting is None:
        return Forecast("now")
    reason = next((reason for reason in waiting.reasons if is_final(reason)), None)
    if reason is None:
        return None
    return Forecast("never", waiting.position, waiting.overall, reason=reason)


def is_final(reason: Reason) -> bool:
    """Say whether waiting does not help: the request itself is more than there can ever be."""
    if isinstance(reason, OverLimit):
        return reason.requested > reason.limit
    if isinstance(reason, NonPreemptibleOverQuota):
        return reason.requested > reason.quota
    return isinstance(reason, FOR_GOOD)


def _later(waiting: Waiting, early: int | None, late: int | None) -> Forecast:
    place, reason = (waiting.position, waiting.overall), waiting.main_reason
    if early is None:
        return Forecast("unknown", *place, reason=reason)
    other = early if late is None else late
    return Forecast("about", *place, (min(early, other), max(early, other)), reason)
