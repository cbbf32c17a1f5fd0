"""Many moves at once are what the general search finds one by one."""

import random

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bench import shapes
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import FractionOfGpu, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import NodeAffinity, PodRequest
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.model.policy import Placement, Policy
from scheduler_service.model.reasons import PlanningFailed
from scheduler_service.planning.board import ShortWayLost
from scheduler_service.planning.cycle import plan
from scheduler_service.planning.moving import Moving
from tests.properties.test_alike import assert_the_short_way_is_the_general_one, with_a_rule
from tests.properties.test_dealing import tree, with_cpu

PROFILE = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
CONSOLIDATE = Policy(actions=("consolidate",), max_consolidation_victims=16)
ACTIONS = (
    ("consolidate",),
    ("consolidate",),
    ("consolidate", "reclaim", "preempt"),
    ("allocate", "consolidate", "reclaim", "preempt"),
)


def cluster(seed):
    """Return a cluster of groups that run and groups that wait, most of them alike, and a policy."""
    draw = random.Random(seed)
    nodes = tuple(
        Node(
            f"node-{draw.randint(0, 99):02}-{number}",
            gpus=draw.choice([2, 4, 8]),
            milli_cpu=draw.choice([4000, 64_000]),
            memory_bytes=1 << 38,
            max_pods=draw.choice([3, 110, 110]),
        )
        for number in range(draw.randint(1, 6))
    )
    queues = tuple(with_cpu(tree(draw), seed))
    leaves = [q.name for q in queues if q.name not in {other.parent for other in queues}]
    world = shapes.World(nodes, queues)
    request = PodRequest(1000, 1 << 30, WholeGpus(draw.choice([1, 1, 1, 2])))
    other = PodRequest(500, 1 << 28, draw.choice([WholeGpus(1), FractionOfGpu(500), None]))
    odd = draw.choice([0, 0, 0, 0.1])
    free = {node.name: min(node.gpus, node.milli_cpu // 1000, node.max_pods) for node in nodes}
    for number in range(draw.randint(1, 18)):
        node, size = draw.choice(nodes).name, request.gpu.count
        if free[node] >= size:
            free[node] -= size
            kind = other if draw.random() < odd and other.gpu == WholeGpus(1) else request
            world.add(f"run-{number}", draw.choice(leaves), request=kind, node=node)
    for number in range(draw.randint(1, 18)):
        kind, members = (request, 1) if draw.random() >= odd else (other, draw.choice([1, 2]))
        world.add(f"wait-{number}", draw.choice(leaves), request=kind, members=members)
    for number, group in enumerate(world.groups):
        changed = {"priority": draw.choice([50, 50, 50, 60]), "created": draw.randint(0, 30)}
        if draw.random() < odd / 3:
            changed["preemptibility"] = draw.choice(list(Preemptibility))
        world.groups[number] = msgspec.structs.replace(group, **changed)
    return world.snapshot(), Policy(
        placement=Placement(draw.choice(["pack", "pack", "spread"])),
        actions=draw.choice(ACTIONS),
        max_consolidation_victims=draw.choice([None, 1, 2, 16]),
        max_simulations=draw.choice([None, None, 5]),
    )


@given(st.integers(0, 1 << 30))
@example(55_316)  # who asks for more than is free in all stands at the head of a queue
@PROFILE
def test_many_moves_are_one_by_one(seed):
    snapshot, policy = cluster(seed)
    assert_the_short_way_is_the_general_one(snapshot, policy)


def test_a_move_costs_a_few_entries():
    """The general search journals three times as much."""
    work = plan(Ledger.from_snapshot(shapes.half_running(50, 200)), CONSOLIDATE, 0).work

    assert work.groups_tried == work.simulations == work.victims_walked == 100
    assert work.nodes_examined <= 50 + 3 * 100
    assert work.journal_entries <= 6 * 100


def test_a_fault_while_moves_are_booked_leaves_them_all_to_the_general_search(monkeypatch):
    """When this happens: a bug. Those that were served already are waited for again, in their order."""
    snapshot = shapes.half_running(4, 12)
    general = plan(Ledger.from_snapshot(with_a_rule(snapshot)), CONSOLIDATE, 0)
    monkeypatch.setattr(Moving, "_statement", None)

    with pytest.warns(ShortWayLost, match="TypeError"):
        made = plan(Ledger.from_snapshot(snapshot), CONSOLIDATE, 0)

    assert len(made.statements) == 6
    assert made.statements == general.statements


def test_a_fault_while_pods_are_moved_leaves_all_to_the_general_search():
    """When this happens: a bug. Nothing of what was begun stays, and each group says so."""
    whole = shapes.half_running(10, 50)
    broken = NodeAffinity("zone", 5)  # type: ignore[arg-type]
    pods = [msgspec.structs.replace(pod, node_affinity=(broken,)) for pod in whole.pods]
    ledger = Ledger.from_snapshot(msgspec.structs.replace(whole, pods=tuple(pods)))
    before = ledger.snapshot(0)

    with pytest.warns(ShortWayLost, match="TypeError"):
        made = plan(ledger, CONSOLIDATE, 0)

    assert not made.statements
    assert {waits.main_reason for waits in made.waiting} == {PlanningFailed("TypeError")}
    assert len(made.waiting) == 25
    assert ledger.snapshot(0) == before
