"""Nodes with GPUs of different size: each holds what it has room for, and nobody waits who would fit.

Judged by a count over the pods, GPU by GPU; whole GPUs are named here, as a node agent names them.
"""

from collections import defaultdict
from collections.abc import Iterator
from random import Random

import pytest

from scheduler_service.ledger import events
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, WholeGpus
from scheduler_service.model.node import GpuDevice, Node
from scheduler_service.model.plan import Bind
from scheduler_service.model.pod import Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.policy import Placement, Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.cycle import plan

SIZES = (16_000, 40_000, 40_000, 80_000, 81_559)
CYCLES = 6
Held = dict[tuple[str, str], int]
"""MiB in use by node and device; a GPU that somebody has whole is full."""


def node(name: str, random: Random) -> Node:
    sizes = [random.choice(SIZES) for _ in range(random.randint(1, 4))]
    devices = tuple(
        GpuDevice(f"{name}-gpu{index}", index, memory_mib=size) for index, size in enumerate(sizes)
    )
    return Node(
        name,
        gpus=len(devices),
        gpu_memory_mib=min(sizes),
        milli_cpu=10**6,
        memory_bytes=2**50,
        devices=devices,
    )


def request(random: Random) -> GpuRequest:
    kind = random.random()
    if kind < 0.3:
        return WholeGpus(random.choice([1, 1, 2]))
    devices = random.choice([1, 1, 1, 2])
    if kind < 0.65:
        return FractionOfGpu(random.choice([100, 250, 333, 500, 900]), devices)
    return GpuMemory(random.choice([4_000, 16_000, 39_999, 60_000, 80_500]), devices)


def newcomer(number: int, random: Random) -> tuple[PodGroup, Pod]:
    group = PodGroup(name=f"g{number:03}", namespace="lab", queue="q", created=number)
    return group, Pod(
        f"p{number:03}", "lab", group.key, request=PodRequest(100, 2**20, request(random))
    )


def held(snapshot: Snapshot) -> Held:
    """Return what is in use, and fail if a GPU is more than full."""
    size = {(n.name, d.id): d.memory_mib or 0 for n in snapshot.nodes for d in n.devices}
    used: Held = defaultdict(int)
    for pod in snapshot.pods:
        for share in pod.devices:
            key = (str(pod.node), share.device)
            is_whole = isinstance(pod.request.gpu, WholeGpus)
            used[key] += size[key] if is_whole else share.memory_mib
    assert not [key for key, mib in used.items() if mib > size[key]]
    return used


def fits(pod: Pod, snapshot: Snapshot, used: Held) -> bool:
    return any(fits_on(pod, node, used) for node in snapshot.nodes)


def fits_on(pod: Pod, node: Node, used: Held) -> bool:
    free = [(d.memory_mib or 0, used.get((node.name, d.id), 0)) for d in node.devices]
    match pod.request.gpu:
        case WholeGpus(count=count):
            return sum(not taken for _, taken in free) >= count
        case FractionOfGpu(milli=milli, devices=devices):
            return sum(milli * size // 1000 <= size - taken for size, taken in free) >= devices
        case GpuMemory(mib=mib, devices=devices):
            return sum(mib <= size - taken for size, taken in free) >= devices
    return False


def life(seed: int) -> Iterator[Snapshot]:
    """Yield the cluster after each plan, some pods ending in between."""
    random = Random(seed)
    nodes = tuple(node(f"n{number}", random) for number in range(random.randint(1, 3)))
    ledger = Ledger.from_snapshot(Snapshot(nodes=nodes, queues=(Queue("q"),)))
    pack = random.choice(["pack", "spread"])
    policy = Policy(placement=Placement(shared_gpu=pack), actions=("allocate",))
    for cycle in range(CYCLES):
        for number in range(random.randint(1, 6)):
            group, pod = newcomer(cycle * 10 + number, random)
            ledger.apply_all([events.PodGroupAdded(group), events.PodAdded(pod)])
        made = plan(ledger, policy, cycle)
        assert plan(Ledger.from_snapshot(ledger.snapshot(cycle)), policy, cycle) == made
        for statement in made.statements:
            ledger.apply(events.Assumed(statement, cycle))
            for operation in statement.operations:
                if isinstance(operation, Bind):
                    told = (PodState.RUNNING, operation.node, operation.devices)
                    ledger.apply(events.PodStateChanged(operation.pod, *told))
        yield ledger.snapshot(cycle)
        for pod in ledger.snapshot(cycle).pods:
            if pod.state is PodState.RUNNING and random.random() < 0.4:
                ledger.apply(events.PodStateChanged(pod.key, PodState.SUCCEEDED))


@pytest.mark.parametrize("seed", range(120))
def test_each_gpu_holds_what_it_has_and_nobody_waits_who_would_fit(seed):
    """When this happens: a workstation with an old and a new GPU, or one GPU replaced in a node."""
    for snapshot in life(seed):
        used = held(snapshot)
        waiting = [pod for pod in snapshot.pods if pod.state is PodState.PENDING]
        assert not [pod.name for pod in waiting if fits(pod, snapshot, used)]


def test_parts_are_recorded_in_the_memory_of_their_own_gpu():
    """When this happens: the library that limits a process to its part is told how much that is."""
    sizes = [81_920] * 7 + [81_559]
    devices = tuple(GpuDevice(f"g{i}", i, memory_mib=size) for i, size in enumerate(sizes))
    one = Node(
        "n0", gpus=8, gpu_memory_mib=81_559, milli_cpu=10**6, memory_bytes=2**50, devices=devices
    )
    group = PodGroup(name="g", namespace="lab", queue="q")
    gpu = FractionOfGpu(200, devices=8)
    pod = Pod("p", "lab", group.key, request=PodRequest(gpu=gpu))
    ledger = Ledger.from_snapshot(
        Snapshot(nodes=(one,), queues=(Queue("q"),), pod_groups=(group,), pods=(pod,))
    )

    (bind,) = plan(ledger, Policy(), 0).operations()

    assert isinstance(bind, Bind)
    told = {share.device: share.memory_mib for share in bind.devices}
    assert told == {f"g{i}": 16_384 for i in range(7)} | {"g7": 16_311}
