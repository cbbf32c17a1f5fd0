"""What is dealt to many groups in one go is what the general way gives them one by one."""

import random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench import shapes
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import FractionOfGpu, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import NodeAffinity, PodRequest
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.model.policy import Placement, Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.reasons import PlanningFailed
from scheduler_service.model.resources import QueueShare
from scheduler_service.planning.board import ShortWayLost
from scheduler_service.planning.cycle import plan
from tests.properties.test_alike import assert_the_short_way_is_the_general_one

PROFILE = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
REQUESTS = (
    PodRequest(1000, 1 << 30, WholeGpus(1)),
    PodRequest(500, 1 << 30, WholeGpus(2)),
    PodRequest(2000, 1 << 30, None),
    PodRequest(0, 0, None),
    PodRequest(100, 1 << 28, FractionOfGpu(500)),
)


def tree(draw, parent=None, depth=0):
    """Yield queues of one to three levels in which some numbers matter."""
    for number in range(draw.randint(1, 3)):
        share = QueueShare(
            quota=draw.choice([None, 0, 1000, 5000]),
            limit=draw.choice([None] * 9 + [6000]),
            over_quota_weight=draw.choice([0, 1, 1, 2]),
        )
        name = f"{parent or 'q'}{number}"
        yield Queue(name, parent, draw.choice([100] * 4 + [200]), draw.randint(0, 2), gpu=share)
        if depth < 2 and draw.random() < 0.4:
            yield from tree(draw, name, depth + 1)


def with_cpu(queues, seed):
    """Return the queues, in every third cluster with numbers for CPU that matter as well."""
    draw = random.Random(-seed)
    for queue in queues:
        share = QueueShare(
            quota=draw.choice([None, 0, 2000, 5000]),
            limit=draw.choice([None] * 4 + [6000]),
            over_quota_weight=draw.choice([0, 1, 2]),
        )
        yield msgspec.structs.replace(queue, cpu=share) if seed % 3 == 0 else queue


def cluster(seed):
    """Return an empty cluster, groups that wait (most of them alike), and a policy."""
    draw = random.Random(seed)
    nodes = tuple(
        Node(
            f"node-{draw.randint(0, 99):02}-{number}",
            gpus=draw.choice([0, 2, 8]),
            gpu_memory_mib=40960,
            milli_cpu=draw.choice([6000, 64_000]),
            memory_bytes=draw.choice([4, 256]) << 30,
            max_pods=draw.choice([3, 110, 110]),
        )
        for number in range(draw.randint(1, 8))
    )
    queues = tuple(with_cpu(tree(draw), seed))
    leaves = [q.name for q in queues if q.name not in {other.parent for other in queues}]
    world = shapes.World(nodes, queues)
    requests = REQUESTS[: draw.choice([1, 1, 2, 5])]
    for number in range(draw.randint(1, 50)):
        members = draw.choice([1, 1, 1, 2, 5]) if seed % 2 else 1
        request = draw.choice(requests)
        world.add(f"job-{number}", draw.choice(leaves), request=request, members=members)
        changed = {"priority": draw.choice([50, 50, 60]), "created": draw.randint(0, 9)}
        if draw.random() < 0.05:
            changed["preemptibility"] = Preemptibility.NON_PREEMPTIBLE
        world.groups[-1] = msgspec.structs.replace(world.groups[-1], **changed)
    ways = ["pack", "spread", "least_fragmentation"]
    gpu, cpu = draw.choice(ways), draw.choice(ways)
    return world.snapshot(), Policy(placement=Placement(gpu, cpu), actions=("allocate",))


@given(st.integers(0, 1 << 30))
@PROFILE
def test_dealing_is_one_by_one(seed):
    snapshot, policy = cluster(seed)
    assert_the_short_way_is_the_general_one(snapshot, policy)


def test_a_fault_while_groups_are_dealt_stops_one_group_only():
    """When this happens: a bug. All that was dealt goes back, and the general way starts it."""
    world = shapes.World(shapes.nodes(2), shapes.departments(2, 16))
    for number in range(6):
        world.add(f"job-{number}", f"queue-{number % 2}", members=1 + number % 2)
    whole = world.snapshot()
    pods = list(whole.pods)
    broken = NodeAffinity("zone", 5)  # type: ignore[arg-type]
    bad = next(number for number, pod in enumerate(pods) if pod.group == "bench/job-4")
    pods[bad] = msgspec.structs.replace(pods[bad], node_affinity=(broken,))
    ledger = Ledger.from_snapshot(msgspec.structs.replace(whole, pods=tuple(pods)))
    before = ledger.snapshot(0)

    with pytest.warns(ShortWayLost, match="TypeError"):
        made = plan(ledger, Policy(actions=("allocate",)), 0)

    expected = plan(Ledger.from_snapshot(whole), Policy(actions=("allocate",)), 0)
    groups = [found.group for found in expected.statements]
    assert [found.group for found in made.statements] == [g for g in groups if g != "bench/job-4"]
    assert [(wait.group, wait.main_reason) for wait in made.waiting] == [
        ("bench/job-4", PlanningFailed("TypeError"))
    ]
    assert ledger.snapshot(0) == before
