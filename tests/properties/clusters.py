"""Random clusters from a number: the same number, the same cluster, everywhere and always.

Small on purpose: a few nodes that are nearly full, queues near their bounds, groups of every
shape. Pods that run are put where the reference says there is room, so every cluster could exist.
"""

from dataclasses import dataclass, field, replace
from random import Random

import msgspec
from hypothesis import strategies as st

from scheduler_service.model.gpu import (
    FractionOfGpu,
    GpuMemory,
    GpuRequest,
    GpuShare,
    Mig,
    WholeGpus,
)
from scheduler_service.model.node import Node
from scheduler_service.model.pod import NodeAffinity, Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup, Preemptibility, SubGroup
from scheduler_service.model.policy import Placement, Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.model.topology import Topology, TopologyConstraint
from tests.reference.nodes import LEAVES, STAYS, Ambiguous, Holder, NodeNow, charge, device_need

NOW_MS = 1_000_000_000
GIB = 2**30


@dataclass(frozen=True)
class Cluster:
    """A snapshot and the policy that rules it; `seed` made it."""

    seed: int
    snapshot: Snapshot
    policy: Policy


@dataclass
class _Draft:
    """What is decided so far."""

    random: Random
    nodes: list[Node]
    groups: list[PodGroup] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    holders: dict[str, list[Holder]] = field(default_factory=dict)


def cluster(seed: int, size: int = 4) -> Cluster:
    """Return the cluster of this number; `size` 1 to 8 bounds nodes and groups."""
    random = Random(seed * 16 + size)
    draft = _Draft(random, _nodes(random, size))
    queues = _queues(random, draft.nodes)
    parents = {queue.parent for queue in queues}
    leaves = [queue.name for queue in queues if queue.name not in parents]
    for number in range(random.randint(1, 2 + 2 * size)):
        _add_group(draft, number, random.choice(leaves))
    snapshot = Snapshot(
        now_ms=NOW_MS,
        nodes=tuple(draft.nodes),
        queues=tuple(queues),
        pod_groups=tuple(draft.groups),
        pods=tuple(draft.pods),
    )
    return Cluster(seed, snapshot, _policy(random))


def clusters(max_size: int = 5) -> st.SearchStrategy[Cluster]:
    """Return a strategy of clusters that shrinks to small ones."""
    return st.builds(cluster, st.integers(0, 2**31), st.integers(1, max_size))


def _policy(random: Random) -> Policy:
    pack = ("pack", "pack", "pack", "spread")
    return Policy(
        placement=Placement(random.choice(pack), random.choice(pack), random.choice(pack)),
        stale_gang_grace_ms=random.choice([0, 60_000, None]),
        max_consolidation_victims=random.choice([None, None, 0, 2, 16]),
    )


def _nodes(random: Random, size: int) -> list[Node]:
    has_mig = random.random() < 0.15
    # Pending memory is measured by the smallest GPU; with these it comes out in whole milli-GPU.
    memories: list[int | None] = random.choice(
        [[20_000], [16_000, 80_000], [20_000, None], [40_000, 81_559]]
    )
    found: list[Node] = []
    for number in range(random.randint(1, 1 + size)):
        is_mig = has_mig and random.random() < 0.5
        gpus = random.choice([0, 1, 2, 2, 4, 8])
        found.append(
            Node(
                name=f"n{number}",
                gpus=0 if is_mig else gpus,
                gpu_memory_mib=_memory(random, memories, found) if gpus else None,
                milli_cpu=random.choice([3_000, 8_000, 64_000]),
                memory_bytes=random.choice([8, 32, 256]) * GIB,
                max_pods=random.choice([4, 8, 110, 110]),
                labels={"zone": random.choice("ab")},
                mig={"1g.10gb": 3, "3g.40gb": 1} if is_mig else {},
                mig_strategy="mixed" if is_mig else None,
            )
        )
    return found


def _memory(random: Random, memories: list[int | None], before: list[Node]) -> int | None:
    is_first = not any(node.gpus for node in before)
    return memories[0] if is_first else random.choice(memories)


