"""What is always true after a cycle, whether or not a scenario says so (FORMAT.md, Always true).

Each rule is one function over an outcome that returns a line for each breach.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from scheduler_service.model.node import Node
from scheduler_service.model.pod import ALLOCATED, Pod, PodState
from scheduler_service.simulate.amounts import NodeUse, gpus_of, use_by_node
from scheduler_service.simulate.outcome import Outcome

COUNTS_FOR_MINIMUM: Final = ALLOCATED | {PodState.SUCCEEDED}


def breaches(outcome: Outcome) -> list[str]:
    """Return a line for each rule that the outcome breaks."""
    return [line for rule in RULES for line in rule(outcome)]


def nodes_hold_what_is_bound(outcome: Outcome) -> Iterator[str]:
    """A bind leaves no node above its GPUs, CPU, memory or pod slots."""
    touched = {outcome.pods[key].node for key in outcome.binds}
    uses = use_by_node(outcome.holders(), outcome.snapshot.resource_claims)
    for node in outcome.snapshot.nodes:
        if node.name not in touched:
            continue
        use = uses[node.name]
        for what, taken, room in _books(node, use, gpus_of(node, outcome.snapshot.resource_slices)):
            if taken > room:
                yield f"{node.name} holds {taken} {what} of {room}"


def _books(node: Node, use: NodeUse, gpus: int) -> Iterator[tuple[str, int, int]]:
    yield "GPUs", use.gpus, gpus
    yield "milli-CPU", use.milli_cpu, node.milli_cpu
    yield "bytes", use.memory_bytes, node.memory_bytes
    yield "pod slots", use.pod_slots, node.max_pods
    for profile, count in use.mig.items():
        yield f"slices {profile}", count, node.mig.get(profile, 0)
    for name, count in use.extended.items():
        yield name, count, node.extended.get(name, 0)


def shared_gpus_hold_what_is_bound(outcome: Outcome) -> Iterator[str]:
    """A bind leaves no shared GPU above its memory."""
    touched = {outcome.pods[key].node for key in outcome.binds}
    uses = use_by_node(outcome.holders(), ())
    for node in outcome.snapshot.nodes:
        if node.name not in touched:
            continue
        for device, tenants in uses[node.name].tenants.items():
            shares = [share for pod in tenants for share in pod.devices if share.device == device]
            if node.gpu_memory_mib is None:
                taken, room, unit = sum(share.milli for share in shares), 1000, "milli-GPU"
            else:
                sizes = {d.id: d.memory_mib for d in node.devices if d.memory_mib is not None}
                room = sizes.get(device, node.gpu_memory_mib)
                taken = sum(share.memory_mib for share in shares)
                unit = "MiB"
            if taken > room:
                yield f"{device} of {node.name} holds {taken} {unit} of {room}"


def nothing_is_bound_and_evicted(outcome: Outcome) -> Iterator[str]:
    """No pod is both bound and evicted."""
    for key in sorted(outcome.binds & outcome.evictions):
        yield f"{key} is bound and evicted in one cycle"


def bound_leaves_have_enough(outcome: Outcome) -> Iterator[str]:
    """No leaf sub-group has pods bound while it stays below its minimum."""
    bound = {_leaf_of(outcome.pods[key]) for key in outcome.binds}
    counted = Counter(
        _leaf_of(pod) for pod in outcome.pods.values() if pod.state in COUNTS_FOR_MINIMUM
    )
    for group in outcome.snapshot.pod_groups:
        for leaf in group.gang.leaves():
            place = group.key, leaf.name
            if place in bound and counted[place] < leaf.min_members:
                yield (
                    f"{group.key} has pods of {leaf.name} bound with {counted[place]} "
                    f"of {leaf.min_members}"
                )


def _leaf_of(pod: Pod) -> tuple[str, str]:
    return pod.group, pod.sub_group


RULES: Final[tuple[Callable[[Outcome], Iterator[str]], ...]] = (
    nodes_hold_what_is_bound,
    shared_gpus_hold_what_is_bound,
    nothing_is_bound_and_evicted,
    bound_leaves_have_enough,
)
