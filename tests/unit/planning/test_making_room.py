"""How much the victim actions look at: exact counts, so that work stays in proportion."""

import pytest

from bench import cases, shapes
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Bind, Evict, Pipeline
from scheduler_service.model.policy import Policy
from scheduler_service.planning.cycle import plan


def made(snapshot, *actions):
    policy = Policy(actions=actions) if actions else Policy()
    return plan(Ledger.from_snapshot(snapshot), policy, 0)


def count(found, kind):
    return sum(isinstance(operation, kind) for operation in found.operations())


@pytest.mark.parametrize("nodes", [10, 40])
def test_room_for_a_huge_gang_takes_one_try(nodes):
    """A cluster full of one-GPU groups, and a gang whose pods want whole nodes."""
    found = made(shapes.huge_gang(nodes), "reclaim")

    assert count(found, Evict) == nodes // 2 * shapes.GPUS
    assert count(found, Pipeline) == nodes // 2
    assert found.work.simulations == 1
    assert found.work.victims_walked <= nodes * shapes.GPUS


@pytest.mark.parametrize("nodes", [5, 10])
def test_many_alike_reclaimers_take_one_victim_each_and_two_tries_in_all(nodes):
    """As many groups wait in the queue that owns all as run in the one that owns nothing."""
    found = made(shapes.many_reclaims(nodes))

    pods = nodes * shapes.GPUS
    assert count(found, Evict) == count(found, Pipeline) == pods
    assert found.work.victims_walked == pods
    assert found.work.simulations == 2


def test_a_huge_gang_costs_a_few_entries_a_node():
    """Victims that are alike are released at once: nodes are noted, not pods."""
    found = made(shapes.huge_gang(20), "reclaim")

    assert found.work.journal_entries <= 20 * 4


def test_what_can_never_fit_is_not_tried():
    """A gang one GPU too large for the whole cluster."""
    (case,) = (case for case in cases.hard() if case.name.startswith("one_gpu_too_large"))
    found = made(case.make())

    assert found.work.simulations == 0
    assert not found.statements


def test_alike_groups_fail_together():
    """Many equal pods wait and nobody may be evicted for them: one search, not one each."""
    (case,) = (case for case in cases.hard() if case.name.startswith("no_cpu_left"))
    found = plan(Ledger.from_snapshot(case.make()), case.policy, 0)

    assert count(found, Bind) == 0
    assert found.work.simulations <= 200
    assert len(found.waiting) == 1000
    assert all(waiting.reasons for waiting in found.waiting)
