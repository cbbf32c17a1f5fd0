"""From what a lead asked to an overlay, or a refusal that says why and what to do. Rights first, then sense. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace as with_changes

from scheduler_service.errors import RequestError
from scheduler_service.model.quantities import gpu_words, parse_milli_gpu
from scheduler_service.model.queue import Queue
from scheduler_service.ports import LEAD_PREFIX, Caller, RefusedRequest
from scheduler_service.service import access
from scheduler_service.service.asking import LONGEST_TIME_S
from scheduler_service.service.overlaid import below, lend, path
from scheduler_service.service.refusals import not_found, refusal
from scheduler_service.settings.queue_file import QueueConfig
from scheduler_service.store.overlays import Overlay
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.pod_group import LEASE_KINDS
from scheduler_service.wire.team import LeadAsk
from scheduler_service.words.group import state_of
from scheduler_service.words.units import clock_words, request_text

LONGEST_REASON = 300
HOLDING = frozenset({"Starting", "Running"})
OF_A_GROUP = frozenset({"priority", "release", "ask"})


@dataclass(frozen=True, slots=True)
class Desk:
    """What a change is judged by."""

    config: QueueConfig
    records: Mapping[str, GroupRecord]
    now: int

    @property
    def queues(self) -> dict[str, Queue]:
        """The queues by name, as they are in force."""
        return {queue.name: queue for queue in self.config.queues}


def leads(caller: Caller, queue: str, queues: Mapping[str, Queue]) -> bool:
    """Whether the caller answers for a queue, by itself or by one above it."""
    return access.leads(caller, queue) or any(
        access.leads(caller, up) for up in path(queues, queue)
    )


def led(caller: Caller, queues: Mapping[str, Queue]) -> tuple[str, ...]:
    """Return the queues that the caller answers for, in the order of the file."""
    return tuple(name for name in queues if leads(caller, name, queues))


def require_lead(caller: Caller, queue: str, queues: Mapping[str, Queue]) -> None:
    """Raise `NotAllowed` unless the caller answers for the queue."""
    if not leads(caller, queue, queues):
        raise refusal(
            "not_allowed",
            f"{caller.user} may not do this: it needs the right to {LEAD_PREFIX}{queue}.",
            f"Ask whoever leads {queue}, or whoever runs this service.",
            scope=f"{LEAD_PREFIX}{queue}",
        )


def overlay_of(caller: Caller, ask: LeadAsk, desk: Desk) -> Overlay:
    """Return the change as it will be kept."""
    queues = desk.queues
    if ask.queue not in queues:
        raise refusal(
            "unknown_queue", f"There is no queue {ask.queue}.", "`kai queues` lists them."
        )
    require_lead(caller, ask.queue, queues)
    if not ask.reason.strip() or len(ask.reason) > LONGEST_REASON:
        raise refusal(
            "reason_needed",
            "A change needs a reason: those concerned read it.",
            f"Write one sentence, at most {LONGEST_REASON} characters.",
        )
    until = _until(ask, desk.now)
    base = Overlay(
        kind=ask.kind,
        queue=ask.queue,
        by=caller.user,
        at=desk.now,
        reason=" ".join(ask.reason.split()),
        until=until,
    )
    if ask.kind in OF_A_GROUP:
        return _of_a_group(base, ask, desk)
    return _of_a_queue(base, ask, desk)


def _until(ask: LeadAsk, now: int) -> int | None:
    if ask.kind == "lend" and ask.until is None:
        raise refusal("bad_time", "Lending needs an end.", "Say until when, such as 18:00.")
    if ask.until is not None and not now < ask.until <= now + LONGEST_TIME_S * 1000:
        raise refusal("bad_time", "This end is not ahead of us.", "Choose a moment in the future.")
    return ask.until


# -- about one request ---------------------------------------------------------------------------
def _of_a_group(base: Overlay, ask: LeadAsk, desk: Desk) -> Overlay:
    record = desk.records.get(ask.group or "")
    if record is None or record.queue not in below(desk.queues, ask.queue):
        raise not_found(*(ask.group or "/").partition("/")[::2])
    if record.is_over or record.ending is not None:
        raise refusal("is_over", f"{record.name} has ended or is ending.", "Nothing is left to do.")
    change = {"group": record.key, "person": record.owner, "queue": record.queue}
    if ask.kind == "priority":
        return _moved(with_changes(base, **change), ask, record, desk)
    what = request_text(record.request, len(record.pods))
    if ask.kind == "ask":
        wish = f"to change or withdraw {record.name}"
        if state_of(record) in HOLDING:
            wish = f"to release {what}"
        return with_changes(base, **change, text=f"Asks you {wish}", until=None)
    if record.ask.kind not in LEASE_KINDS or state_of(record) not in HOLDING:
        raise refusal(
            "not_a_lease", f"{record.name} holds no lease.", "End it with Cancel instead."
        )
    return with_changes(base, **change, text=f"Releases {what}", until=None)


def _moved(base: Overlay, ask: LeadAsk, record: GroupRecord, desk: Desk) -> Overlay:
    if ask.place is None:
        raise refusal("bad_place", "It is not said where to.", "Say first or last.")
    others = [
        other
        for other in desk.records.values()
        if other.queue == record.queue and other.key != record.key and state_of(other) == "Waiting"
    ]
    if state_of(record) != "Waiting" or not others:
        raise refusal(
            "nothing_to_change",
            f"{record.name} waits beside nobody in {record.queue}.",
            "Look again: it may have started.",
        )
    first = ask.place == "first"
    ranks = [other.priority + _age(other, desk) for other in others]
    orders = [other.order for other in others]
    return with_changes(
        base,
        priority=max(0, (max(ranks) if first else min(ranks)) - _age(record, desk)),
        order=min(orders) - 1 if first else max(orders) + 1,
        priority_before=record.priority,
        order_before=record.order,
        text=f"Puts {record.name} {ask.place} in {record.queue}",
    )


def _age(record: GroupRecord, desk: Desk) -> int:
    """Return the points of priority that waiting has brought a request so far."""
    policy = desk.config.policy
    if not policy.age_ms:
        return 0
    return min(policy.max_age, (desk.now - record.created_at) // policy.age_ms)


# -- about a queue -------------------------------------------------------------------------------
def _of_a_queue(base: Overlay, ask: LeadAsk, desk: Desk) -> Overlay:
    until = "" if base.until is None else f" until {clock_words(base.until, desk.now)}"
    if ask.kind == "drain":
        return with_changes(base, text=f"Starts nothing new in {base.queue}{until}")
    milli = _milli(ask)
    if ask.kind == "cap":
        if not ask.person:
            raise refusal("unknown_person", "The cap names nobody.", "Say whom it is for.")
        text = f"{ask.person} holds at most {gpu_words(milli)} in {base.queue}{until}"
        return with_changes(base, person=ask.person, milli_gpu=milli, text=text)
    to = ask.to or ""
    _check_loan(base.queue, to, milli, desk)
    text = f"{base.queue} lends {gpu_words(milli)} to {to}{until}"
    return with_changes(base, to=to, milli_gpu=milli, text=text)


def _milli(ask: LeadAsk) -> int:
    if ask.kind == "cap" and str(ask.gpu).strip() in {"0", "0.0"}:
        return 0
    try:
        return parse_milli_gpu(ask.gpu if ask.gpu is not None else "")
    except RequestError as error:
        raise refusal(
            "bad_gpu_amount", f"{ask.gpu!r} GPU is not possible.", "Write an amount like 2 or 0.5."
        ) from error


def _check_loan(giver: str, taker: str, milli: int, desk: Desk) -> None:
    queues = desk.queues
    if taker not in queues:
        raise refusal("unknown_queue", f"There is no queue {taker}.", "`kai queues` lists them.")
    if taker in path(queues, giver) or giver in path(queues, taker):
        raise refusal(
            "bad_loan", f"{taker} and {giver} are one line of queues.", "Lend to another queue."
        )
    quota = queues[giver].gpu.quota
    if quota is None:
        raise refusal(
            "bad_loan", f"{giver} has no quota to lend.", "Only a queue with a quota can lend."
        )
    after = dict(queues)
    lend(after, giver, taker, milli)
    if quota < milli or after[giver].gpu.quota != quota - milli:
        most = quota - (after[giver].gpu.quota or 0)
        raise refusal(
            "bad_loan",
            f"{giver} has a quota of {gpu_words(quota)}.",
            f"Lend at most {gpu_words(most)}.",
        )
    _check_limit(taker, after)


def _check_limit(taker: str, after: Mapping[str, Queue]) -> None:
    for name in path(after, taker):
        share = after[name].gpu
        if share.limit is not None and share.quota is not None and share.quota > share.limit:
            raise refusal(
                "bad_loan",
                f"{name} is limited to {gpu_words(share.limit)}: it could not use what is lent.",
                "Lend less, or have the limit raised.",
            )


def no_such_change(number: int) -> RefusedRequest:
    """Return the answer for a change that is not there, or not the caller's to know of."""
    return refusal(
        "not_found",
        f"There is no change {number} that you may see.",
        "Look at the list of changes.",
    )
