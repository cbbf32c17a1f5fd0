"""What queues get and who is served first: FORMAT.md part 2 and kai-core sections 3.1 to 3.7.

Amounts are exact: (cpu, memory, gpu) as Fractions of milli-CPU, bytes and milli-GPU.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from math import floor, inf

from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare, Resource

Amount = tuple[Fraction, Fraction, Fraction]
KINDS: tuple[Resource, Resource, Resource] = ("cpu", "memory", "gpu")
UNIT = {"cpu": 1, "memory": 1, "gpu": 1000}
ZERO: Amount = (Fraction(0), Fraction(0), Fraction(0))


def plus(left: Amount, right: Amount) -> Amount:
    """Return the sum."""
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def minus(left: Amount, right: Amount) -> Amount:
    """Return the difference."""
    return left[0] - right[0], left[1] - right[1], left[2] - right[2]


def within(left: Amount, right: Sequence[float | Fraction | None]) -> bool:
    """Whether it is no more in any resource; None is unlimited."""
    return all(b is None or a <= b for a, b in zip(left, right, strict=True))


def divide(
    total: Fraction,
    shares: Mapping[str, QueueShare],
    wants: Mapping[str, Fraction],
    queues: list[Queue],
    unit: int,
) -> dict[str, Fraction]:
    """Return the fair share of one resource of each of these siblings."""
    usable = {
        q.name: wants[q.name] if shares[q.name].limit is None
        else min(wants[q.name], Fraction(shares[q.name].limit or 0))
        for q in queues
    }  # fmt: skip
    fair = {}
    for q in queues:
        quota = shares[q.name].quota
        fair[q.name] = min(total if quota is None else Fraction(quota), usable[q.name])
    left = total - sum(fair.values())
    lost: dict[int, dict[str, Fraction]] = {}
    by_priority = sorted(queues, key=lambda q: -q.priority)
    for priority, level in groupby(by_priority, key=lambda q: q.priority):
        members = list(level)
        left, lost[priority] = _rounds(left, members, shares, usable, fair, unit)
    created = {q.name: (q.created, q.name) for q in queues}
    for priority in sorted(lost, reverse=True):
        for name in sorted(lost[priority], key=lambda n: (-lost[priority][n], created[n])):
            give = min(Fraction(unit), max(left, Fraction(0)))
            fair[name] += give
            left -= give
    return fair


def _rounds(left, members, shares, usable, fair, unit):
    """Deal rounds among siblings of one priority; returns the rest and what flooring took."""
    lost: dict[str, Fraction] = {}
    again = True
    while again and left > 0:
        hungry = [q.name for q in members if usable[q.name] > fair[q.name]]
        hungry = [name for name in hungry if shares[name].over_quota_weight > 0]
        weights = sum(shares[name].over_quota_weight for name in hungry)
        pot, again = left, False
        for name in hungry:
            part = pot * shares[name].over_quota_weight / weights
            want = usable[name] - fair[name]
            give = want if want <= part else Fraction(floor(part / unit) * unit)
            if want <= part:
                lost.pop(name, None)
            elif give < part:
                lost[name] = part - give
            again = again or want < part
            fair[name] += give
            left -= give
    return left, lost


def fair_shares(
    total: Amount, queues: tuple[Queue, ...], wants: Mapping[str, Amount]
) -> dict[str, Amount]:
    """Return every queue's fair share: children divide what their parent has."""
    found: dict[str, list[Fraction]] = {q.name: [Fraction(0)] * 3 for q in queues}

    def level(parent: str | None, amounts: Amount) -> None:
        children = [q for q in queues if q.parent == parent]
        for index, kind in enumerate(KINDS):
            shares = {q.name: q.share_of(kind) for q in children}
            asked = {q.name: wants[q.name][index] for q in children}
            fair = divide(amounts[index], shares, asked, children, UNIT[kind])
            for name, amount in fair.items():
                found[name][index] = amount
        for child in children:
            level(child.name, tuple(found[child.name]))

    level(None, total)
    return {name: (a, b, c) for name, (a, b, c) in found.items()}


