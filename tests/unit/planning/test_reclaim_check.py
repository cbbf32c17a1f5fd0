"""What a queue may take from its siblings: the rules of one check, one resource at a time."""

import pytest

from scheduler_service.planning.queue_order import Entitlement
from scheduler_service.planning.reclaim_check import (
    Book,
    Holding,
    Loss,
    Request,
    is_asked,
    is_fair,
    may_try,
)

NONE = (0, 0, 0)
NO_BOUND = (None, None, None)


def holding(*, share=NONE, held=NONE, quota=NONE):
    return Holding(Entitlement(quota, NO_BOUND, share), held)


def gpus(milli):
    return (0, 0, milli)


def fair(mine, theirs, loss, *, asked=(0, 0, 1000), involved=None, is_preemptible=True, firm=NONE):
    """Say whether `mine` may take one loss from its sibling `theirs`."""
    book = Book({"mine": mine, "theirs": theirs}, {"mine": None, "theirs": None}, {"mine": firm})
    loss = Loss("theirs", loss, involved)
    return is_fair(book, Request("mine", asked, is_preemptible), [loss])


ENTITLED = holding(quota=NO_BOUND)
"""A queue that stays within its quota, whatever it asks for."""


class TestWhoIsAsked:
    def test_beyond_the_own_quota_whoever_is_above_the_share(self):
        mine = holding(share=gpus(2000), quota=gpus(999))

        assert is_asked(mine, holding(share=gpus(1000), held=gpus(1001)), gpus(1000))
        assert not is_asked(mine, holding(share=gpus(1000), held=gpus(1000)), gpus(1000))

    def test_within_the_own_quota_whoever_is_above_the_quota(self):
        asked = (1000, 0, 1000)
        below = holding(held=(500, 0, 1000), quota=(1000, 0, 1000))
        above = holding(held=(500, 0, 1001), quota=(1000, 0, 1000))

        assert not is_asked(ENTITLED, below, asked)
        assert is_asked(ENTITLED, above, asked)

    def test_exactly_at_the_quota_may_be_asked(self):
        assert is_asked(ENTITLED, holding(held=gpus(1000), quota=gpus(1000)), gpus(1000))

    @pytest.mark.parametrize("more", [1, 1000])
    def test_only_resources_that_are_asked_for_count(self, more):
        below_in_cpu = holding(held=(500, 0, 500), quota=(1000, 0, 0))

        assert not is_asked(ENTITLED, below_in_cpu, (more, 0, 0))
        assert is_asked(ENTITLED, below_in_cpu, (0, 0, more))


class TestAfterwards:
    def test_nobody_ends_more_saturated_than_whom_it_took_from(self):
        mine = holding(share=gpus(1000), held=gpus(1000))
        theirs = holding(share=gpus(1000), held=gpus(3000))

        assert not fair(mine, theirs, gpus(1000))
        assert fair(mine, holding(share=gpus(1000), held=gpus(3001)), gpus(1000))

    def test_within_the_own_share_saturation_is_not_compared(self):
        mine = holding(share=gpus(2000), held=gpus(1000))
        theirs = holding(share=gpus(1000), held=gpus(1001))

        assert fair(mine, theirs, gpus(1000))

    def test_whoever_is_due_nothing_may_lose_everything(self):
        mine = holding(share=gpus(1000), held=gpus(1000))

        assert fair(mine, holding(held=gpus(1000)), gpus(1000))

    def test_the_smallest_share_counts(self):
        mine = holding(share=(1, 0, 0), held=(1, 0, 0))
        theirs = holding(share=(1, 0, 0), held=(2, 0, 0))

        assert not fair(mine, theirs, (1, 0, 0), asked=(1, 0, 0))

    def test_what_is_neither_asked_for_nor_lost_plays_no_part(self):
        mine = holding(share=(0, 4, 1000), held=(0, 8, 0))
        theirs = holding(share=(0, 4, 1000), held=(0, 2, 2000))

        assert fair(mine, theirs, gpus(1000))

    def test_what_is_lost_is_compared_even_if_nobody_asked(self):
        mine = holding(share=(0, 4, 1000), held=(0, 8, 0))
        theirs = holding(share=(0, 4, 1000), held=(0, 2, 2000))

        assert not fair(mine, theirs, (0, 1, 1000))
        assert fair(mine, theirs, (0, 1, 1000), involved=gpus(1000))

    def test_what_is_asked_for_is_compared_even_if_nobody_loses_it(self):
        mine = holding(share=(0, 4, 1000), held=(0, 8, 0))
        theirs = holding(share=(0, 4, 1000), held=(0, 2, 2000))

        assert not fair(mine, theirs, gpus(1000), asked=(0, 1, 1000))

    def test_work_that_may_not_be_preempted_stays_within_the_quota(self):
        mine = holding(share=gpus(4000), quota=gpus(2000))
        theirs = holding(share=gpus(1000), held=gpus(4000))

        assert fair(mine, theirs, gpus(1000), is_preemptible=False, firm=gpus(1000))
        assert not fair(mine, theirs, gpus(1000), is_preemptible=False, firm=gpus(1001))
        assert fair(mine, theirs, gpus(1000), firm=gpus(1001))


def test_whoever_would_leave_its_share_may_not_even_try():
    queue = holding(share=gpus(2000), held=gpus(1000), quota=gpus(500))

    assert may_try(queue, NONE, Request("mine", gpus(1000), is_preemptible=True))
    assert not may_try(queue, NONE, Request("mine", gpus(1001), is_preemptible=True))
    assert not may_try(queue, gpus(1), Request("mine", gpus(500), is_preemptible=False))
