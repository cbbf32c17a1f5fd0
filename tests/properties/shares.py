"""Fair shares and queue order on numbered random siblings, beside the reference's."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare
from scheduler_service.planning import fair_share, queue_order
from scheduler_service.planning.fair_share import Claims
from scheduler_service.planning.queue_order import Entitlement
from tests.reference import shares as reference

NAMES = ("a", "b", "c", "d", "e")


def division_differs(seed: int) -> bool:
    """Say whether the planner divides an amount otherwise than the reference."""
    random = Random(seed)
    unit = random.choice([1, 1000])
    step = 1 if unit == 1 else random.choice([100, 500, 1000])
    names = NAMES[: random.randint(1, 5)]
    bounds = [None, 0, *range(1, 9)]
    shares = {
        name: QueueShare(
            _times(random.choice(bounds), step),
            _times(random.choice([None, *bounds]), step),
            random.choice([0, 1, 1, 2, 3, 7]),
        )
        for name in names
    }
    wants = {name: random.randint(0, 12) * step for name in names}
    priority = {name: random.choice([50, 100]) for name in names}
    created = {name: random.randint(0, 2) for name in names}
    total = random.randint(0, 20) * step
    queues = [Queue(n, priority=priority[n], created=created[n]) for n in names]
    exact = {name: Fraction(want) for name, want in wants.items()}
    expected = reference.divide(Fraction(total), shares, exact, queues, unit)
    oldest_first = sorted(names, key=lambda name: (created[name], name))
    claims = Claims(
        quota=[shares[name].quota for name in names],
        limit=[shares[name].limit for name in names],
        weight=[shares[name].over_quota_weight for name in names],
        request=[wants[name] for name in names],
        priority=[priority[name] for name in names],
        rank=[oldest_first.index(name) for name in names],
    )
    found, _ = fair_share.divide(total, claims, members=range(len(names)), unit=unit)
    return found != [expected[name] for name in names]


def _times(bound: int | None, step: int) -> int | None:
    return None if bound is None else bound * step


def order_differs(seed: int) -> bool:
    """Say whether the planner serves another of two siblings first than the reference."""
    random = Random(seed)
    amounts = [0, 0, 1, 2, 3, 4]

    def three() -> tuple[int, int, int]:
        kept = random.choice(((0, 1, 2), (0,), (1,), (2,)))
        found = [random.choice(amounts) * 1000 if index in kept else 0 for index in range(3)]
        return found[0], found[1], found[2]

    total = (8000, 8000, 8000)
    queues, fair, held, asks = {}, {}, {}, {}
    for name in ("a", "b"):
        shares = [
            QueueShare(_times(random.choice([None, *amounts]), 1000), _limit(random)) for _ in "123"
        ]
        age, priority = random.choice([0, 1]), random.choice([100, 100, 200])
        queues[name] = Queue(name, None, priority, age, *shares)
        fair[name], held[name], asks[name] = three(), three(), three()
    books = reference.Books(queues, _exact(total), {n: _exact(fair[n]) for n in fair})
    books.allocated = {name: _exact(amount) for name, amount in held.items()}
    expected = books.is_before("a", "b", {n: _exact(asks[n]) for n in asks})
    places = {}
    for name, queue in queues.items():
        each = [queue.share_of(kind) for kind in reference.KINDS]
        given = Entitlement(
            tuple(share.quota for share in each), tuple(share.limit for share in each), fair[name]
        )
        rank = (queue.created, name)
        standing = queue_order.standing(given, total, priority=queue.priority, rank=rank)
        places[name] = queue_order.place(standing, held[name], asks[name])
    return (places["a"] < places["b"]) != expected


def _limit(random: Random) -> int | None:
    return random.choice([None, None, None, 0, 2000, 4000])


def _exact(amounts: tuple[int, int, int]) -> reference.Amount:
    return Fraction(amounts[0]), Fraction(amounts[1]), Fraction(amounts[2])