def semi_cluster(seed: int, size: int = 4) -> Cluster:
    """Return the cluster of this number, in which some groups protect their minimum only."""
    plain, random = cluster(seed, size), Random(seed)
    groups = (
        msgspec.structs.replace(group, preemptibility=Preemptibility.SEMI_PREEMPTIBLE)
        if random.random() < 0.4
        else group
        for group in plain.snapshot.pod_groups
    )
    snapshot = msgspec.structs.replace(plain.snapshot, pod_groups=tuple(groups))
    return replace(plain, snapshot=snapshot)


def level_cluster(seed: int, size: int = 4) -> Cluster:
    """Return the cluster of this number with racks, in which some groups name levels."""
    plain, random = cluster(seed, size), Random(seed)
    nodes = []
    for number, node in enumerate(plain.snapshot.nodes):
        rack = {"rack": f"{node.labels['zone']}-{number % 2}"} if random.random() < 0.9 else {}
        nodes.append(msgspec.structs.replace(node, labels={**node.labels, **rack}))
    snapshot = msgspec.structs.replace(
        plain.snapshot,
        nodes=tuple(nodes),
        topologies=(Topology("net", ("zone", "rack")),),
        pod_groups=tuple(_with_levels(group, random) for group in plain.snapshot.pod_groups),
    )
    return replace(plain, snapshot=snapshot)


def _with_levels(group: PodGroup, random: Random) -> PodGroup:
    return msgspec.structs.replace(group, gang=_named_levels(group.gang, random, 0.35))


def _named_levels(part: SubGroup, random: Random, chance: float) -> SubGroup:
    named: TopologyConstraint | None = None
    if random.random() < chance:
        words = (None, "zone", "rack")
        named = TopologyConstraint("net", random.choice(words), random.choice(words))
    children = tuple(_named_levels(child, random, chance / 3) for child in part.children)
    return msgspec.structs.replace(part, topology=named, children=children)


def _queues(random: Random, nodes: list[Node]) -> list[Queue]:
    gpus = sum(node.gpus for node in nodes)
    cpus = sum(node.milli_cpu for node in nodes)
    names: list[tuple[str, str | None]] = []
    for top in range(random.randint(1, 2)):
        names.append((f"top{top}", None))
        for child in range(random.randint(0, 3)):
            names.append((f"top{top}-q{child}", f"top{top}"))
            if random.random() < 0.15:
                below = f"top{top}-q{child}"
                names += [(f"{below}-x", below), (f"{below}-y", below)]
    return [
        Queue(
            name=name,
            parent=parent,
            priority=random.choice([100, 100, 100, 200]),
            created=number,
            gpu=_share(random, gpus * 1000),
            cpu=_share(random, cpus) if random.random() < 0.2 else QueueShare(),
            preempt_min_runtime_ms=random.choice([None, None, None, 60_000]),
            reclaim_min_runtime_ms=random.choice([None, None, None, 60_000]),
        )
        for number, (name, parent) in enumerate(names)
    ]


def _share(random: Random, all_of_it: int) -> QueueShare:
    part = all_of_it // 4
    quota = random.choice([None, 0, part, 2 * part, 3 * part, 1000])
    limit = random.choice([None, None, None, 2 * part, 3 * part, all_of_it])
    return QueueShare(quota, limit, random.choice([0, 1, 1, 1, 2]))


def _request(random: Random) -> PodRequest:
    gpu: GpuRequest | None = None
    kind = random.random()
    if kind < 0.4:
        gpu = WholeGpus(random.choice([1, 1, 1, 2, 2, 4, 8]))
    elif kind < 0.65:
        milli = random.choice([100, 200, 250, 300, 333, 500, 500, 700, 1000])
        gpu = FractionOfGpu(milli, random.choice([1, 1, 1, 1, 2]))
    elif kind < 0.8:
        gpu = GpuMemory(random.choice([2_000, 8_000, 12_000, 20_000]), random.choice([1, 1, 1, 2]))
    elif kind < 0.85:
        gpu = Mig(((random.choice(["1g.10gb", "3g.40gb"]), 1),))
    milli_cpu = random.choice([100, 500, 1_000, 2_000])
    return PodRequest(milli_cpu, random.choice([1, 1, 2, 4]) * GIB, gpu)


