"""What a node has left, now and once the leaving are gone; and where a pod would go on it.

FORMAT.md and kai-core sections 4.5, 4.8, 6.3 to 6.6. All of it is counted from the pods.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, Mig, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import Pod
from scheduler_service.model.policy import Placement

STAYS, LEAVES, PROMISED = "stays", "leaves", "promised"
Shared = FractionOfGpu | GpuMemory


class Ambiguous(Exception):
    """A free choice of FORMAT.md would have to be made between devices that are not alike."""


@dataclass(frozen=True)
class Holder:
    """A pod on a node, how it is there, and the shared GPUs it has."""

    pod: Pod
    kind: str
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Room:
    """What is free of a node: whole GPUs, milli-CPU, bytes, pod slots, MIG slices."""

    gpus: int
    milli_cpu: int
    memory_bytes: int
    pods: int
    mig: dict[str, int]


def device_need(request: Shared, node: Node) -> int:
    """Return what it takes of one device: MiB where memory is known, else milli-GPU."""
    if isinstance(request, GpuMemory):
        return request.mib
    if node.gpu_memory_mib is None:
        return request.milli
    return request.milli * node.gpu_memory_mib // 1000


def device_size(node: Node) -> int:
    """Return the size of one device, in the same measure."""
    return 1000 if node.gpu_memory_mib is None else node.gpu_memory_mib


def charge(pod: Pod, node: Node) -> Fraction:
    """Return the milli-GPU that its queue is charged for it on this node."""
    match pod.request.gpu:
        case WholeGpus(count=count):
            return Fraction(1000 * count)
        case FractionOfGpu(milli=milli, devices=devices):
            return Fraction(milli * devices)
        case GpuMemory(mib=mib, devices=devices):
            size = node.gpu_memory_mib
            assert size is not None
            return Fraction(-(-mib * 100 // size) * 10 * devices)
        case Mig() as mig:
            return Fraction(1000 * mig.compute_slices())
        case _:
            return Fraction(0)


class NodeNow:
    """One node with the pods that are on it or promised to it."""

    def __init__(self, node: Node, holders: Iterable[Holder]) -> None:
        self.node = node
        self.holders = list(holders)

    def tenants(self, kinds: set[str]) -> dict[str, int]:
        """Return each shared GPU with what holders of these kinds take of it."""
        found: dict[str, int] = {}
        for holder in self.holders:
            request = holder.pod.request.gpu
            if holder.kind in kinds and isinstance(request, Shared):
                for device in holder.devices:
                    need = device_need(request, self.node)
                    found[device] = found.get(device, 0) + need
        return found

    def room(self, kinds: set[str]) -> Room:
        """Return what holders of these kinds leave."""
        pods = [holder.pod for holder in self.holders if holder.kind in kinds]
        whole = sum(p.request.gpu.count for p in pods if isinstance(p.request.gpu, WholeGpus))
        opened = len(self.tenants(kinds))
        mig = dict(self.node.mig)
        for pod in pods:
            if isinstance(pod.request.gpu, Mig):
                for profile, count in pod.request.gpu.profiles:
                    mig[profile] = mig.get(profile, 0) - count
        return Room(
            self.node.gpus - whole - opened,
            self.node.milli_cpu - sum(p.request.milli_cpu for p in pods),
            self.node.memory_bytes - sum(p.request.memory_bytes for p in pods),
            self.node.max_pods - len(pods) - opened,
            mig,
        )

    @property
    def now(self) -> Room:
        """What is free at this moment."""
        return self.room({STAYS, LEAVES})

    @property
    def later(self) -> Room:
        """What is free once all who leave are gone and all who were promised have come."""
        return self.room({STAYS, PROMISED})

    # -- does it fit ----------------------------------------------------------------------------

    def joinable(self, request: Shared) -> list[str]:
        """Return the shared GPUs that somebody keeps and that have room, leavers apart."""
        held = self.tenants({STAYS, PROMISED})
        need, size = device_need(request, self.node), device_size(self.node)
        return [device for device, taken in held.items() if taken + need <= size]

    def is_allowed(self, pod: Pod) -> bool:
        """Whether type of request and labels let the pod be here at all."""
        request = pod.request.gpu
        is_mig_node = bool(self.node.mig) or self.node.mig_strategy is not None
        if isinstance(request, Mig) and not is_mig_node:
            return False
        if is_mig_node and request is not None:
            wants_mig = isinstance(request, Mig)
            if self.node.mig_strategy == "single" and (wants_mig or isinstance(request, Shared)):
                return False
            if self.node.mig_strategy == "mixed" and not wants_mig:
                return False
        if isinstance(request, GpuMemory) and self.node.gpu_memory_mib is None:
            return False
        return all(
            self.node.labels.get(term.label) in term.values
            for term in pod.node_affinity
            if term.weight is None
        )

    def fits(self, pod: Pod, room: Room) -> bool:
        """Whether the pod fits into this room, slots for opening a shared GPU apart."""
        request = pod.request
        if request.milli_cpu > room.milli_cpu or request.memory_bytes > room.memory_bytes:
            return False
        return room.pods >= 1 and self._fits_gpus(request.gpu, room)

    def _fits_gpus(self, request: GpuRequest | None, room: Room) -> bool:
        match request:
            case WholeGpus(count=count):
                return count <= room.gpus
            case Mig(profiles=profiles):
                return all(count <= room.mig.get(profile, 0) for profile, count in profiles)
            case FractionOfGpu() | GpuMemory():
                if device_need(request, self.node) > device_size(self.node):
                    return False
                return len(self.joinable(request)) + room.gpus >= request.devices
        return True

    # -- where on it ------------------------------------------------------------------------------

    def choose(self, pod: Pod, placement: Placement) -> tuple[tuple[str, ...], bool] | None:
        """Return its devices and whether it can have them now; None: it does not fit."""
        if not self.is_allowed(pod) or not self.fits(pod, self.later):
            return None
        if not isinstance(pod.request.gpu, Shared):
            return (), self.fits(pod, self.now)
        chosen = self._devices(pod.request.gpu, placement)
        opened = sum(device is None for device in chosen)
        if len(chosen) < pod.request.gpu.devices or self.later.pods < 1 + opened:
            return None
        is_now = self.fits(pod, self.now) and self.now.pods >= 1 + opened
        is_now = is_now and self.now.gpus >= opened
        need, size = device_need(pod.request.gpu, self.node), device_size(self.node)
        held = self.tenants({STAYS, LEAVES})
        is_now = is_now and all(
            device in held and held[device] + need <= size
            for device in chosen
            if device is not None
        )
        return tuple(device or self._fresh(n) for n, device in enumerate(chosen)), is_now

    def _devices(self, request: Shared, placement: Placement) -> list[str | None]:
        """Return the devices in the order of the policy; None is a GPU that nobody shares yet.

        A GPU that nobody has now is free; one that its pods are leaving comes last.
        """
        free = max(0, self.now.gpus)
        later = max(0, min(self.later.gpus, self.later.pods - 1))
        whole: list[str | None] = [None] * min(free, later)
        leaving: list[str | None] = [None] * (later - len(whole))
        used = self.tenants({STAYS, LEAVES, PROMISED})
        sign = -1 if placement.shared_gpu == "pack" else 1
        shared = sorted(self.joinable(request), key=lambda device: (sign * used[device], device))
        is_packed = placement.shared_gpu == "pack"
        order = [*shared, *whole, *leaving] if is_packed else [*whole, *shared, *leaving]
        self._check_choice(order, used, request.devices)
        return order[: request.devices]

    def _check_choice(self, order: list[str | None], used: dict[str, int], count: int) -> None:
        """Refuse where the last one taken and the first one left are equal by rule but not alike."""
        if len(order) <= count or order[count - 1] is None or order[count] is None:
            return
        last, first = str(order[count - 1]), str(order[count])
        if used[last] == used[first] and self._looks(last) != self._looks(first):
            raise Ambiguous

    def _looks(self, device: str) -> list[tuple[str, int]]:
        return [(kind, self.tenants({kind}).get(device, 0)) for kind in (STAYS, LEAVES, PROMISED)]

    def _fresh(self, number: int) -> str:
        return f"new-{len(self.holders)}-{number}"
