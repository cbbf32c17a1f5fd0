"""What a lead's change would do at once: the plan with it beside the plan without it, on copies of the ledger. Pure.

Rule: no number is made here that a plan did not give; the ledger of the service is not touched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Evict, Plan
from scheduler_service.model.policy import Policy
from scheduler_service.model.quantities import gpu_words
from scheduler_service.model.queue import Queue
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.service.overlaid import below
from scheduler_service.service.overview import by_name
from scheduler_service.service.room import charge_milli
from scheduler_service.store.overlays import Overlay
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.team import BeforeAfter, WhatIfView
from scheduler_service.words.units import clock_words, request_text

Planner = Callable[[Ledger, Policy, int], Plan]
MOST_TOLD = 6
WHOLE = 1000
MINUS = "\u2212"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where one plan leads: milli-GPU by queue once it is done, who starts, who is asked to leave."""

    held: Mapping[str, int]
    starts: Mapping[str, int]
    leaves: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Question:
    """A change, the ledger without and with it, and what is needed for the words."""

    overlay: Overlay
    before: Snapshot
    after: Snapshot
    policy: Policy
    planner: Planner
    records: Mapping[str, GroupRecord]
    names: Callable[[GroupRecord], str]


def what_if(question: Question) -> WhatIfView:
    """Return the effect on every queue, and who gains and who pays."""
    now = outcome(question, question.before)
    then = outcome(question, question.after)
    gains = _only(then.starts, now.starts)
    pays = _only(then.leaves, now.leaves)
    later = _only(now.starts, then.starts)
    leaves = sorted(q.name for q in question.after.queues if len(below(_by(question), q.name)) == 1)
    rows = tuple(_row(name, now, then) for name in leaves)
    return WhatIfView(
        headline=_headline(gains, pays, rows),
        detail=_detail(question, rows),
        queues=rows,
        gains=tuple(_lines(question, gains, "start{s} now")),
        pays=(
            *_lines(question, pays, "go{es} back to the queue or end{s}"),
            *_lines(question, later, "wait{s} on"),
        ),
        risk=_risk(question),
        text=question.overlay.text,
    )


def outcome(question: Question, snapshot: Snapshot) -> Outcome:
    """Return where a plan made from this snapshot leads."""
    plan = question.planner(Ledger.from_snapshot(snapshot), question.policy, snapshot.now_ms)
    queue_of = {group.key: group.queue for group in snapshot.pod_groups}
    held: dict[str, int] = defaultdict(int)
    has = {
        pod.key: sum(share.milli for share in pod.devices) for pod in snapshot.pods if pod.devices
    }
    asks = {pod.key: charge_milli(pod.request.gpu, snapshot.nodes) for pod in snapshot.pods}
    for pod, milli in has.items():
        held[queue_of.get(by_name(pod)[0], "")] += milli
    starts: dict[str, int] = defaultdict(int)
    leaves: dict[str, int] = defaultdict(int)
    for operation in plan.operations():
        group = by_name(operation.pod)[0]
        if isinstance(operation, Evict):
            leaves[group] += has.get(operation.pod, 0)
            held[queue_of.get(group, "")] -= has.get(operation.pod, 0)
        else:
            milli = asks[operation.pod]
            starts[group] += milli
            held[queue_of.get(group, "")] += milli
    return Outcome(held, starts, leaves)


def _by(question: Question) -> Mapping[str, Queue]:
    return {queue.name: queue for queue in question.after.queues}


def _only(these: Mapping[str, int], not_those: Mapping[str, int]) -> Mapping[str, int]:
    return {group: milli for group, milli in these.items() if group not in not_those}


def _row(queue: str, now: Outcome, then: Outcome) -> BeforeAfter:
    before, after = now.held.get(queue, 0), then.held.get(queue, 0)
    delta = after - before
    sign = "+" if delta > 0 else MINUS
    text = "same" if not delta else f"{sign}{abs(delta) / WHOLE:g}"
    return BeforeAfter(queue=queue, before_milli=before, after_milli=after, delta_text=text)


def _headline(
    gains: Mapping[str, int],
    pays: Mapping[str, int],
    rows: Sequence[BeforeAfter],
) -> str:
    parts = []
    if gains:
        parts.append(
            f"{_count(len(gains))} that {_s('wait', len(gains))} {_s('start', len(gains))} now"
        )
    losers = [row for row in rows if row.after_milli < row.before_milli]
    for row in losers if pays else ():
        given = gpu_words(row.before_milli - row.after_milli)
        parts.append(f"{row.queue} gives back {given}")
    if not parts:
        return "Nothing changes at once."
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _count(number: int) -> str:
    return "1 request" if number == 1 else f"{number} requests"


def _s(verb: str, count: int) -> str:
    return f"{verb}s" if count == 1 else verb


def _detail(question: Question, rows: Sequence[BeforeAfter]) -> str:
    overlay = question.overlay
    if overlay.kind != "lend":
        return ""
    row = next((row for row in rows if row.queue == overlay.queue), None)
    if row is None:
        return ""
    if row.after_milli >= row.before_milli:
        return f"{overlay.queue} keeps all it holds."
    return f"{overlay.queue} gives back {gpu_words(row.before_milli - row.after_milli)} itself."


def _lines(question: Question, groups: Mapping[str, int], verb: str) -> Iterator[str]:
    said = verb.replace("{s}", "s").replace("{es}", "es")
    known = [question.records[key] for key in groups if key in question.records]
    for record in known[:MOST_TOLD]:
        what = request_text(record.request, len(record.pods))
        yield f"{question.names(record)} ({record.queue}, {what}) {said}"
    if len(known) > MOST_TOLD:
        yield f"and {len(known) - MOST_TOLD} more"


def _risk(question: Question) -> str:
    overlay = question.overlay
    if overlay.kind != "lend":
        return ""
    until = "" if overlay.until is None else f" before {clock_words(overlay.until, overlay.at)}"
    quota = next((q.gpu.quota for q in question.after.queues if q.name == overlay.queue), None)
    if quota is None:
        return ""
    return f"If {overlay.queue} asks for more than {gpu_words(quota)}{until}, the rest may have to wait."