def _gang(random: Random) -> SubGroup:
    """Return a tree: mostly flat, sometimes with parts, k of n, or nested."""
    shape = random.random()
    if shape < 0.75:
        return SubGroup(children=(SubGroup("default", random.choice([1, 1, 1, 2, 2, 3, 4, 0])),))
    parts = tuple(
        SubGroup(f"part{number}", random.choice([1, 1, 2, 0]))
        for number in range(random.randint(2, 3))
    )
    need = random.choice([None, None, 1, 2])
    if shape < 0.92:
        return SubGroup(min_subgroups=need, children=parts)
    inner = SubGroup("inner", 0, need, None, parts)
    return SubGroup(children=(inner, SubGroup("lead", 1)))


def _add_group(draft: _Draft, number: int, queue: str) -> None:
    random = draft.random
    kind = random.random()
    group = PodGroup(
        name=f"g{number}",
        namespace="lab",
        queue=queue,
        gang=_gang(random),
        priority=random.choice([50, 50, 75, 100]),
        preemptibility=Preemptibility.PREEMPTIBLE
        if random.random() < 0.8
        else Preemptibility.NON_PREEMPTIBLE,
        created=number if random.random() < 0.9 else 0,
        stale_since_ms=NOW_MS - 30_000 if random.random() < 0.05 else None,
        started_ms=NOW_MS - random.choice([10_000, 90_000]) if kind < 0.3 else None,
        preemption_delay_ms=random.choice([None, None, None, 60_000]),
        made_ms=NOW_MS - random.choice([10_000, 90_000]),
    )
    draft.groups.append(group)
    request, starts = _request(random), random.random() < 0.55
    affinity = (NodeAffinity("zone", (random.choice("ab"),)),) if random.random() < 0.1 else ()
    for leaf in group.gang.leaves():
        for member in range(max(1, leaf.min_members) + random.choice([0, 0, 0, 1, 2])):
            pod = Pod(
                name=f"g{number}-{leaf.name}-{member}",
                namespace="lab",
                group=group.key,
                sub_group=leaf.name,
                request=request if random.random() < 0.9 else _request(random),
                precedence=random.choice([None, None, None, 1, 2]),
                node_affinity=affinity,
            )
            draft.pods.append(_in_some_state(draft, pod, starts=starts))


def _in_some_state(draft: _Draft, pod: Pod, *, starts: bool) -> Pod:
    """Return the pod waiting, ended, or on a node that has room for it."""
    chance = draft.random.random()
    if not starts:
        return _with(pod, PodState.GATED) if chance < 0.04 else pod
    if chance < 0.05:
        return _with(
            pod, draft.random.choice([PodState.SUCCEEDED, PodState.FAILED, PodState.PENDING])
        )
    node = draft.random.choice(draft.nodes)
    now = NodeNow(node, draft.holders.get(node.name, []))
    try:
        found = now.choose(pod, Placement(shared_gpu=draft.random.choice(["pack", "spread"])))
    except Ambiguous:
        found = None
    if found is None or not found[1]:
        return pod
    devices = tuple(_named(device, draft, node) for device in found[0])
    is_leaving, is_stuck = chance > 0.88, chance > 0.97
    kind = LEAVES if is_leaving and not is_stuck else STAYS
    draft.holders.setdefault(node.name, []).append(Holder(pod, kind, devices))
    return msgspec.structs.replace(
        pod,
        state=PodState.RELEASING if is_leaving else PodState.RUNNING,
        node=node.name,
        devices=_shares(pod, node, devices),
        deleted_ms=NOW_MS - (500_000 if is_stuck else 1_000) if is_leaving else None,
    )


def _with(pod: Pod, state: PodState) -> Pod:
    return msgspec.structs.replace(pod, state=state)


def _named(device: str, draft: _Draft, node: Node) -> str:
    """Return a name of its own for a device that is newly shared."""
    if not device.startswith("new-"):
        return device
    return f"gpu-{len(draft.holders.get(node.name, []))}-{device.rpartition('-')[2]}"


def _shares(pod: Pod, node: Node, devices: tuple[str, ...]) -> tuple[GpuShare, ...]:
    request = pod.request.gpu
    if not devices or not isinstance(request, FractionOfGpu | GpuMemory):
        return ()
    memory = 0 if node.gpu_memory_mib is None else device_need(request, node)
    milli = int(charge(pod, node)) // request.devices
    return tuple(GpuShare(device, milli, memory) for device in devices)
