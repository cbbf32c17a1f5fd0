"""Which of two sibling queues is served first: one case a rule, in the order of the rules."""

import pytest

from scheduler_service.planning import queue_order
from scheduler_service.planning.queue_order import Entitlement

TOTAL = (100_000, 100_000, 10_000)
NOTHING = (0, 0, 0)


def queue(*, rank=(0, "q"), priority=100, quota=0, limit=None, share=4000, held=0):
    """A queue that matters in GPUs only; CPU and memory are unlimited and unused."""
    given = Entitlement((None, None, quota), (None, None, limit), (0, 0, share))
    return queue_order.standing(given, TOTAL, priority=priority, rank=rank), (0, 0, held)


def place(queue, asked=NOTHING, losses=NOTHING):
    return queue_order.place(*queue, asked, losses)


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        pytest.param(
            queue(quota=2000, held=0, rank=(1, "b")),
            queue(quota=2000, held=2000, priority=200),
            1000,
            id="a starved queue goes before one of higher priority",
        ),
        pytest.param(
            queue(held=2000, priority=200, rank=(1, "b")),
            queue(held=0),
            1000,
            id="priority goes before the smaller share",
        ),
        pytest.param(
            queue(held=3000, rank=(1, "b")),
            queue(share=0, limit=0),
            1000,
            id="a queue that may hold nothing goes last",
        ),
        pytest.param(
            queue(held=1000, rank=(1, "b")),
            queue(held=2000),
            1000,
            id="the smaller dominant share goes first",
        ),
        pytest.param(
            queue(rank=(1, "b"), share=2000),
            queue(share=4000),
            0,
            id="of equal shares the smaller entitlement goes first",
        ),
        pytest.param(queue(rank=(0, "z")), queue(rank=(1, "a")), 1000, id="then the older queue"),
        pytest.param(queue(rank=(0, "a")), queue(rank=(0, "b")), 1000, id="then the smaller name"),
    ],
)
def test_rules_decide_in_their_order(first, second, asked):
    places = [place(queue, (0, 0, asked)) for queue in (first, second)]

    assert places[0] < places[1]
    assert not places[1] < places[0]


def of_share(share, held, priority, rank):
    given = Entitlement((0, 0, 0), (None, None, None), (share,) * 3)
    return queue_order.standing(given, TOTAL, priority=priority, rank=rank), (held,) * 3


def test_a_queue_above_its_share_in_every_resource_goes_last():
    over, within = of_share(1, 2, 200, (0, "a")), of_share(9, 9, 100, (1, "b"))

    assert place(within, (1, 1, 1)) < place(over, (1, 1, 1))


def test_losses_lower_the_share_that_counts_in_victim_order():
    heavy, light = queue(held=3000), queue(held=2000, rank=(1, "b"))

    assert place(heavy, losses=(0, 0, 2000)) < place(light)


def test_a_byte_more_of_a_large_memory_is_more():
    huge = 2**52
    given = Entitlement((None, None, None), (None, None, None), NOTHING)

    def holds(amount, rank):
        standing = queue_order.standing(given, (1, huge, 1), priority=100, rank=rank)
        return queue_order.place(standing, (0, amount, 0), NOTHING)

    assert holds(huge - 2, (1, "b")) < holds(huge - 1, (0, "a"))