class Books:
    """The queues at one moment: what each has, what it is due, what the cluster has."""

    def __init__(
        self, queues: Mapping[str, Queue], total: Amount, fair: Mapping[str, Amount]
    ) -> None:
        self.queues = queues
        self.total = total
        self.fair = fair
        self.allocated: dict[str, Amount] = dict.fromkeys(queues, ZERO)
        self.firm: dict[str, Amount] = dict.fromkeys(queues, ZERO)

    def path(self, name: str) -> list[Queue]:
        """Return the queue and its ancestors, bottom up."""
        found = []
        at: str | None = name
        while at is not None:
            found.append(self.queues[at])
            at = self.queues[at].parent
        return found

    def charge(self, queue: str, amount: Amount, *, firm: bool) -> None:
        """Book what a pod has, all the way up."""
        for q in self.path(queue):
            self.allocated[q.name] = plus(self.allocated[q.name], amount)
            if firm:
                self.firm[q.name] = plus(self.firm[q.name], amount)

    def may_have(self, queue: str, amount: Amount, *, firm: bool) -> bool:
        """Whether so much more stays within every limit and, where firm, every quota."""
        for q in self.path(queue):
            for index, kind in enumerate(KINDS):
                if amount[index] == 0:
                    continue
                share = q.share_of(kind)
                if (
                    share.limit is not None
                    and self.allocated[q.name][index] + amount[index] > share.limit
                ):
                    return False
                if (
                    firm
                    and share.quota is not None
                    and self.firm[q.name][index] + amount[index] > share.quota
                ):
                    return False
        return True

    def is_before(
        self, left: str, right: str, asks: Mapping[str, Amount], losses: Mapping[str, Amount] = {}
    ) -> bool:
        """Whether the left of two siblings is served first, each with what its next group asks.

        Where it is about who has to give, each with what it would have lost then, and no ask.
        """
        ranks = [self._rank(q, asks.get(q, ZERO), losses.get(q, ZERO)) for q in (left, right)]
        if ranks[0] != ranks[1]:
            return ranks[0] < ranks[1]
        a, b = self.allowed(left), self.allowed(right)
        if a != b and all(x <= y for x, y in zip(a, b, strict=True)):
            return True
        if a != b and all(x >= y for x, y in zip(a, b, strict=True)):
            return False
        ages = [(self.queues[name].created, name) for name in (left, right)]
        return ages[0] < ages[1]

    def _rank(self, name: str, ask: Amount, loss: Amount) -> tuple[object, ...]:
        queue, have, fair = self.queues[name], self.allocated[name], self.fair[name]
        with_ask = plus(have, ask)
        is_over = all(fair[i] < have[i] for i in range(3))
        quotas = [queue.share_of(kind).quota for kind in KINDS]
        is_starved = all(q is None or with_ask[i] <= q for i, q in enumerate(quotas))
        allowed = self.allowed(name)
        violates = any(allowed[i] == 0 and with_ask[i] > 0 for i in range(3))
        return (
            is_over, not is_starved, -queue.priority, violates,
            self.dominant(name, minus(with_ask, loss)), self.dominant(name, have),
        )  # fmt: skip

    def allowed(self, name: str) -> tuple[float | Fraction, ...]:
        """Return what a queue may have: its quota or fair share, within its limit."""
        found: list[float | Fraction] = []
        for index, kind in enumerate(KINDS):
            share = self.queues[name].share_of(kind)
            limit = inf if share.limit is None else share.limit
            due = inf if share.quota is None else max(Fraction(share.quota), self.fair[name][index])
            found.append(min(due, limit))
        return tuple(found)

    def dominant(self, name: str, have: Amount) -> Fraction:
        """Return the largest part of what it may have that it has."""
        largest = Fraction(0)
        for index, base in enumerate(self.allowed(name)):
            base = self.total[index] if base == inf else Fraction(base)  # noqa: PLW2901 - the rule's own step
            part = have[index] / base if base else have[index] * 1000 / UNIT[KINDS[index]]
            largest = max(largest, part)
        return largest
