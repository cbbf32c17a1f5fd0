"""Reclaim check: may this queue take what these queues would lose?

What belongs here: who may try to reclaim, which queues are asked at all, and whether a whole
list of losses is fair. What never does: which pods are chosen (`victims`) and whether the room
is enough (`scenario`). Comparisons are exact; amounts are tuples with one integer a resource.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler_service.planning.queue_order import ZERO, Amounts, Bounds, Entitlement


class Holding(NamedTuple):
    """A queue at one moment: what it may count on, and what it holds."""

    given: Entitlement
    allocated: Amounts

    @property
    def quota(self) -> Bounds:
        """What it is guaranteed."""
        return self.given.quota

    @property
    def fair_share(self) -> Amounts:
        """What it may count on in this cycle."""
        return self.given.fair_share


class Loss(NamedTuple):
    """What one victim queue would lose in one piece: a gang, or one surplus pod.

    `earlier`: what it loses right before, in further pieces. Each piece is judged before it is
    taken, and what is left only shrinks, so the last one decides for all of them.
    """

    queue: str
    amounts: Amounts
    involved: Amounts | None = None
    """All amounts that say which resources are meant, where they differ (MIG is no GPU here)."""
    earlier: Amounts = ZERO


@dataclass(frozen=True, slots=True)
class Book:
    """The queues before anything is taken."""

    holdings: Mapping[str, Holding]
    parent: Mapping[str, str | None]
    non_preemptible: Mapping[str, Amounts]

    def path(self, queue: str) -> list[str]:
        """Return the queues from `queue` up to its top."""
        path = [queue]
        while (above := self.parent[path[-1]]) is not None:
            path.append(above)
        return path

    def pair(self, reclaimer: str, victim: str) -> tuple[str, str]:
        """Return the two queues as they meet: where their paths from the top part."""
        mine, theirs = reclaimer, victim
        pairs = zip(reversed(self.path(reclaimer)), reversed(self.path(victim)), strict=False)
        for mine, theirs in pairs:
            if mine != theirs:
                break
        return mine, theirs


class Request(NamedTuple):
    """The work that wants room: its queue, what it asks for, whether it may be preempted."""

    queue: str
    amounts: Amounts
    is_preemptible: bool


def may_try(queue: Holding, non_preemptible: Amounts, request: Request) -> bool:
    """Say whether the work would leave its own queue within its fair share (and quota)."""
    if not _fits(_sum(queue.allocated, request.amounts), queue.fair_share):
        return False
    return request.is_preemptible or _fits(_sum(non_preemptible, request.amounts), queue.quota)


def keeps_fair_share(victim: Holding, left: Sequence[int]) -> bool:
    """Say whether a queue that still holds `left` is above what it may hold, in any resource."""
    return not _fits(left, victim.given.allocatable())


def guarantees_quota(
    reclaimer: Holding, victim: Holding, *, asked: Amounts, left: Sequence[int]
) -> bool:
    """Say whether the reclaimer stays within its quota while the victim is above its own."""
    return _fits(_sum(reclaimer.allocated, asked), reclaimer.quota) and not _fits(
        left, victim.quota
    )


def is_asked(reclaimer: Holding, victim: Holding, asked: Amounts) -> bool:
    """Say whether the victim queue could give in any plan (queues as they meet)."""
    if not _fits(_sum(reclaimer.allocated, asked), reclaimer.quota):
        return keeps_fair_share(victim, victim.allocated)
    is_below = False
    for more, held, quota in zip(asked, victim.allocated, victim.quota, strict=True):
        if more <= 0 or quota is None:
            continue
        if held > quota:
            return True
        is_below |= held < quota
    return not is_below


def is_fair(book: Book, request: Request, losses: Sequence[Loss]) -> bool:
    """Say whether all of `losses`, taken in this order, may be taken for `request`."""
    taking = _Taking(book, request)
    return all(taking.take(loss) for loss in losses) and taking.keeps_order()


@dataclass(slots=True)
class _Taking:
    """The losses taken so far."""

    book: Book
    request: Request
    left: dict[str, list[int]] = field(default_factory=dict)
    _met: dict[str, tuple[str, str, list[str]]] = field(default_factory=dict)
    involved: dict[str, list[bool]] = field(default_factory=dict)

    def take(self, loss: Loss) -> bool:
        """Take one loss if either strategy, judged before the loss, allows it."""
        met = self._met.get(loss.queue)
        if met is None:
            pair = self.book.pair(self.request.queue, loss.queue)
            met = self._met[loss.queue] = (*pair, self.book.path(loss.queue))
        mine, theirs, path = met
        reclaimer, victim = self.book.holdings[mine], self.book.holdings[theirs]
        held = self.left.get(theirs, victim.allocated)
        left = [amount - gone for amount, gone in zip(held, loss.earlier, strict=True)]
        if not keeps_fair_share(victim, left) and not guarantees_quota(
            reclaimer, victim, asked=self.request.amounts, left=left
        ):
            return False
        lost = _sum(loss.amounts, loss.earlier)
        meant = lost if loss.involved is None else loss.involved
        for name in path:
            rest = self.left.setdefault(name, list(self.book.holdings[name].allocated))
            flags = self.involved.setdefault(name, [False] * len(rest))
            for resource, amount in enumerate(lost):
                rest[resource] -= amount
                flags[resource] |= meant[resource] > 0
        return True

    def keeps_order(self) -> bool:
        """Say whether no level of the reclaimer ends more saturated than a sibling that lost."""
        for name in self.book.path(self.request.queue):
            if not self.request.is_preemptible and not _fits(
                _sum(self.book.non_preemptible[name], self.request.amounts),
                self.book.holdings[name].quota,
            ):
                return False
            if any(self._overtakes(name, sibling) for sibling in self._losers_beside(name)):
                return False
        return True

    def _losers_beside(self, name: str) -> list[str]:
        above = self.book.parent[name]
        return [other for other in self.left if other != name and self.book.parent[other] == above]

    def _overtakes(self, name: str, sibling: str) -> bool:
        held = self.left.get(name, self.book.holdings[name].allocated)
        own_share = self.book.holdings[name].fair_share
        their_share = self.book.holdings[sibling].fair_share
        for resource, asked in enumerate(self.request.amounts):
            if not asked and not self.involved[sibling][resource]:
                continue
            mine, share, other = held[resource] + asked, own_share[resource], their_share[resource]
            theirs = self.left[sibling][resource]
            if mine > share and other > 0 and mine * other >= theirs * share:
                return True
        return False


def _fits(amounts: Sequence[int], bounds: Sequence[int | None]) -> bool:
    return all(
        bound is None or amount <= bound for amount, bound in zip(amounts, bounds, strict=True)
    )


def _sum(left: Sequence[int], right: Sequence[int]) -> list[int]:
    return [mine + more for mine, more in zip(left, right, strict=True)]
