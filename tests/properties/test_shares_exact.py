"""The planner's shares and queue order are the reference's, on many random siblings."""

import pytest

from tests.properties.shares import division_differs, order_differs

SEEDS = 400


@pytest.mark.parametrize("differs", [division_differs, order_differs])
def test_the_planner_agrees_with_the_reference(differs):
    assert [seed for seed in range(SEEDS) if differs(seed)] == []
