"""What would help a group that waits: other forms of its request, and endings of others, tried out.

Each offer is a what-if over the journal with the whole plan behind it, so that what is offered is
what would be decided. What belongs here: which changes are tried, and their words. What never
does: who may see or take them, and how a request is written (the service).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from scheduler_service.ledger import states, trial
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.load import read_pod
from scheduler_service.ledger.store import Ledger
from scheduler_service.model import quantities
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, WholeGpus
from scheduler_service.model.plan import Plan
from scheduler_service.model.pod import Pod
from scheduler_service.model.pod_group import PodGroup, Preemptibility, flat_gang
from scheduler_service.model.policy import Policy
from scheduler_service.model.reasons import GangShort
from scheduler_service.planning.cycle import plan
from scheduler_service.planning.forecast import (
    NOBODY_KNOWS,
    Change,
    CounterOffer,
    Forecast,
    RunTimes,
    at_once,
)

MAX_OFFERS = 5
MAX_ENDINGS = 2
"""Endings among the offers; the rest are changes that are in the asker's own hands."""
TRIES = 20
"""Plans made to find endings that help."""
TRIAL_SUFFIX = "--what-if"
_FRACTIONS = (500, 250, 100)
_LEAST_HALF = 200


class Variant(NamedTuple):
    """Another form of a group: in words, what is different, and the group as it would be."""

    words: str
    change: Change
    model: PodGroup
    pods: list[Pod]


def counter_offers(
    ledger: Ledger, policy: Policy, group: Group, now_ms: int, run_times: RunTimes = NOBODY_KNOWS
) -> tuple[CounterOffer, ...]:
    """Return at most five changes that would let a waiting group start, those for now first.

    A group that has a promise is offered only what starts now; one that never fits, no endings.
    """
    own = _answer(plan(ledger, policy, now_ms), group.key)
    verdict = "unknown" if own is None else own.verdict
    endings: tuple[CounterOffer, ...] = ()
    if verdict not in {"never", "by_eviction"}:
        endings = ending_offers(ledger, policy, group, now_ms, run_times)
    forms = other_forms(ledger, policy, group, now_ms)
    return (*forms[: MAX_OFFERS - len(endings)], *endings)


def other_forms(
    ledger: Ledger,
    policy: Policy,
    group: Group,
    now_ms: int,
    queues: Collection[str] | None = None,
) -> tuple[CounterOffer, ...]:
    """Return at most five other forms of a waiting group that would start, those for now first.

    `queues`: those that may be offered; all without it.
    """
    result = plan(ledger, policy, now_ms)
    own = _answer(result, group.key)
    is_promised = own is not None and own.verdict == "by_eviction"
    started: list[CounterOffer] = []
    later: list[CounterOffer] = []
    for words, change, wanted, pods in _variants(ledger, group, _placed(result, group.key)):
        model = _asked_for_now(ledger, wanted, now_ms)
        if change.queue is not None and queues is not None and change.queue not in queues:
            continue
        with trial.added(ledger, model, pods), _withdrawn(ledger, group):
            answer = _answer(plan(ledger, policy, now_ms), model.key)
        if answer is None:
            continue
        if answer.verdict == "now":
            started.append(CounterOffer(f"fits now {words}", answer, change))
        elif answer.verdict == "by_eviction" and not is_promised:
            later.append(CounterOffer(f"fits {words} once others have made room", answer, change))
    return tuple([*started, *later][:MAX_OFFERS])


@contextmanager
def _withdrawn(ledger: Ledger, group: Group) -> Iterator[None]:
    """Take back what a group wants, for the length of a question: who takes an offer gives it up."""
    mark = ledger.checkpoint()
    for pod in group.pods():
        if ledger.pods.state[pod] == states.PENDING:
            ledger.move(pod, states.GATED)
    try:
        yield
    finally:
        ledger.rollback(mark)
        ledger.journal.touched.clear()


def _placed(result: Plan, key: str) -> int:
    """Return for how many pods of a gang there is room now; 0 if that is not known."""
    reasons = (reason for item in result.waiting if item.group == key for reason in item.reasons)
    return next((reason.placed for reason in reasons if isinstance(reason, GangShort)), 0)


