"""The clusters that are measured: KAI's own benchmark shapes, ours at scale, and hard ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from scheduler_service.model.gpu import FractionOfGpu, GpuRequest, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import NodeAffinity, Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup, Preemptibility, flat_gang
from scheduler_service.model.policy import ACTIONS, Action, Placement, Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.model.topology import Topology, TopologyConstraint

GPUS = 8
ANY = QueueShare()
Expected = dict[str, int]


@dataclass(frozen=True)
class Case:
    """One measured situation: how to make it, which actions run, what has to come out."""

    name: str
    nodes: int
    pods: int
    make: Callable[[], Snapshot]
    actions: tuple[Action, ...] = ACTIONS
    expected: Expected = field(default_factory=dict)
    placement: Placement = field(default_factory=Placement)

    @property
    def policy(self) -> Policy:
        """Return KAI's settings with the actions and the placement of this case."""
        return Policy(self.placement, actions=self.actions, max_consolidation_victims=16)


def nodes(count: int, *, labels: Callable[[int], dict[str, str]] | None = None) -> tuple[Node, ...]:
    """Return eight-GPU nodes with CPU and memory to spare."""
    return tuple(
        Node(
            f"node-{number}",
            gpus=GPUS,
            gpu_memory_mib=81920,
            milli_cpu=128_000,
            memory_bytes=1 << 40,
            labels=labels(number) if labels else {},
        )
        for number in range(count)
    )


def departments(count: int, gpus: int) -> tuple[Queue, ...]:
    """Return `count` queues with an equal part of the GPUs each, in two departments."""
    quota = gpus * 1000 // count
    half = QueueShare(quota=gpus * 500, over_quota_weight=1)
    tops = tuple(Queue(f"dept-{name}", gpu=half, cpu=ANY, memory=ANY) for name in "ab")
    return tops + tuple(
        Queue(
            f"queue-{number}",
            parent="dept-a" if number % 2 == 0 else "dept-b",
            created=number,
            gpu=QueueShare(quota=quota, over_quota_weight=1),
        )
        for number in range(count)
    )


ONE_GPU = PodRequest(1000, 1 << 30, WholeGpus(1))


