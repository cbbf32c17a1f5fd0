"""Fair shares to the unit: examples in which one step of the division decides."""

import pytest

from scheduler_service.planning import queue_order
from scheduler_service.planning.fair_share import Claims, divide
from scheduler_service.planning.queue_order import Entitlement

BYTES = 4_000_000_000


def shares(total, wants, weights, *, unit=1, ranks=None, usage=None, k_milli=0):
    count = len(wants)
    claims = Claims(
        quota=[0] * count,
        limit=[None] * count,
        weight=weights,
        request=wants,
        priority=[100] * count,
        rank=ranks or list(range(count)),
        usage_milli=usage,
    )
    found, _ = divide(total, claims, members=range(count), unit=unit, usage_weight_milli=k_milli)
    return found


def test_what_flooring_left_goes_out_to_the_last_unit():
    assert shares(2, [9, 9, 9], [1, 1, 1]) == [1, 1, 0]


def test_a_want_that_is_exactly_its_part_is_met_even_below_a_unit():
    assert shares(1000, [500, 500], [1, 1], unit=1000) == [500, 500]


def test_another_round_follows_only_if_somebody_wanted_less_than_its_part():
    """A wants exactly its part; a further round would give the heavy youngest a unit more."""
    wants, weights = [3, 99, 99, 99, 99], [2, 9, 1, 1, 1]

    assert shares(21, wants, weights, ranks=[0, 9, 1, 2, 3]) == [3, 13, 2, 2, 1]


def test_who_wanted_less_leaves_the_rest_to_the_others():
    assert shares(12, [1, 99, 99], [1, 1, 1]) == [1, 6, 5]


@pytest.mark.parametrize(
    ("weights", "usage", "k_milli", "expected"),
    [
        ([1, 1], [750, 250], 1000, [BYTES // 4, 3 * BYTES // 4]),
        ([3, 1], [500, 500], 500, [7 * BYTES // 8, BYTES // 8]),
        ([1, 1], [1000, 0], 1000, [0, BYTES]),
        ([1, 1], [750, 250], 0, [BYTES // 2, BYTES // 2]),
        ([1, 1], None, 1000, [BYTES // 2, BYTES // 2]),
    ],
)
def test_past_usage_moves_weight_to_whoever_used_less(weights, usage, k_milli, expected):
    assert shares(BYTES, [BYTES, BYTES], weights, usage=usage, k_milli=k_milli) == expected


class TestOrderByEachResource:
    """Which of two siblings is served first, decided by CPU, memory or GPU alone."""

    TOTAL = (1000, 1000, 1000)

    def place(self, resource, *, share=500, held=0, losses=None, name="q"):
        def only(amount):
            return tuple(amount if index == resource else 0 for index in range(3))

        given = Entitlement(only(0), (None, None, None), only(share))
        standing = queue_order.standing(given, self.TOTAL, priority=100, rank=(0, name))
        if losses is None:
            return queue_order.place(standing, only(held), (0, 0, 0))
        return queue_order.place(standing, only(held), (0, 0, 0), only(losses))

    @pytest.mark.parametrize("resource", range(3))
    def test_the_smaller_part_goes_first(self, resource):
        assert self.place(resource, held=100, name="z") < self.place(resource, held=200, name="a")

    @pytest.mark.parametrize("resource", range(3))
    def test_what_a_queue_would_lose_counts_as_gone(self, resource):
        loser = self.place(resource, held=300, losses=200, name="z")

        assert loser < self.place(resource, held=200, losses=0, name="a")
        assert self.place(resource, held=300, losses=50, name="a") > self.place(
            resource, held=200, losses=0, name="z"
        )

    def test_of_equal_parts_the_smaller_entitlement_goes_first_if_it_is_so_in_every_resource(self):
        def tied(cpu, memory, name):
            given = Entitlement((cpu, memory, None), (None, None, None), (0, 0, 0))
            standing = queue_order.standing(given, self.TOTAL, priority=100, rank=(0, name))
            return queue_order.place(standing, (0, 0, 0), (0, 0, 0))

        assert tied(100, 100, "z") < tied(100, 200, "a")
        assert tied(100, 200, "a") < tied(200, 100, "z")
