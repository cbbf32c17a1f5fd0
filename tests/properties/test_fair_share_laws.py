"""Laws of the division of an amount between sibling queues, for all inputs."""

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.planning.fair_share import Claims, QueueTree, divide, fair_shares

UNIT = st.sampled_from([1, 1000])
AMOUNT = st.integers(0, 40_000)


@dataclass(frozen=True)
class Sibling:
    quota: int | None
    limit: int | None
    weight: int
    request: int
    priority: int
    usage_milli: int

    @property
    def usable(self):
        return self.request if self.limit is None else min(self.request, self.limit)


SIBLING = st.builds(
    Sibling,
    quota=st.none() | AMOUNT,
    limit=st.none() | AMOUNT,
    weight=st.integers(0, 5),
    request=AMOUNT,
    priority=st.sampled_from([50, 100]),
    usage_milli=st.integers(0, 1000),
)
SIBLINGS = st.lists(SIBLING, min_size=1, max_size=7)


def claims_of(siblings):
    return Claims(
        quota=[s.quota for s in siblings],
        limit=[s.limit for s in siblings],
        weight=[s.weight for s in siblings],
        request=[s.request for s in siblings],
        priority=[s.priority for s in siblings],
        rank=list(range(len(siblings))),
        usage_milli=[s.usage_milli for s in siblings],
    )


def share_out(total, siblings, unit, k_milli=0):
    members = range(len(siblings))
    claims = claims_of(siblings)
    return divide(total, claims, members=members, unit=unit, usage_weight_milli=k_milli)


def own_part(total, sibling):
    return min(total if sibling.quota is None else sibling.quota, sibling.usable)


@given(AMOUNT, SIBLINGS, UNIT, st.sampled_from([0, 1000]))
def test_every_queue_gets_its_own_quota_and_less_than_a_unit_above_its_wants(
    total, siblings, unit, k_milli
):
    shares, _ = share_out(total, siblings, unit, k_milli)

    for share, sibling in zip(shares, siblings, strict=True):
        assert own_part(total, sibling) <= share < sibling.usable + unit


@given(AMOUNT, SIBLINGS, UNIT, st.sampled_from([0, 1000]))
def test_the_sum_exceeds_the_total_only_by_quotas_that_do(total, siblings, unit, k_milli):
    shares, remaining = share_out(total, siblings, unit, k_milli)

    quotas = sum(own_part(total, sibling) for sibling in siblings)
    assert sum(shares) + remaining == max(total, quotas)
    assert remaining >= 0


@given(AMOUNT, SIBLINGS, UNIT)
def test_nothing_stays_while_a_queue_with_weight_is_hungry(total, siblings, unit):
    shares, remaining = share_out(total, siblings, unit)

    hungry = [s for share, s in zip(shares, siblings, strict=True) if s.weight and share < s.usable]
    assert remaining == 0 or not hungry


@given(AMOUNT, SIBLINGS, UNIT)
def test_a_queue_without_weight_gets_its_own_quota_only(total, siblings, unit):
    shares, _ = share_out(total, siblings, unit)

    for share, sibling in zip(shares, siblings, strict=True):
        if sibling.weight == 0:
            assert share == own_part(total, sibling)


@given(AMOUNT, SIBLINGS, UNIT)
def test_a_lower_priority_gets_surplus_only_after_the_higher_is_full(total, siblings, unit):
    shares, _ = share_out(total, siblings, unit)

    pairs = list(zip(shares, siblings, strict=True))
    high_is_hungry = any(
        s.priority == 100 and s.weight and share <= s.usable - unit for share, s in pairs
    )
    if high_is_hungry:
        assert all(
            share - own_part(total, s) < unit or share == own_part(total, s) + unit
            for share, s in pairs
            if s.priority == 50
        )


@given(AMOUNT, SIBLINGS, UNIT, st.randoms(use_true_random=False))
def test_the_order_of_the_input_plays_no_part(total, siblings, unit, random):
    claims = claims_of(siblings)
    members = list(range(len(siblings)))
    expected, rest = divide(total, claims, members=members, unit=unit)
    mixed = members.copy()
    random.shuffle(mixed)

    shares, mixed_rest = divide(total, claims, members=mixed, unit=unit)

    assert dict(zip(mixed, shares, strict=True)) == dict(zip(members, expected, strict=True))
    assert mixed_rest == rest


@given(st.integers(0, 10**6), st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_insatiable_queues_get_their_weights_to_the_unit(total, weights):
    siblings = [Sibling(0, None, weight, 10**9, 100, 0) for weight in weights]

    shares, _ = share_out(total, siblings, 1)

    for share, weight in zip(shares, weights, strict=True):
        assert abs(share - Fraction(total * weight, sum(weights))) < 1


@given(AMOUNT, st.integers(0, 1000), st.integers(0, 1000))
def test_of_two_equal_queues_the_one_that_used_less_gets_no_less(total, used, less):
    used, less = max(used, less), min(used, less)
    siblings = [Sibling(0, None, 1, 10**9, 100, less), Sibling(0, None, 1, 10**9, 100, used)]

    shares, _ = share_out(total, siblings, 1, 1000)

    assert shares[0] >= shares[1]


@given(AMOUNT, st.lists(SIBLING, min_size=1, max_size=9), st.data())
def test_children_divide_the_fair_share_of_their_parent(total, queues, data):
    parents = [
        data.draw(st.none() | st.integers(0, row - 1)) if row else None
        for row in range(len(queues))
    ]
    claims = claims_of(queues)

    (shares,) = fair_shares([total], QueueTree(parents), [claims], units=[1])

    for parent in {*parents}:
        members = [row for row, above in enumerate(parents) if above == parent]
        amount = total if parent is None else shares[parent]
        assert divide(amount, claims, members=members)[0] == [shares[row] for row in members]


def test_a_queue_that_is_its_own_ancestor_gets_nothing():
    claims = claims_of([Sibling(5, None, 1, 5, 100, 0)] * 3)

    assert fair_shares([9], QueueTree([None, 2, 1]), [claims], units=[1]) == [[5, 0, 0]]
