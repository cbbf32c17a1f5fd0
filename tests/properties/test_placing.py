"""Alike pods of a gang that are placed node by node are where they would be one by one."""

import random

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench import shapes
from scheduler_service.model.gpu import WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import PodRequest, PodState
from scheduler_service.model.policy import Placement, Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare
from scheduler_service.model.topology import Topology, TopologyConstraint
from tests.properties.test_alike import assert_the_short_way_is_the_general_one

PROFILE = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
ROOMY = QueueShare(quota=0, limit=1_000_000, over_quota_weight=1)
"""A limit that is never met: groups below it go the general way."""


def cluster(seed):
    """Return nodes with a few pods that run or leave, gangs of many alike pods, and a policy."""
    draw = random.Random(seed)
    nodes = tuple(
        Node(
            f"node-{draw.randint(0, 99):02}-{number}",
            gpus=draw.choice([4, 8, 8]),
            milli_cpu=draw.choice([5000, 64_000]),
            memory_bytes=draw.choice([4 << 30, 1 << 38, 1 << 38]),
            max_pods=draw.choice([3, 110, 110]),
            labels={"zone": draw.choice("ab"), "rack": draw.choice("cd")},
        )
        for number in range(draw.randint(1, 6))
    )
    queues = (Queue("poor", gpu=ROOMY), Queue("rich", gpu=QueueShare(100_000, 1_000_000, 1)))
    world = shapes.World(nodes, queues)
    world.topologies = (Topology("net", ("zone", "rack")),)
    free = {
        node.name: min(node.gpus, node.milli_cpu // 1000, node.max_pods, node.memory_bytes >> 30)
        for node in nodes
    }
    for number in range(draw.randint(0, 20)):
        node = draw.choice(nodes).name
        if free[node]:
            free[node] -= 1
            world.add(f"run-{number}", "poor", node=node)
            if draw.random() < 0.2:
                leaves = msgspec.structs.replace(world.pods[-1], state=PodState.RELEASING)
                world.pods[-1] = leaves
    for number in range(draw.randint(1, 3)):
        gpu = draw.choice([None, WholeGpus(1), WholeGpus(2)])
        levels = draw.choice([None, None, ("zone", None), ("zone", "rack"), (None, "rack")])
        world.add(
            f"gang-{number}",
            draw.choice(["poor", "rich"]),
            request=PodRequest(draw.choice([0, 1000]), 1 << 30, gpu),
            members=draw.randint(4, 16),
            topology=TopologyConstraint("net", *levels) if levels else None,
        )
    pack, spread = Placement(), Placement("spread", "spread")
    return world.snapshot(), Policy(placement=draw.choice([pack, pack, spread]))


@given(st.integers(0, 1 << 30))
@PROFILE
def test_node_by_node_is_one_by_one(seed):
    snapshot, policy = cluster(seed)
    assert_the_short_way_is_the_general_one(snapshot, policy)
