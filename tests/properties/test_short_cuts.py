"""All short cuts of a cycle off, and the plan is the same: each pod is placed, each victim tried one by one.

The single short cuts have tests of their own; here is the sum of them, on clusters of every kind.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from random import Random

import msgspec
import pytest

from scheduler_service.model.gpu import WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.plan import Plan
from scheduler_service.model.pod import Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.planning import dealing, making_room, moving, plain, room, scenario, settling
from scheduler_service.planning.actions import allocate, consolidate
from tests.properties.clusters import Cluster, cluster
from tests.properties.exactness import planned
from tests.properties.large_ways import differs_for_many
from tests.properties.reserving import reserving_cluster
from tests.properties.rich import rich_cluster


@contextmanager
def one_by_one() -> Iterator[None]:
    """Plan the general way only: no dealing, no swaps, no sweeps, nothing skipped for being alike."""
    number = count()

    def solve(search: scenario.Search) -> bool:
        search._source = iter(search.victims)
        return search._grow(len(search.chunk.members())) or search._together()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scenario.Search, "solve", solve)
        patch.setattr(making_room.MakingRoom, "follow", lambda *_: None)
        patch.setattr(making_room.MakingRoom, "_look", lambda *_: next(number))
        patch.setattr(settling.Settling, "_is_plain_order", lambda *_: False)
        patch.setattr(settling.Settling, "_skip_alike", lambda *_: None)
        patch.setattr(room.Room, "might_fit", lambda *_: True)
        patch.setattr(moving.Moving, "run", lambda *_: 0)
        patch.setattr(dealing.Dealing, "_run", lambda *_: None)
        patch.setattr(plain, "bind", lambda *_: False)
        patch.setattr(allocate, "_fail_alike", lambda *_: None)
        patch.setattr(consolidate, "_is_hopeless", lambda *_: False)
        yield


def alike_cluster(seed: int, size: int) -> Cluster:
    """Return lone pods of one size or two, some running and some waiting, in the queues of a cluster."""
    plain_one, random = cluster(seed, size), Random(seed)
    nodes = tuple(
        Node(f"n{n}", gpus=random.choice([2, 4]), milli_cpu=10**6, memory_bytes=2**50)
        for n in range(random.randint(2, 4))
    )
    parents = {queue.parent for queue in plain_one.snapshot.queues}
    leaves = [queue.name for queue in plain_one.snapshot.queues if queue.name not in parents]
    free = {node.name: node.gpus for node in nodes}
    sizes = random.choice([[1], [1], [1, 2]])
    groups, pods = [], []
    for number in range(random.randint(6, 16)):
        gpus = random.choice(sizes)
        group = PodGroup(
            name=f"g{number:02d}",
            namespace="lab",
            queue=random.choice(leaves),
            priority=random.choice([50, 50, 75]),
            created=number,
        )
        request = PodRequest(100, 2**20, WholeGpus(gpus))
        pod = Pod(f"g{number:02d}-0", "lab", group.key, request=request)
        places = [name for name, left in free.items() if left >= gpus]
        if places and random.random() < 0.6:
            node = random.choice(places)
            free[node] -= gpus
            pod = msgspec.structs.replace(pod, state=PodState.RUNNING, node=node)
        groups.append(group)
        pods.append(pod)
    snapshot = msgspec.structs.replace(
        plain_one.snapshot, nodes=nodes, pod_groups=tuple(groups), pods=tuple(pods)
    )
    return replace(plain_one, snapshot=snapshot)


def decided(made: Plan) -> list[tuple[str, str, str]]:
    return sorted((type(op).__name__, op.pod, op.node) for op in made.operations())


def differs_one_by_one(made_up: Cluster) -> bool:
    quick = planned(made_up.snapshot, made_up.policy)
    with one_by_one():
        slow = planned(made_up.snapshot, made_up.policy)
    return decided(quick) != decided(slow)


@pytest.mark.parametrize("kind", [cluster, rich_cluster, reserving_cluster, alike_cluster])
def test_without_short_cuts_the_plan_is_the_same(kind: Callable[[int, int], Cluster]):
    assert [seed for seed in range(60) if differs_one_by_one(kind(seed, 1 + seed % 5))] == []


@pytest.mark.parametrize("kind", [cluster, rich_cluster, reserving_cluster, alike_cluster])
def test_ways_for_many_nodes_and_pods_decide_as_those_for_few(
    kind: Callable[[int, int], Cluster],
):
    assert [seed for seed in range(60) if differs_for_many(kind(seed, 1 + seed % 5))] == []
