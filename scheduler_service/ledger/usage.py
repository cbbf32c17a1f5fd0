"""The usage book: what queues, and owners inside a queue, held lately, against what there was.

Rules: 1. Integers only; the same ticks give the same book on every machine. 2. What was held and
what there was decay alike, so where ticks fall changes nothing but the last digit. 3. A moment is
never read here, it comes with the tick.

Half-life: an amount held for a time counts 0.5 ** (age / half-life) (KAI's time-based fair share).
Window: what is older is forgotten, a 32nd of the window at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from scheduler_service.ledger import states
from scheduler_service.ledger.capacity import known_total
from scheduler_service.model.resources import Resources

if TYPE_CHECKING:
    from scheduler_service.ledger.store import Ledger

Amounts = tuple[int, int, int]
NOTHING: Amounts = (0, 0, 0)
Q = 96
"""Bits after the point of a decay factor."""
WHOLE = 1 << Q
FRACTION_BITS = 48
TIME_BITS = 16
"""Time is summed in 65536ths of a ms, so that short ticks under a long half-life are not lost."""
LN2_MILLIONTHS = 693_147
SPANS = 32


def _roots() -> tuple[int, ...]:
    """Return 2 ** -(1/2), 2 ** -(1/4), ... as fixed-point numbers."""
    found = [isqrt(1 << (2 * Q - 1))]
    while len(found) < FRACTION_BITS:
        found.append(isqrt(found[-1] << Q))
    return tuple(found)


ROOTS = _roots()


class UsageRule(NamedTuple):
    """How the past counts: ms, 0 = no decay, no window."""

    half_life_ms: int = 0
    window_ms: int = 0


class Held(NamedTuple):
    """What there is and who holds how much of it: by queue, and by queue and owner (one number)."""

    total: Amounts
    by_queue: Mapping[str, Amounts]
    by_owner: Mapping[str, Mapping[str, int]]


class Span(msgspec.Struct, frozen=True, gc=False):
    """Amounts times time since a moment, decayed to the moment of the book."""

    since_ms: int
    total: Amounts = NOTHING
    by_queue: Mapping[str, Amounts] = {}
    by_owner: Mapping[str, Mapping[str, int]] = {}


class UsageBook(msgspec.Struct, frozen=True, gc=False):
    """The spans, oldest first, up to a moment; None = nothing was noted yet."""

    at_ms: int | None = None
    spans: tuple[Span, ...] = ()


def decay_factor(elapsed_ms: int, half_life_ms: int) -> int:
    """Return 0.5 ** (elapsed / half-life) with `Q` bits after the point; `WHOLE` without decay."""
    if not half_life_ms:
        return WHOLE
    halvings, rest = divmod(elapsed_ms, half_life_ms)
    bits = (rest << FRACTION_BITS) // half_life_ms
    factor = WHOLE
    for place, root in enumerate(ROOTS, start=1):
        if bits >> (FRACTION_BITS - place) & 1:
            factor = factor * root >> Q
    return factor >> halvings


def advanced(book: UsageBook, held: Held, now_ms: int, rule: UsageRule) -> UsageBook:
    """Return the book up to `now_ms`, `held` being what was so since its last moment."""
    if book.at_ms is None:
        return UsageBook(now_ms)
    if now_ms <= book.at_ms:
        return book
    elapsed = now_ms - book.at_ms
    if rule.window_ms:
        elapsed = min(elapsed, rule.window_ms)
    factor = decay_factor(elapsed, rule.half_life_ms)
    spans = [_decayed(span, factor) for span in book.spans]
    begins = now_ms - elapsed
    if not spans or (rule.window_ms and begins - spans[-1].since_ms >= rule.window_ms // SPANS):
        spans.append(Span(begins))
    spans[-1] = _with(spans[-1], held, _time(elapsed, factor, rule.half_life_ms))
    if rule.window_ms:
        oldest = now_ms - rule.window_ms
        while len(spans) > 1 and spans[1].since_ms <= oldest:
            del spans[0]
    return UsageBook(now_ms, tuple(spans))


def _time(elapsed_ms: int, factor: int, half_life_ms: int) -> int:
    """Return the elapsed time as it counts at its end: the integral of the decay over it."""
    if not half_life_ms:
        return elapsed_ms << TIME_BITS
    return ((WHOLE - factor) * half_life_ms * 1_000_000 // LN2_MILLIONTHS) >> (Q - TIME_BITS)


def _decayed(span: Span, factor: int) -> Span:
    if factor == WHOLE:
        return span
    return Span(
        span.since_ms,
        _times(span.total, factor),
        {name: _times(used, factor) for name, used in span.by_queue.items() if any(used)},
        {
            queue: {owner: used * factor >> Q for owner, used in owners.items() if used}
            for queue, owners in span.by_owner.items()
        },
    )


def _times(amounts: Amounts, factor: int) -> Amounts:
    cpu, memory, gpu = amounts
    return cpu * factor >> Q, memory * factor >> Q, gpu * factor >> Q


def _with(span: Span, held: Held, time: int) -> Span:
    """Return the span with what was held for a time."""
    by_queue = dict(span.by_queue)
    for name, amounts in held.by_queue.items():
        if any(amounts):
            by_queue[name] = _plus(by_queue.get(name, NOTHING), amounts, time)
    by_owner = {queue: dict(owners) for queue, owners in span.by_owner.items()}
    for queue, owners in held.by_owner.items():
        known = by_owner.setdefault(queue, {})
        for owner, amount in owners.items():
            known[owner] = known.get(owner, 0) + amount * time
    return Span(span.since_ms, _plus(span.total, held.total, time), by_queue, by_owner)


def _plus(sums: Amounts, amounts: Amounts, time: int) -> Amounts:
    (cpu, memory, gpu), (more_cpu, more_memory, more_gpu) = sums, amounts
    return cpu + more_cpu * time, memory + more_memory * time, gpu + more_gpu * time


def queue_usage(book: UsageBook) -> dict[str, Resources]:
    """Return the part of the cluster that each queue held, in thousandths; none = left out."""
    total = _sum(span.total for span in book.spans)
    names = sorted({name for span in book.spans for name in span.by_queue})
    found = {}
    for name in names:
        used = _sum(span.by_queue.get(name, NOTHING) for span in book.spans)
        cpu, memory, gpu = (
            part * 1000 // whole if whole > 0 else 0
            for part, whole in zip(used, total, strict=True)
        )
        if cpu or memory or gpu:
            found[name] = Resources(milli_gpu=gpu, milli_cpu=cpu, memory_bytes=memory)
    return found


def owner_usage(book: UsageBook) -> dict[str, dict[str, int]]:
    """Return, by queue, the part of the cluster that each owner held there, in millionths."""
    total = _sum(span.total for span in book.spans)
    whole = total[2] or total[0]
    sums: dict[str, dict[str, int]] = {}
    for span in book.spans:
        for queue, owners in span.by_owner.items():
            known = sums.setdefault(queue, {})
            for owner, used in owners.items():
                known[owner] = known.get(owner, 0) + used
    return {
        queue: {
            owner: used * 1_000_000 // whole if whole > 0 else 0
            for owner, used in sorted(owners.items())
        }
        for queue, owners in sorted(sums.items())
    }


def _sum(parts: Iterable[Amounts]) -> Amounts:
    cpu = memory = gpu = 0
    for part in parts:
        cpu, memory, gpu = cpu + part[0], memory + part[1], gpu + part[2]
    return cpu, memory, gpu


def held_now(ledger: Ledger, *, by_owner: bool) -> Held:
    """Return what the book says is held. O(queues); by owner O(pods) besides."""
    queues = ledger.queues
    by_queue = {
        model.name: held for model, held in zip(queues.models, queues.allocated, strict=True)
    }
    total = known_total(ledger.nodes)
    return Held(total, by_queue, _held_by_owner(ledger, gpu=bool(total[2])) if by_owner else {})


def _held_by_owner(ledger: Ledger, *, gpu: bool) -> dict[str, dict[str, int]]:
    """Return GPUs, or in a cluster without any CPU, that each owner holds in each queue."""
    pods, found = ledger.pods, dict[str, dict[str, int]]()
    for group in ledger.groups.values():
        amount = sum(
            pods.charge[pod] if gpu else ledger.shape_of(pod).milli_cpu
            for pod in group.pods()
            if states.IS_ACTIVE[pods.state[pod]]
        )
        if amount:
            owners = found.setdefault(group.model.queue, {})
            owners[group.model.owner] = owners.get(group.model.owner, 0) + amount
    return found
