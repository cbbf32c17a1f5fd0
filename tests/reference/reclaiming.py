"""What a queue may take from others: kai-core 3.8 and 3.9, kai-changes 3.5, min run times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import islice, permutations

from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.queue import Queue
from tests.reference.nodes import Ambiguous
from tests.reference.shares import KINDS, Amount, Books, minus, plus, within

Loss = tuple[str, Amount, Amount]
"""The leaf queue that loses, what, and what of it besides MIG slices."""
ORDERS = 24


def quotas(queue: Queue) -> list[int | None]:
    """Return its quota of each resource; None is unlimited."""
    return [queue.share_of(kind).quota for kind in KINDS]


def may_ask(books: Books, queue: str, asked: Amount, *, firm: bool) -> bool:
    """3.8: whether it stays within its fair share and, where firm, its quota."""
    if not within(plus(books.allocated[queue], asked), books.fair[queue]):
        return False
    return not firm or within(plus(books.firm[queue], asked), quotas(books.queues[queue]))


def as_they_meet(books: Books, own: str, other: str) -> tuple[str, str]:
    """Return the two queues where their paths part from the top."""
    mine, theirs = books.path(own)[::-1], books.path(other)[::-1]
    pair = mine[0].name, theirs[0].name
    for a, b in zip(mine, theirs, strict=False):
        pair = a.name, b.name
        if a.name != b.name:
            break
    return pair


def could_give(books: Books, own: str, other: str, asked: Amount) -> bool:
    """kai-changes 3.5: whether a queue is asked at all."""
    mine, theirs = as_they_meet(books, own, other)
    have = books.allocated[theirs]
    if not within(plus(books.allocated[mine], asked), quotas(books.queues[mine])):
        return not within(have, books.allowed(theirs))
    quota = quotas(books.queues[theirs])
    pairs = [(have[i], q) for i, q in enumerate(quota) if asked[i] > 0 and q is not None]
    if any(amount > q for amount, q in pairs):
        return True
    return not any(amount < q for amount, q in pairs)


def may_take(books: Books, own: str, asked: Amount, losses: Sequence[Loss], *, firm: bool) -> bool:
    """3.9. The order of the queues is free: `Ambiguous` where it decides."""
    leaves = list(dict.fromkeys(queue for queue, _, _ in losses))
    answers = {
        _may_take(books, own, asked, [loss for q in order for loss in losses if loss[0] == q], firm)
        for order in islice(permutations(leaves), ORDERS)
    }
    if len(answers) > 1:
        raise Ambiguous
    return answers.pop()


def _may_take(
    books: Books,
    own: str,
    asked: Amount,
    losses: Iterable[Loss],
    firm: bool,
) -> bool:
    left = dict(books.allocated)
    touched: dict[str, set[int]] = {}
    for queue, loss, plain in losses:
        mine, theirs = as_they_meet(books, own, queue)
        is_over = not within(left[theirs], books.allowed(theirs))
        with_ask = plus(books.allocated[mine], asked)
        is_due = within(with_ask, quotas(books.queues[mine]))
        if not is_over and not (is_due and not within(left[theirs], quotas(books.queues[theirs]))):
            return False
        for q in books.path(queue):
            left[q.name] = minus(left[q.name], loss)
            touched.setdefault(q.name, set()).update(i for i in range(3) if plain[i] > 0)
    return _stays_behind(books, own, asked, left, touched) and (
        not firm or all(within(plus(books.firm[q.name], asked), quotas(q)) for q in books.path(own))
    )


def _stays_behind(
    books: Books, own: str, asked: Amount, left: dict[str, Amount], touched: dict[str, set[int]]
) -> bool:
    """Whether at no level it gets as full as a sibling that it takes from, once above its share."""
    its = {i for i in range(3) if asked[i] > 0}
    for queue in books.path(own):
        with_ask = plus(left[queue.name], asked)
        for other in books.queues.values():
            if other.parent != queue.parent or other.name == queue.name:
                continue
            if other.name not in touched:
                continue
            for i in touched[other.name] | its:
                mine = _fill(with_ask[i], books.fair[queue.name][i])
                theirs = _fill(left[other.name][i], books.fair[other.name][i])
                if mine > 1 and books.fair[other.name][i] > 0 and mine >= theirs:
                    return False
    return True


def _fill(have: Fraction, fair: Fraction) -> float | Fraction:
    if fair == 0:
        return float("inf") if have > 0 else Fraction(0)
    return have / fair


def safe_from_own(books: Books, group: PodGroup) -> int:
    """Return the run time for which its own queue can not take it: the nearest value above."""
    for queue in books.path(group.queue):
        if queue.preempt_min_runtime_ms is not None:
            return queue.preempt_min_runtime_ms
    return 0


def safe_from_others(books: Books, own: str, group: PodGroup) -> int:
    """Return the run time for which another queue can not take it.

    Asked first: the first queue on its path that is not on the other's; then those above. With
    different top queues only its top queue counts.
    """
    path, others = books.path(group.queue), {q.name for q in books.path(own)}
    apart = [q for q in path if q.name not in others]
    first = apart[-1] if apart else path[0]
    for queue in books.path(first.name):
        if queue.reclaim_min_runtime_ms is not None:
            return queue.reclaim_min_runtime_ms
    return 0
