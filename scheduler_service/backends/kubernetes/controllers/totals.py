"""What the pods of a group ask for and hold, in KAI's words; sums for queues. Pure.

Amounts are exact: every resource in thousandths, so that parts of GPUs and of cores add up. Unlike KAI's own figures
these count init containers, the runtime's overhead and every device of a share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.quantities import milli
from scheduler_service.backends.kubernetes.decode.requests import BadShare, request_of
from scheduler_service.backends.kubernetes.encode.status import quantity
from scheduler_service.backends.kubernetes.objects import Quantities, RawPod
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, Mig, WholeGpus
from scheduler_service.model.pod import PodRequest

Amounts = Mapping[str, int]
Memory = Callable[[str], int | None]
NOTHING: Amounts = {}
"""MiB of each GPU of a node, None where that is not known."""


class Totals(msgspec.Struct, frozen=True, gc=False):
    """What is asked for and held, in thousandths by resource."""

    requested: Amounts = NOTHING
    allocated: Amounts = NOTHING
    allocated_non_preemptible: Amounts = NOTHING

    def __add__(self, other: Totals) -> Totals:
        """Return the sum."""
        return Totals(
            added(self.requested, other.requested),
            added(self.allocated, other.allocated),
            added(self.allocated_non_preemptible, other.allocated_non_preemptible),
        )

    def __neg__(self) -> Totals:
        """Return what takes this away."""
        return Totals(
            {name: -amount for name, amount in self.requested.items()},
            {name: -amount for name, amount in self.allocated.items()},
            {name: -amount for name, amount in self.allocated_non_preemptible.items()},
        )


def added(first: Amounts, second: Amounts) -> Amounts:
    """Return the sum; what is zero is left out."""
    if not first or not second:
        return first or second
    found = {
        name: first.get(name, 0) + second.get(name, 0) for name in first.keys() | second.keys()
    }
    return {name: amount for name, amount in found.items() if amount}


def of_group(pods: Iterable[RawPod], *, preemptible: bool, memory: Memory) -> Totals:
    """Return the totals of a group's pods. Pods that ended count as nothing."""
    requested: Amounts = {}
    allocated: Amounts = {}
    for pod in pods:
        if pod.is_over:
            continue
        try:
            request = request_of(pod)
        except BadShare:
            continue
        requested = added(requested, asked(request))
        if pod.spec.node_name:
            allocated = added(allocated, held(request, memory(pod.spec.node_name)))
    return Totals(requested, allocated, NOTHING if preemptible else allocated)


def asked(request: PodRequest) -> Amounts:
    """Return what a pod asks for; memory of GPUs stays memory, as nobody knows yet on which GPU."""
    found = _plain(request)
    gpu = request.gpu
    if isinstance(gpu, GpuMemory):
        found[names.GPU_MEMORY_RESOURCE] = 1000 * gpu.mib * gpu.devices
    return _filled(found)


def held(request: PodRequest, gpu_memory_mib: int | None) -> Amounts:
    """Return what a pod on a node holds: memory of GPUs as the part of the node's GPUs that it is."""
    found = _plain(request)
    gpu = request.gpu
    if isinstance(gpu, GpuMemory):
        if gpu_memory_mib:
            found[names.GPU_RESOURCE] = -(-gpu.mib * 1000 // gpu_memory_mib) * gpu.devices
        else:
            found[names.GPU_MEMORY_RESOURCE] = 1000 * gpu.mib * gpu.devices
    return _filled(found)


def _plain(request: PodRequest) -> dict[str, int]:
    found = {
        "cpu": request.milli_cpu + request.overhead_milli_cpu,
        "memory": 1000 * (request.memory_bytes + request.overhead_memory_bytes),
    }
    gpu = request.gpu
    if isinstance(gpu, WholeGpus):
        found[names.GPU_RESOURCE] = 1000 * gpu.count
    elif isinstance(gpu, FractionOfGpu):
        found[names.GPU_RESOURCE] = gpu.milli * gpu.devices
    elif isinstance(gpu, Mig):
        found |= {f"{names.MIG_PREFIX}{profile}": 1000 * count for profile, count in gpu.profiles}
    return found | {name: 1000 * amount for name, amount in request.extended.items()}


def _filled(amounts: dict[str, int]) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}


def quantities(amounts: Amounts) -> dict[str, str]:
    """Return amounts as the API writes them."""
    return {name: quantity(amount) for name, amount in sorted(amounts.items())}


def are_equal(told: Quantities, amounts: Amounts) -> bool:
    """Whether the API says these amounts, however it spells them."""
    return {name: milli(text) for name, text in told.items()} == dict(amounts)


def of_queues(own: Mapping[str, Totals], parents: Mapping[str, str]) -> dict[str, Totals]:
    """Return the totals of queues with all that is below them. A ring of parents counts nothing twice."""
    found = {name: own.get(name, Totals()) for name in parents}
    for name in parents:
        totals = own.get(name)
        if totals is None:
            continue
        above, seen = parents[name], {name}
        while above in found and above not in seen:
            found[above] += totals
            seen.add(above)
            above = parents[above]
    return found


def children_of(parents: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the queues directly below each queue, in order."""
    found: dict[str, list[str]] = {}
    for name in sorted(parents):
        found.setdefault(parents[name], []).append(name)
    return found
