"""How many GPUs are missing for the shares that wait, as pods that an autoscaler understands. Pure.

Shares are packed onto devices (largest first), each device is one pod: so 3 shares of 0.6 are 3 GPUs, and no pod asks
for more GPUs than a node of the kind has, but for shares that span several devices of one node. Memory counts as the
part of the largest known GPU that it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.controllers.totals import added, quantities
from scheduler_service.backends.kubernetes.decode.requests import BadShare, request_of
from scheduler_service.backends.kubernetes.encode.scaling_pod import CLASS_ANNOTATION, class_of
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory
from scheduler_service.model.pod import PodRequest

WHOLE = 1000


@dataclass(slots=True)
class Bin:
    """Devices that stand for shares: the pods whose shares they are, and what of each device is left."""

    kind: str
    devices: int
    left: int
    origins: list[RawPod] = field(default_factory=list)
    cpu_and_memory: Mapping[str, int] = field(default_factory=dict)

    def add(self, pod: RawPod, milli: int, request: PodRequest) -> None:
        """Take a pod's share in."""
        self.left -= milli
        self.origins.append(pod)
        asked = {
            "cpu": request.milli_cpu + request.overhead_milli_cpu,
            "memory": WHOLE * (request.memory_bytes + request.overhead_memory_bytes),
        }
        said = {name: amount for name, amount in asked.items() if amount}
        self.cpu_and_memory = added(self.cpu_and_memory, said)

    @property
    def amounts(self) -> dict[str, str]:
        """CPU and memory as the API writes them."""
        return quantities(self.cpu_and_memory)


@dataclass(frozen=True, slots=True)
class _Share:
    pod: RawPod
    kind: str
    milli: int
    devices: int
    request: PodRequest


def is_candidate(pod: RawPod, schedulers: frozenset[str]) -> bool:
    """Whether a pod of ours waits for a part of a GPU that is not there."""
    if pod.spec.scheduler_name not in schedulers or pod.spec.node_name or pod.is_over:
        return False
    notes = pod.metadata.annotations
    if pod.metadata.deletion_timestamp or not {names.GPU_FRACTION, names.GPU_MEMORY} & notes.keys():
        return False
    told = pod.status.condition(names.POD_SCHEDULED)
    return told is not None and told.status == "False" and told.reason == names.UNSCHEDULABLE


def bins_of(candidates: Iterable[RawPod], gpu_memory_mib: int | None) -> list[Bin]:
    """Return the devices that all candidates need together; the order of the candidates does not matter."""
    shares = [share for pod in candidates if (share := _share(pod, gpu_memory_mib)) is not None]
    shares.sort(key=lambda each: (-each.devices, -each.milli, each.pod.key))
    bins: list[Bin] = []
    for share in shares:
        for each in bins:
            if (each.kind, each.devices) == (
                share.kind,
                share.devices,
            ) and each.left >= share.milli:
                each.add(share.pod, share.milli, share.request)
                break
        else:
            fresh = Bin(share.kind, share.devices, WHOLE)
            fresh.add(share.pod, share.milli, share.request)
            bins.append(fresh)
    return bins


def _share(pod: RawPod, gpu_memory_mib: int | None) -> _Share | None:
    try:
        request = request_of(pod)
    except BadShare:
        return None
    gpu = request.gpu
    if isinstance(gpu, FractionOfGpu):
        return _Share(pod, class_of(pod), gpu.milli, gpu.devices, request)
    if isinstance(gpu, GpuMemory):
        milli = -(-gpu.mib * WHOLE // gpu_memory_mib) if gpu_memory_mib else WHOLE
        return _Share(pod, class_of(pod), min(milli, WHOLE), gpu.devices, request)
    return None


def missing(bins: Iterable[Bin], standing: Iterable[RawPod]) -> list[Bin]:
    """Return the devices for which no pod stands yet."""
    free: dict[tuple[str, int], int] = {}
    for pod in standing:
        key = (pod.metadata.annotations.get(CLASS_ANNOTATION, ""), devices_of(pod))
        free[key] = free.get(key, 0) + 1
    found = []
    for each in bins:
        key = (each.kind, each.devices)
        if free.get(key, 0) > 0:
            free[key] -= 1
        else:
            found.append(each)
    return found


def devices_of(pod: RawPod) -> int:
    """Return how many whole GPUs a pod that stands for shares asks for."""
    return sum(
        int(each.resources.limits.get(names.GPU_RESOURCE, 0)) for each in pod.spec.containers
    )
