"""How much is looked at, in exact counts: the scaling that no slow machine can hide."""

import pytest

from bench import shapes
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.policy import Policy
from scheduler_service.planning.cycle import plan

ALLOCATE = Policy(actions=("allocate",))
FULL = Policy(max_consolidation_victims=16)


def work_of(snapshot, policy=ALLOCATE):
    return plan(Ledger.from_snapshot(snapshot), policy, 0).work


@pytest.mark.parametrize(("nodes", "pods"), [(100, 100), (1000, 1000), (4000, 1000)])
def test_alike_pods_cost_one_look_at_each_node_and_one_more_each(nodes, pods):
    work = work_of(shapes.pending(nodes, pods))

    assert work.nodes_examined <= nodes + pods
    assert work.journal_entries <= 4 * pods
    assert work.groups_tried == pods


def test_ten_times_the_nodes_are_ten_times_the_first_look_only():
    small, large = (work_of(shapes.pending(nodes, 500)) for nodes in (400, 4000))

    assert large.nodes_examined - small.nodes_examined <= 4000 - 400
    assert large.journal_entries == small.journal_entries


def test_three_kinds_of_shares_cost_three_looks_at_each_node():
    work = work_of(shapes.fractions(500, 1000))

    assert work.nodes_examined <= 3 * 500 + 2 * 1000
    assert work.journal_entries <= 8 * 1000


def test_a_gang_of_a_topology_looks_at_its_domain_only():
    small, large = (work_of(shapes.topology_gang(nodes, 400)) for nodes in (400, 4000))

    assert large.nodes_examined <= small.nodes_examined + 200
    assert large.nodes_examined <= 200 + 400
    assert large.journal_entries == small.journal_entries <= 3 * 400


def test_a_busy_cluster_costs_what_is_new():
    work = work_of(shapes.running_and_new(400, 2800, 100), FULL)

    assert work.nodes_examined <= 400 + 100
    assert work.simulations == 0
    assert work.journal_entries <= 4 * 100


def test_nothing_waiting_is_nothing_looked_at():
    work = work_of(shapes.all_running(500, 4000), FULL)

    assert (work.nodes_examined, work.groups_tried, work.journal_entries) == (0, 0, 0)


def test_what_can_never_fit_is_found_out_without_a_look_at_the_nodes():
    work = work_of(shapes.one_gpu_too_large(500), FULL)

    assert work.simulations == 0
    assert work.nodes_examined <= 500


def test_a_queue_that_takes_back_its_own_tries_one_swap_for_all():
    small, large = (work_of(shapes.many_reclaims(nodes), FULL) for nodes in (10, 40))

    assert small.simulations == large.simulations == 2
    assert small.journal_entries == large.journal_entries
    assert large.nodes_examined <= 2 * 40
    assert large.victims_walked == 320