@dataclass
class World:
    """Collects groups and pods of a snapshot."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    groups: list[PodGroup] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    topologies: tuple[Topology, ...] = ()

    def add(
        self,
        name: str,
        queue: str,
        *,
        request: PodRequest = ONE_GPU,
        members: int = 1,
        node: str | None = None,
        topology: TopologyConstraint | None = None,
    ) -> None:
        """Add a group whose pods all wait, or all run on one node."""
        group = PodGroup(
            name=name,
            namespace="bench",
            queue=queue,
            gang=_GANGS.setdefault((members, topology), flat_gang(members, topology)),
            created=len(self.groups),
        )
        self.groups.append(group)
        state = PodState.RUNNING if node else PodState.PENDING
        self.pods.extend(
            Pod(
                f"{name}-{number}",
                "bench",
                f"bench/{name}",
                state=state,
                request=request,
                node=node,
            )
            for number in range(members)
        )

    def snapshot(self) -> Snapshot:
        """Return it all, frozen."""
        return Snapshot(
            nodes=self.nodes,
            queues=self.queues,
            pod_groups=tuple(self.groups),
            pods=tuple(self.pods),
            topologies=self.topologies,
        )


_GANGS: dict[tuple[int, TopologyConstraint | None], object] = {}


def pending(count: int, pods: int, queues: int = 4, members: int = 1) -> Snapshot:
    """Return pods (or gangs) that all wait, dealt to the queues in turn."""
    world = World(nodes(count), departments(queues, count * GPUS))
    for number in range(pods):
        world.add(f"job-{number}", f"queue-{number % queues}", members=members)
    return world.snapshot()


def half_running(count: int, pods: int) -> Snapshot:
    """Return pods of which the even ones run on node i mod n and the odd ones wait."""
    world = World(nodes(count), departments(4, count * GPUS))
    for number in range(pods):
        node = f"node-{number % count}" if number % 2 == 0 else None
        world.add(f"job-{number}", f"queue-{number % 4}", node=node)
    return world.snapshot()


def all_running(count: int, pods: int) -> Snapshot:
    """Return pods that all run on node i mod n."""
    world = World(nodes(count), departments(4, count * GPUS))
    for number in range(pods):
        world.add(f"job-{number}", f"queue-{number % 4}", node=f"node-{number % count}")
    return world.snapshot()


def poor_and_rich(gpus: int, *, poor_weight: int) -> tuple[Queue, ...]:
    """Return a queue without quota and one whose quota is everything."""
    return (
        Queue("poor", gpu=QueueShare(quota=0, over_quota_weight=poor_weight), created=0),
        Queue("rich", gpu=QueueShare(quota=gpus * 1000, over_quota_weight=1), created=1),
    )


def huge_gang(count: int, members: int = 0) -> Snapshot:
    """Return a cluster full of one-GPU groups, and a gang of whole nodes that wants half of them back, or so many."""
    world = World(nodes(count), poor_and_rich(count * GPUS, poor_weight=1))
    for number in range(count * GPUS):
        world.add(f"job-{number}", "poor", node=f"node-{number % count}")
    whole = PodRequest(1000, 1 << 30, WholeGpus(GPUS))
    world.add("huge", "rich", request=whole, members=members or max(1, count // 2))
    return world.snapshot()


def many_reclaims(count: int) -> Snapshot:
    """Return a cluster full of one-GPU groups that all have to go for as many that wait."""
    world = World(nodes(count), poor_and_rich(count * GPUS, poor_weight=0))
    for number in range(count * GPUS):
        world.add(f"job-{number}", "poor", node=f"node-{number % count}")
    for number in range(count * GPUS):
        world.add(f"wait-{number}", "rich")
    return world.snapshot()


def fractions(count: int, pods: int) -> Snapshot:
    """Return halves of GPUs that all wait."""
    world = World(nodes(count), departments(4, count * GPUS))
    sizes: tuple[GpuRequest, ...] = (FractionOfGpu(500), FractionOfGpu(250), FractionOfGpu(300))
    requests = [PodRequest(500, 1 << 28, size) for size in sizes]
    for number in range(pods):
        world.add(f"job-{number}", f"queue-{number % 4}", request=requests[number % 3])
    return world.snapshot()


def topology_gang(count: int, members: int) -> Snapshot:
    """Return a gang that has to stay inside one block of a three-level topology."""

    def labels(number: int) -> dict[str, str]:
        return {
            "zone": f"z{number // 2000}",
            "block": f"b{number // 200}",
            "rack": f"r{number // 20}",
        }

    world = World(nodes(count, labels=labels), departments(4, count * GPUS))
    world.topologies = (Topology("net", ("zone", "block", "rack")),)
    constraint = TopologyConstraint("net", "block", "rack")
    world.add("gang", "queue-0", members=members, topology=constraint)
    return world.snapshot()


def all_different(count: int, pods: int) -> Snapshot:
    """Return waiting pods no two of which ask for the same."""
    world = World(nodes(count), departments(4, count * GPUS))
    for number in range(pods):
        request = PodRequest(1000 + number, 1 << 30, WholeGpus(1))
        world.add(f"job-{number}", f"queue-{number % 4}", request=request)
    return world.snapshot()


def no_cpu_left(count: int, pods: int) -> Snapshot:
    """Return nodes whose GPUs are free and whose CPU is gone, and pods that wait in vain."""
    world = World(nodes(count), departments(4, count * GPUS))
    hog = PodRequest(127_500, 1 << 30, None)
    for number in range(count):
        world.add(f"hog-{number}", f"queue-{number % 4}", request=hog, node=f"node-{number}")
    for number in range(pods):
        world.add(f"job-{number}", f"queue-{number % 4}")
    return world.snapshot()


def nearly_full(count: int, gangs: int) -> Snapshot:
    """Return nodes with one free GPU each, held by work that may not go, and pods that need two."""
    world = World(nodes(count), departments(4, count * GPUS))
    seven = PodRequest(1000, 1 << 30, WholeGpus(GPUS - 1))
    for number in range(count):
        queue, name = f"queue-{number % 4}", f"firm-{number}"
        world.add(name, queue, request=seven, node=f"node-{number}")
        kept = Preemptibility.NON_PREEMPTIBLE
        world.groups[-1] = msgspec.structs.replace(world.groups[-1], preemptibility=kept)
    two = PodRequest(1000, 1 << 30, WholeGpus(2))
    for number in range(gangs):
        world.add(f"gang-{number}", f"queue-{number % 4}", request=two, members=4)
    return world.snapshot()


def node_classes(count: int, pods: int, classes: int = 50) -> Snapshot:
    """Return nodes of many classes, and pods each of which may run on one class only."""

    def labels(number: int) -> dict[str, str]:
        return {"class": f"c{number % classes}"}

    world = World(nodes(count, labels=labels), departments(4, count * GPUS))
    for number in range(pods):
        world.add(f"job-{number}", f"queue-{number % 4}")
        term = NodeAffinity("class", (f"c{number % classes}",))
        world.pods[-1] = msgspec.structs.replace(world.pods[-1], node_affinity=(term,))
    return world.snapshot()


def one_gpu_too_large(count: int) -> Snapshot:
    """Return an empty cluster and a gang that needs one GPU more than there are."""
    world = World(nodes(count), departments(4, count * GPUS))
    world.add("gang", "queue-0", members=count * GPUS + 1)
    return world.snapshot()


def running_and_new(count: int, running: int, new: int) -> Snapshot:
    """Return a busy cluster to which a few pods come."""
    world = World(nodes(count), departments(4, count * GPUS))
    for number in range(running):
        world.add(f"job-{number}", f"queue-{number % 4}", node=f"node-{number % count}")
    for number in range(new):
        world.add(f"new-{number}", f"queue-{number % 4}")
    return world.snapshot()