def _answer(result: Plan, key: str) -> Forecast | None:
    waiting = next((item for item in result.waiting if item.group == key), None)
    return at_once(result, key, waiting)


# -- other forms of the request ------------------------------------------------------------------


def _variants(ledger: Ledger, group: Group, placed: int) -> Iterator[Variant]:
    """Yield smaller or other forms of a flat group none of whose pods runs yet."""
    pods = [read_pod(ledger, pod) for pod in group.pods()]
    if not group.is_flat or not pods or any(pod.node is not None for pod in pods):
        return
    for amount, request in _smaller(pods[0].request.gpu):
        words = f"as {amount}" if len(pods) == 1 else f"with {amount} for each pod"
        changed = [
            msgspec.structs.replace(pod, request=msgspec.structs.replace(pod.request, gpu=request))
            for pod in pods
        ]
        yield _variant(words, Change(gpu=request), group.model, changed)
    for fewer in _fewer(len(pods), placed):
        smaller = msgspec.structs.replace(group.model, gang=flat_gang(fewer))
        words = f"with {fewer} of {len(pods)} pods"
        yield _variant(words, Change(pods=fewer), smaller, pods[:fewer])
    if group.model.preemptibility is not Preemptibility.PREEMPTIBLE:
        softer = msgspec.structs.replace(group.model, preemptibility=Preemptibility.PREEMPTIBLE)
        yield _variant("if it may be preempted", Change(preemptible=True), softer, pods)
    for row, queue in enumerate(ledger.queues.models):
        if row != group.queue and ledger.queues.runs_work(row):
            other = msgspec.structs.replace(group.model, queue=queue.name)
            yield _variant(f"in queue {queue.name}", Change(queue=queue.name), other, pods)


def _fewer(count: int, placed: int) -> Iterator[int]:
    """Yield smaller numbers of pods: those for which there is room, then always half."""
    if 0 < placed < count:
        yield placed
    half = count // 2
    while half:
        if half < (placed or count):
            yield half
        half //= 2


def _variant(words: str, change: Change, model: PodGroup, pods: Sequence[Pod]) -> Variant:
    renamed = msgspec.structs.replace(model, name=model.name + TRIAL_SUFFIX)
    members = [
        msgspec.structs.replace(pod, name=pod.name + TRIAL_SUFFIX, group=renamed.key)
        for pod in pods
    ]
    return Variant(words, change, renamed, members)


def _asked_for_now(ledger: Ledger, model: PodGroup, now_ms: int) -> PodGroup:
    """Return a form as it would stand if it were asked for now: behind all others."""
    latest = max(group.model.created for group in ledger.groups.values())
    since = None if model.waits_since_ms is None else now_ms
    return msgspec.structs.replace(
        model,
        created=max(latest + 1, now_ms),
        made_ms=now_ms,
        waits_since_ms=since,
        last_evicted_ms=None,
    )


