"""From the API's node to the model's: what it has, less what others hold of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.quantities import whole
from scheduler_service.backends.kubernetes.decode.requests import (
    GPU_RESOURCES,
    Amounts,
    amounts_of,
    is_extended,
    is_mig,
    mig_profile,
    needed,
)
from scheduler_service.backends.kubernetes.objects import RawNode, RawPod
from scheduler_service.model.node import MigStrategy, Node, NodeRole, Taint, TaintEffect

BYTES_FROM = 2**20
"""A memory label this large is in bytes, not MiB."""
STEP_MIB = 100
"""GPUs of one kind report a little more or less; KAI counts in whole hundreds."""
_EFFECTS = frozenset({"NoSchedule", "NoExecute", "PreferNoSchedule"})
_STRATEGIES = frozenset({"single", "mixed"})


def gpu_memory_mib(labels: Mapping[str, str]) -> int | None:
    """Return the memory of each GPU of a node, None where no label tells it."""
    try:
        value = whole(labels[names.GPU_MEMORY_LABEL])
    except (KeyError, ValueError):
        return None
    mib = value >> 20 if value >= BYTES_FROM else value
    floored = mib // STEP_MIB * STEP_MIB
    return floored or None


def is_ready(raw: RawNode) -> bool:
    """Whether new pods may go there: not cordoned, and not told to be unready."""
    told = [item.status for item in raw.status.conditions if item.type == "Ready"]
    return not raw.spec.unschedulable and all(status == "True" for status in told)


def role_of(labels: Mapping[str, str]) -> NodeRole:
    """Return what work a node is for, where work and nodes are told apart."""
    if names.GPU_WORKER_LABEL in labels:
        return "gpu"
    return "cpu" if names.CPU_WORKER_LABEL in labels else "any"


def _mig_strategy(labels: Mapping[str, str], slices: Mapping[str, int]) -> MigStrategy | None:
    said = labels.get(names.MIG_ENABLED_LABEL)
    has_mig = bool(slices) if said is None else said.lower() == "true"
    strategy = labels.get(names.MIG_STRATEGY_LABEL, "")
    return cast("MigStrategy", strategy) if has_mig and strategy in _STRATEGIES else None


def held_by_others(pods: Iterable[RawPod]) -> Amounts:
    """Return what pods that are not ours to place hold of a node; a reservation's GPU is its share's, not its own."""
    total: Amounts = {}
    for pod in pods:
        is_reservation = pod.metadata.namespace == names.RESERVATION_NAMESPACE
        asked = needed(pod.spec)
        if pod.spec.overhead:
            for name, amount in amounts_of(pod.spec.overhead).items():
                asked[name] = asked.get(name, 0) + amount
        for name, amount in asked.items():
            if not (is_reservation and name in GPU_RESOURCES):
                total[name] = total.get(name, 0) + amount
        if not is_reservation:
            total["pods"] = total.get("pods", 0) + 1
    return total


def node_of(
    raw: RawNode, *, others: Iterable[RawPod] = (), extra_labels: Mapping[str, str] | None = None
) -> Node:
    """Return the model's node. `others`: pods on it that are not ours to place; `extra_labels`: of rules."""
    labels = raw.metadata.labels
    have = amounts_of(raw.status.allocatable)
    foreign = held_by_others(others)
    slices = {
        mig_profile(name): max(0, n - foreign.get(name, 0))
        for name, n in have.items()
        if is_mig(name)
    }
    gpus = sum(have.get(name, 0) - foreign.get(name, 0) for name in GPU_RESOURCES)
    return Node(
        name=raw.metadata.name,
        gpus=max(0, gpus),
        gpu_memory_mib=gpu_memory_mib(labels),
        milli_cpu=have.get("cpu", 0),
        memory_bytes=have.get("memory", 0),
        max_pods=have.get("pods", 110),
        labels={**labels, **extra_labels} if extra_labels else labels,
        mig=slices,
        mig_strategy=_mig_strategy(labels, slices),
        taints=tuple(
            Taint(item.key, item.value, cast("TaintEffect", item.effect))
            for item in raw.spec.taints
            if item.effect in _EFFECTS
        ),
        extended={
            name: max(0, n - foreign.get(name, 0)) for name, n in have.items() if is_extended(name)
        },
        ready=is_ready(raw),
        role=role_of(labels),
        foreign_milli_cpu=foreign.get("cpu", 0),
        foreign_memory_bytes=foreign.get("memory", 0),
        foreign_pods=foreign.get("pods", 0),
    )
