"""From the format's parts to the model, and the checks that no single field can make.

What belongs here: names, units and cross-references. What never does: reading files (`reader`).
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from msgspec import UNSET, UnsetType

from scheduler_service.errors import ConfigurationError
from scheduler_service.model.claim import ClaimAllocation, ResourceClaim, ResourceSlice
from scheduler_service.model.gpu import (
    FractionOfGpu,
    GpuMemory,
    GpuRequest,
    GpuShare,
    Mig,
    WholeGpus,
)
from scheduler_service.model.node import GpuDevice, Node, Taint
from scheduler_service.model.pod import (
    HOLDS_RESOURCES,
    NodeAffinity,
    Pod,
    PodAffinity,
    PodRequest,
    PodState,
    Toleration,
)
from scheduler_service.model.pod_group import PodGroup, Preemptibility, SubGroup
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare
from scheduler_service.model.topology import Topology, TopologyConstraint
from scheduler_service.simulate import format as parts

PREEMPTIBILITY: Final[Mapping[bool | str, Preemptibility]] = {
    True: Preemptibility.PREEMPTIBLE,
    False: Preemptibility.NON_PREEMPTIBLE,
    "semi": Preemptibility.SEMI_PREEMPTIBLE,
}
T = TypeVar("T")


def milliseconds(seconds: parts.Seconds) -> int:
    """Return seconds as whole milliseconds."""
    return round(seconds * 1000)


def optional_ms(seconds: parts.Seconds | None) -> int | None:
    """Return seconds as whole milliseconds; None stays None."""
    return None if seconds is None else milliseconds(seconds)


def ago(now_ms: int, seconds: parts.Seconds | None) -> int | None:
    """Return the moment so many seconds before `now_ms`; None stays None."""
    return None if seconds is None else now_ms - milliseconds(seconds)


def node(name: str, part: parts.NodePart) -> Node:
    """Return the node."""
    return Node(
        name=name,
        gpus=part.gpus,
        gpu_memory_mib=part.gpu_memory_mib,
        milli_cpu=part.cpu_milli,
        memory_bytes=part.memory_bytes,
        max_pods=part.max_pods,
        labels=part.labels,
        mig=part.mig,
        mig_strategy=part.mig_strategy,
        devices=tuple(
            GpuDevice(d.id, d.index, d.memory_mib, d.model, d.simulated, d.taken)
            for d in part.devices
        ),
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in part.taints),
        extended=part.extended,
        ready=part.ready,
        role=part.role,
        foreign_milli_cpu=part.foreign_cpu_milli,
        foreign_memory_bytes=part.foreign_memory_bytes,
        foreign_pods=part.foreign_pods,
    )


def queue(name: str, part: parts.QueuePart, known: Mapping[str, parts.QueuePart]) -> Queue:
    """Return the queue; its parent must be among `known`, and above it a top."""
    if part.parent is not None and part.parent not in known:
        raise ConfigurationError(
            f"parent names {part.parent!r}, which is no queue.",
            hint=f"Use null for the top level or one of: {listed(known)}.",
        )
    seen = {name}
    above = part.parent
    while above is not None and above in known:
        if above in seen:
            raise ConfigurationError(
                f"parent makes {name} its own ancestor.", hint="A queue tree has no circle."
            )
        seen.add(above)
        above = known[above].parent
    return Queue(
        name=name,
        parent=part.parent,
        priority=part.priority,
        created=part.created,
        gpu=_share(part.gpu_milli),
        cpu=_share(part.cpu_milli),
        memory=_share(part.memory_bytes),
        preempt_min_runtime_ms=optional_ms(part.preempt_min_runtime_s),
        reclaim_min_runtime_ms=optional_ms(part.reclaim_min_runtime_s),
    )


def _share(part: parts.Entitlement) -> QueueShare:
    return QueueShare(part.quota, part.limit, part.over_quota_weight)


def topology(name: str, levels: Iterable[str], aliases: Mapping[str, str]) -> Topology:
    """Return the topology; every alias must name one of its levels."""
    found = Topology(name, tuple(levels), aliases)
    for alias, level in aliases.items():
        if level not in found.levels:
            raise ConfigurationError(
                f"alias {alias!r} names {level!r}, which is no level of topology {name}.",
                hint=f"Its levels are: {listed(found.levels)}.",
            )
    return found


def pod_group(name: str, part: parts.PodGroupPart, now_ms: int) -> PodGroup:
    """Return the group without its pods."""
    grace = part.stale_grace_s
    _check_unique(part.gang.subgroups)
    return PodGroup(
        name=part.name or name,
        namespace=part.namespace,
        queue=part.queue,
        gang=SubGroup(
            name="",
            min_subgroups=part.gang.min_subgroups,
            topology=_constraint(part.gang.topology),
            children=tuple(_sub_group(child) for child in part.gang.subgroups),
        ),
        priority=part.priority,
        preemptibility=PREEMPTIBILITY[part.preemptible],
        created=part.created,
        stale_since_ms=ago(now_ms, part.stale_for_s),
        started_ms=ago(now_ms, part.started_s_ago),
        stale_grace_ms=UNSET if isinstance(grace, UnsetType) else optional_ms(grace),
        preemption_delay_ms=optional_ms(part.preemption_delay_s),
        made_ms=ago(now_ms, part.created_s_ago),
        last_evicted_ms=ago(now_ms, part.last_evicted_s_ago),
        waits_since_ms=ago(now_ms, part.waiting_s),
        run_ms=optional_ms(part.run_s),
        owner=part.owner,
        kind=part.kind,
        labels=part.labels,
    )


def _check_unique(subgroups: Iterable[parts.Subgroup]) -> None:
    """Raise for a name that two sub-groups have: pods name theirs by it."""
    waiting, seen = list(subgroups), set[str]()
    while waiting:
        part = waiting.pop()
        if part.name in seen:
            raise ConfigurationError(
                f"gang.subgroups: {part.name!r} is the name of two of them.",
                hint="Pods say by name where they belong: give each its own.",
            )
        seen.add(part.name)
        if not isinstance(part.subgroups, UnsetType):
            waiting += part.subgroups


def _sub_group(part: parts.Subgroup) -> SubGroup:
    children, minimum = part.subgroups, part.min_members
    if isinstance(children, UnsetType) == isinstance(minimum, UnsetType):
        raise ConfigurationError(
            f"gang.subgroups: {part.name!r} needs either subgroups or min_members.",
            hint="An inner group has subgroups, a leaf has min_members.",
        )
    constraint = _constraint(part.topology)
    if isinstance(children, UnsetType):
        return SubGroup(
            part.name, 0 if isinstance(minimum, UnsetType) else minimum, None, constraint
        )
    if not children:
        raise ConfigurationError(f"gang.subgroups: {part.name!r} has an empty list of subgroups.")
    below = tuple(_sub_group(child) for child in children)
    return SubGroup(part.name, 0, part.min_subgroups, constraint, below)


def _constraint(part: parts.TopologyConstraintPart | None) -> TopologyConstraint | None:
    if part is None:
        return None
    return TopologyConstraint(part.name, part.required_level, part.preferred_level)


def pod(part: parts.PodPart, group: PodGroup, nodes: Mapping[str, Node], now_ms: int) -> Pod:
    """Return a member of `group`."""
    state = PodState(part.state)
    _check_place(part, state, nodes)
    leaves = [leaf.name for leaf in group.gang.leaves()]
    if part.subgroup not in leaves:
        raise ConfigurationError(
            f"subgroup names {part.subgroup!r}, which is no leaf of the gang.",
            hint=f"Its leaves are: {listed(leaves)}.",
        )
    request = _request(part.request)
    return Pod(
        name=part.name,
        namespace=group.namespace,
        group=group.key,
        state=state,
        sub_group=part.subgroup,
        request=request,
        node=part.node,
        devices=_devices(part, request.gpu, nodes),
        precedence=part.task_priority,
        deleted_ms=ago(now_ms, part.deleted_s_ago) if state is PodState.RELEASING else None,
        labels=part.labels,
        node_affinity=tuple(
            NodeAffinity(term.label, term.values, term.weight) for term in _many(part.node_affinity)
        ),
        pod_affinity=_pod_affinity(part.pod_affinity),
        pod_anti_affinity=_pod_affinity(part.pod_anti_affinity),
        tolerations=tuple(Toleration(t.key, t.value, t.effect) for t in part.tolerations),
        resource_claims=part.resource_claims,
        legacy_mig=part.legacy_mig,
    )


def _check_place(part: parts.PodPart, state: PodState, nodes: Mapping[str, Node]) -> None:
    if (state in HOLDS_RESOURCES) != (part.node is not None):
        needs = "needs a node" if state in HOLDS_RESOURCES else "has no node"
        raise ConfigurationError(f"node: a {state} pod {needs}.")
    if part.node is not None and part.node not in nodes:
        raise ConfigurationError(
            f"node names {part.node!r}, which is no node.", hint=f"Nodes are: {listed(nodes)}."
        )


def _request(part: parts.RequestPart) -> PodRequest:
    kinds = {
        "gpus": part.gpus,
        "gpu_fraction_milli": part.gpu_fraction_milli,
        "gpu_memory_mib": part.gpu_memory_mib,
        "mig": part.mig,
    }
    given = [kind for kind, value in kinds.items() if not isinstance(value, UnsetType)]
    if len(given) > 1:
        raise ConfigurationError(
            f"request asks for {' and '.join(given)}.", hint="Ask for one of them at most."
        )
    is_shared = given in (["gpu_fraction_milli"], ["gpu_memory_mib"])
    if not is_shared and not isinstance(part.devices, UnsetType):
        raise ConfigurationError(
            "request.devices goes with gpu_fraction_milli or gpu_memory_mib only.",
            hint="Leave it out, or use gpus for whole GPUs.",
        )
    return PodRequest(
        milli_cpu=part.cpu_milli,
        memory_bytes=part.memory_bytes,
        gpu=_gpu_request(part),
        extended=part.extended,
        overhead_milli_cpu=part.overhead_cpu_milli,
        overhead_memory_bytes=part.overhead_memory_bytes,
    )


def _gpu_request(part: parts.RequestPart) -> GpuRequest | None:
    devices = 1 if isinstance(part.devices, UnsetType) else part.devices
    if not isinstance(part.gpus, UnsetType):
        return WholeGpus(part.gpus)
    if not isinstance(part.gpu_fraction_milli, UnsetType):
        return FractionOfGpu(part.gpu_fraction_milli, devices)
    if not isinstance(part.gpu_memory_mib, UnsetType):
        return GpuMemory(part.gpu_memory_mib, devices)
    if not isinstance(part.mig, UnsetType):
        return Mig(tuple(sorted(part.mig.items())))
    return None


def _devices(
    part: parts.PodPart, request: GpuRequest | None, nodes: Mapping[str, Node]
) -> tuple[GpuShare, ...]:
    """Return the devices a placed pod holds by name, with what it takes of each."""
    if part.held:
        return tuple(GpuShare(share.device, share.milli, share.memory_mib) for share in part.held)
    if not isinstance(request, FractionOfGpu | GpuMemory):
        if part.gpu_groups:
            raise ConfigurationError("gpu_groups goes with a shared request only.")
        return ()
    wanted = request.devices if part.node is not None else 0
    if len(part.gpu_groups) != wanted or len(set(part.gpu_groups)) != wanted:
        raise ConfigurationError(
            f"gpu_groups names {len(part.gpu_groups)} devices where {wanted} belong.",
            hint="One name for each device of a placed pod, none otherwise.",
        )
    if part.node is None:
        return ()
    node = nodes[part.node]
    sizes = {device.id: device.memory_mib for device in node.devices}
    return tuple(
        GpuShare(name, *_share_of_device(request, sizes.get(name) or node.gpu_memory_mib))
        for name in part.gpu_groups
    )


def _share_of_device(request: FractionOfGpu | GpuMemory, device_mib: int | None) -> tuple[int, int]:
    """Return the charge in milli-GPU and the MiB that the request takes of one device."""
    if isinstance(request, FractionOfGpu):
        return request.milli, request.milli * (device_mib or 0) // 1000
    if device_mib is None:
        raise ConfigurationError(
            "request.gpu_memory_mib is placed on a node whose gpu_memory_mib is not known."
        )
    return -(-request.mib * 100 // device_mib) * 10, request.mib


def _many(terms: T | tuple[T, ...] | None) -> tuple[T, ...]:
    if terms is None:
        return ()
    return terms if isinstance(terms, tuple) else (terms,)


def _pod_affinity(
    terms: parts.PodAffinityPart | tuple[parts.PodAffinityPart, ...] | None,
) -> tuple[PodAffinity, ...]:
    return tuple(
        PodAffinity(term.match_labels, term.topology_key, term.weight) for term in _many(terms)
    )


def resource_slice(part: parts.SlicePart, nodes: Mapping[str, Node]) -> ResourceSlice:
    """Return the slice; its node must exist."""
    if part.node not in nodes:
        raise ConfigurationError(
            f"node names {part.node!r}, which is no node.", hint=f"Nodes are: {listed(nodes)}."
        )
    return ResourceSlice(part.node, part.device_class, part.count)


def resource_claim(
    name: str, part: parts.ClaimPart, key_of_pod: Mapping[str, str]
) -> ResourceClaim:
    """Return the claim; `key_of_pod` knows the pods that may have reserved it."""
    unknown = [pod for pod in part.reserved_for if pod not in key_of_pod]
    if unknown:
        raise ConfigurationError(f"reserved_for names {unknown[0]!r}, which is no pod.")
    allocation = part.allocation
    return ResourceClaim(
        name=name,
        namespace=part.namespace,
        device_class=part.device_class,
        count=part.count,
        queue=part.queue,
        allocation=None
        if allocation is None
        else ClaimAllocation(allocation.node, allocation.devices),
        reserved_for=tuple(key_of_pod[pod] for pod in part.reserved_for),
        foreign_consumers=part.foreign_consumers,
    )


def listed(names: Iterable[str]) -> str:
    """Return some of the names, for a sentence."""
    known = sorted(names)
    shown = ", ".join(known[:6])
    return f"{shown}, …" if len(known) > 6 else shown or "none"  # noqa: PLR2004 - a sentence's room