def _smaller(gpu: GpuRequest | None) -> Iterator[tuple[str, GpuRequest]]:
    """Yield GPU requests that are easier to place than this one, worded for one pod."""
    match gpu:
        case WholeGpus(count=1):
            yield from _parts(1000, 1)
        case WholeGpus(count=count):
            while (count := count // 2) >= 1:
                yield quantities.gpu_words(count * 1000), WholeGpus(count)
        case FractionOfGpu(milli=milli, devices=devices):
            yield from _parts(milli, devices)
        case GpuMemory(mib=mib, devices=devices) if mib > 1:
            yield _each(quantities.mib_words(mib // 2), devices), GpuMemory(mib // 2, devices)


def _parts(milli: int, devices: int) -> Iterator[tuple[str, GpuRequest]]:
    if devices == 1 and milli >= _LEAST_HALF and milli % 2 == 0:
        half = milli // 2
        yield _each(quantities.gpu_words(half), 2), FractionOfGpu(half, devices=2)
    for part in _FRACTIONS:
        if part < milli:
            yield _each(quantities.gpu_words(part), devices), FractionOfGpu(part, devices)


def _each(words: str, devices: int) -> str:
    return words if devices == 1 else f"{devices} × {words}"


# -- endings of others ---------------------------------------------------------------------------


def ending_offers(
    ledger: Ledger, policy: Policy, group: Group, now_ms: int, run_times: RunTimes = NOBODY_KNOWS
) -> tuple[CounterOffer, ...]:
    """Return whose ending would start this group: one group alone, else several of one queue."""
    running = _running(ledger, group)
    tries = [[key] for _, key in running[:TRIES]]
    found = _helping(ledger, policy, group, now_ms, tries)
    if not found:
        found = _helping(ledger, policy, group, now_ms, _together(ledger, running))
    return tuple(_ending(ledger, keys, run_times) for keys in found)


def _running(ledger: Ledger, group: Group) -> list[tuple[int, str]]:
    """Return (charge, key) of the running groups that hold what this one asks for, least first."""
    needs_gpu = any(ledger.shape_of(pod).asked[2] for pod in group.pods())
    found = [
        (sum(ledger.pods.charge[pod] for pod in other.pods() if _has_place(ledger, pod)), key)
        for key, other in ledger.groups.items()
        if key != group.key and any(_has_place(ledger, pod) for pod in other.pods())
    ]
    return sorted(pair for pair in found if pair[0] or not needs_gpu)


def _together(ledger: Ledger, running: Sequence[tuple[int, str]]) -> Iterator[list[str]]:
    """Yield several groups of one queue, one more each time, for each queue in turn."""
    by_queue: dict[int, list[str]] = {}
    for _, key in running:
        by_queue.setdefault(ledger.groups[key].queue, []).append(key)
    tries = 0
    for keys in by_queue.values():
        for count in range(2, len(keys) + 1):
            tries += 1
            if tries > TRIES:
                return
            yield keys[:count]


def _helping(
    ledger: Ledger,
    policy: Policy,
    group: Group,
    now_ms: int,
    tries: Iterator[list[str]] | Sequence[list[str]],
) -> list[list[str]]:
    """Return the first sets of groups, each of another queue or alone, whose ending helps."""
    found: list[list[str]] = []
    for keys in tries:
        is_more_of_the_same = len(keys) > 1 and any(other[0] == keys[0] for other in found)
        if is_more_of_the_same:
            continue
        if starts_without(ledger, policy, group, now_ms, keys):
            found.append(keys)
            if len(found) == MAX_ENDINGS:
                break
    return found


def starts_without(
    ledger: Ledger, policy: Policy, group: Group, now_ms: int, keys: Sequence[str]
) -> bool:
    """Say whether a waiting group would start at once if these had ended."""
    mark = ledger.checkpoint()
    for key in keys:
        for pod in list(ledger.groups[key].pods()):
            if _has_place(ledger, pod):
                ledger.move(pod, states.SUCCEEDED)
    made = plan(ledger, policy, now_ms).statements
    ledger.rollback(mark)
    ledger.journal.touched.clear()
    return any(statement.group == group.key and statement.is_start for statement in made)


def _ending(ledger: Ledger, keys: Sequence[str], run_times: RunTimes) -> CounterOffer:
    """Word an ending; its forecast is that of the last to end, where all are known."""
    pods = [pod for key in keys for pod in ledger.groups[key].pods() if _has_place(ledger, pod)]
    milli = sum(ledger.pods.charge[pod] for pod in pods)
    queue = ledger.groups[keys[0]].model.queue
    words = quantities.gpu_words(milli)
    if not milli:
        words = quantities.cpu_words(sum(ledger.shape_of(pod).milli_cpu for pod in pods))
    who = keys[0] if len(keys) == 1 else f"{len(keys)} groups"
    verb = "end" if words.endswith("s") else "ends"
    known = [run_times[key] for key in keys if key in run_times]
    answer = Forecast("unknown")
    if len(known) == len(keys):
        span = max(one.earliest_ms for one in known), max(one.latest_ms for one in known)
        answer = Forecast("about", eta_ms=span)
    what = f"fits if {words} of {queue} {verb} ({who})"
    return CounterOffer(what, answer, Change(endings=tuple(keys)))


def _has_place(ledger: Ledger, pod: int) -> bool:
    return states.IS_ALLOCATED[ledger.pods.state[pod]]
