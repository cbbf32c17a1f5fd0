"""What is decided for many alike groups at once is what the general way decides one by one."""

import random

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench import shapes
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import WholeGpus
from scheduler_service.model.pod import Pod, PodAffinity, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.reasons import AffinityUnmet, NoMatchingNode
from scheduler_service.model.resources import QueueShare
from scheduler_service.planning.board import Board
from scheduler_service.planning.cycle import ACTION_TABLE, plan
from tests.properties.book import image

PROFILE = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def queue(draw, name, created, parent=None):
    """Return a queue in which some numbers matter."""
    everything = draw.choice([8000, 16_000, None])
    share = QueueShare(
        quota=draw.choice([0, 0, 2000, 5000, everything]),
        limit=draw.choice([None, None, None, 9000]),
        over_quota_weight=draw.choice([0, 1, 1, 2]),
    )
    return Queue(name, parent=parent, gpu=share, created=created)


def cluster(seed):
    """Return a full cluster of alike one-GPU groups in few queues, and groups that wait."""
    draw = random.Random(seed)
    count = draw.randint(1, 4)
    tops = [queue(draw, name, 0) for name in draw.choice([(), ("top",), ("left", "right")])]
    leaves = [
        queue(draw, f"queue-{number}", number, draw.choice(tops).name if tops else None)
        for number in range(draw.randint(2, 3))
    ]
    world = shapes.World(shapes.nodes(count), (*tops, *leaves))
    waits, holders = draw.choice(leaves).name, draw.sample(leaves, draw.choice([1, 1, 2]))
    if draw.random() < 0.6:  # a queue that owns little holds all, another one wants it back
        owned = draw.choice([3000, 5000, 9000, count * shapes.GPUS * 1000])
        poor = QueueShare(quota=draw.choice([0, 0, 2000]), over_quota_weight=draw.choice([0, 1]))
        rich = QueueShare(quota=owned, over_quota_weight=draw.choice([0, 1]))
        tops, waits = [], "rich"
        leaves = [Queue("poor", gpu=poor), Queue("rich", created=1, gpu=rich)]
        holders = leaves[: draw.choice([1, 1, 2])]
    for number in range(count * shapes.GPUS - draw.choice([0, 0, 0, 1])):
        holder = draw.choice(holders).name
        world.add(f"run-{number:02}", holder, node=f"node-{number % count}")
    size, members = draw.choice([(1, 1)] * 5 + [(1, 3), (2, 1), (2, 2), (8, 1), (8, 2)])
    request = shapes.ONE_GPU if size == 1 else PodRequest(1000, 1 << 30, WholeGpus(size))
    for number in range(draw.randint(1, count * shapes.GPUS + 2)):
        world.add(f"wait-{number:02}", waits, request=request, members=members)
    for number, group in enumerate(world.groups):
        if draw.random() < 0.05:
            changed = msgspec.structs.replace(group, priority=draw.choice([40, 60]))
            world.groups[number] = changed
    return world.snapshot()


def with_a_rule(snapshot):
    """Return the same with a pod that has a rule about others and may not start: no short cuts."""
    rule = PodAffinity({"nobody": "has this"}, "node")
    group = PodGroup(name="gated", namespace="z", queue=snapshot.pod_groups[0].queue)
    pod = Pod("gated", "z", "z/gated", state=PodState.GATED, pod_affinity=(rule,))
    return msgspec.structs.replace(
        snapshot, pod_groups=(*snapshot.pod_groups, group), pods=(*snapshot.pods, pod)
    )


SUSPECTED = AffinityUnmet(anti=True, topology_key="node")
BY_RULES = NoMatchingNode("its rules leave none of those with room")


def told(made):
    """Return what each group that waits is told, but the one that only turns short cuts off.

    Where resources are not it, rules about other pods are suspected as soon as somebody has one: that one has.
    """
    return {
        item.group: tuple(
            (action, tuple(BY_RULES if reason == SUSPECTED else reason for reason in reasons))
            for action, reasons in item.by_action
        )
        for item in made.waiting
        if item.group != "z/gated"
    }


def sums(snapshot, policy):
    """Return what queues hold and wait for once all actions have run, before the plan is taken back."""
    ledger = Ledger.from_snapshot(snapshot)
    board = Board.of(ledger, policy, 0)
    for action in policy.actions:
        ACTION_TABLE[action](board)
    return ledger.queues.allocated, ledger.queues.non_preemptible, ledger.queues.waiting


def assert_the_short_way_is_the_general_one(snapshot, policy):
    """Plan and reasons are those of the general search, the book is as before, and asked again it is the same."""
    ledger = Ledger.from_snapshot(snapshot)
    before = image(ledger)

    found = plan(ledger, policy, 0)

    general = plan(Ledger.from_snapshot(with_a_rule(snapshot)), policy, 0)
    assert found.statements == general.statements
    assert told(found) == told(general)
    assert sums(snapshot, policy) == sums(with_a_rule(snapshot), policy)
    assert image(ledger) == before
    assert plan(ledger, policy, 0) == found


@given(st.integers(0, 1 << 30))
@PROFILE
def test_many_at_once_is_one_by_one(seed):
    assert_the_short_way_is_the_general_one(cluster(seed), Policy(max_consolidation_victims=8))
