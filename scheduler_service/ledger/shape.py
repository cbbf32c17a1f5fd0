"""Shape: everything static about a pod that decides where it fits and what it is charged.

Equal pods share one shape, so work per shape (node lists, charges) is done once, not per pod.
Amounts include the pod's overhead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, Mig, WholeGpus
from scheduler_service.model.pod import NodeAffinity, Pod, PodAffinity, PodRequest, Toleration
from scheduler_service.model.snapshot import StaticVeto

NO_GPU, WHOLE, FRACTION, MEMORY, MIG = range(5)
UNKNOWN_MEMORY_UNITS = 1000
"""A GPU of unknown memory is booked in thousandths."""
MIG_PREFIX = "mig:"
KNOWN_REQUESTS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The request in plain numbers, and the rules on where the pod may be."""

    kind: int
    milli_cpu: int
    memory_bytes: int
    gpus: int
    """Whole GPUs, of one node."""
    milli: int
    mib: int
    devices: int
    extras: tuple[tuple[str, int], ...]
    """Extended resources and MIG profiles, by name."""
    charge_milli: int
    """What queues are charged in milli-GPU; memory requests come on top, per node."""
    pending_mib: int
    """Device memory asked for, over all devices: converted with the cluster's GPU sizes."""
    claims: tuple[str, ...] = ()
    node_affinity: tuple[NodeAffinity, ...] = ()
    pod_affinity: tuple[PodAffinity, ...] = ()
    pod_anti_affinity: tuple[PodAffinity, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    vetoes: tuple[StaticVeto, ...] = ()
    legacy_mig: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = ""
    request: PodRequest = field(default_factory=PodRequest)
    is_shared: bool = False
    """Whether it takes parts of GPUs."""
    is_rare: bool = False
    """Whether a node's book has more to it than whole GPUs, CPU, memory and slots."""
    is_plain: bool = True
    """Whether the best node that fits is the answer: no claims, no charge that varies by node."""
    asked: tuple[int, int, int, int] = (0, 0, 0, 0)
    """CPU, memory, milli-GPU and device memory, without claims."""

    @property
    def is_cpu_only(self) -> bool:
        """Whether it asks for no GPU in any form (claims are looked at elsewhere)."""
        return self.kind == NO_GPU

    @property
    def has_required_pod_affinity(self) -> bool:
        """Whether other pods decide where it may be."""
        return any(term.weight is None for term in (*self.pod_affinity, *self.pod_anti_affinity))

    def need_on(self, gpu_memory: int) -> int:
        """Return what it takes of one device with so much memory (MiB, or thousandths)."""
        return self.mib if self.kind == MEMORY else max(1, self.milli * gpu_memory // 1000)

    def charge_on(self, gpu_memory: int) -> int:
        """Return what queues are charged, in milli-GPU, once it is on such devices."""
        if self.kind != MEMORY:
            return self.charge_milli
        return -(-self.mib * 100 // gpu_memory) * 10 * self.devices


def _gpu_numbers(gpu: GpuRequest | None) -> tuple[int, int, int, int, int]:
    """Return kind, whole GPUs, milli, MiB, devices."""
    if gpu is None:
        return NO_GPU, 0, 0, 0, 0
    if isinstance(gpu, WholeGpus):
        return (WHOLE, gpu.count, 0, 0, 0) if gpu.count else (NO_GPU, 0, 0, 0, 0)
    if isinstance(gpu, FractionOfGpu):
        return FRACTION, 0, gpu.milli, 0, gpu.devices
    if isinstance(gpu, GpuMemory):
        return MEMORY, 0, 0, gpu.mib, gpu.devices
    return MIG, 0, 0, 0, 0


class ShapeBook:
    """The shapes by number; equal pods get the same number."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []
        self._by_key: dict[object, int] = {}
        self._by_request: dict[int, tuple[PodRequest, int]] = {}
        self._free: list[int] = []
        """Numbers of shapes that nobody has any more."""

    def __len__(self) -> int:
        return len(self._by_key)

    def keep(self, numbers: set[int]) -> None:
        """Forget all other shapes; their numbers are used again."""
        gone = [number for number in self._by_key.values() if number not in numbers]
        for number in gone:
            self.shapes[number] = NOTHING
        self._free += gone
        self._by_key = {key: number for key, number in self._by_key.items() if number in numbers}
        self._by_request.clear()

    def number_of(self, pod: Pod, vetoes: tuple[StaticVeto, ...] = ()) -> int:
        """Return the number of the pod's shape."""
        number = None if vetoes else self.plain_number_of(pod)
        if number is None:
            return self._intern(pod, vetoes, key=_special_key(pod, vetoes))
        return number

    def plain_number_of(self, pod: Pod) -> int | None:
        """Return the number of the shape of a pod that only asks for resources, else None."""
        return self.plain_numbers_of((pod,))[0]

    def plain_numbers_of(self, pods: Iterable[Pod]) -> list[int | None]:
        """Return the same for many pods; pods of one request cost next to nothing."""
        found: list[int | None] = []
        last: PodRequest | None = None
        last_number = 0
        for pod in pods:
            if (
                pod.node_affinity
                or pod.tolerations
                or pod.pod_affinity
                or pod.pod_anti_affinity
                or pod.resource_claims
                or pod.legacy_mig
            ):
                found.append(None)
                continue
            if pod.request is not last:
                last = pod.request
                last_number = self._number_of_request(pod)
            found.append(last_number)
        return found

    def _number_of_request(self, pod: Pod) -> int:
        request = pod.request
        known = self._by_request.get(id(request))
        if known is not None and known[0] is request:
            return known[1]
        number = self._intern(pod, (), key=_request_key(request))
        # The request is kept alive here, so that its id stays its own; not too many of them.
        if len(self._by_request) >= KNOWN_REQUESTS:
            self._by_request.clear()
        self._by_request[id(request)] = (request, number)
        return number

    def _intern(self, pod: Pod, vetoes: tuple[StaticVeto, ...], *, key: object) -> int:
        number = self._by_key.get(key)
        if number is None and self._free:
            number = self._by_key[key] = self._free.pop()
            self.shapes[number] = _shape_of(pod, vetoes)
        elif number is None:
            number = self._by_key[key] = len(self.shapes)
            self.shapes.append(_shape_of(pod, vetoes))
        return number


def _request_key(request: PodRequest) -> object:
    extended = tuple(sorted(request.extended.items())) if request.extended else ()
    return (
        request.milli_cpu + request.overhead_milli_cpu,
        request.memory_bytes + request.overhead_memory_bytes,
        request.gpu,
        extended,
    )


def _terms_key(terms: tuple[PodAffinity, ...]) -> tuple[object, ...]:
    return tuple(
        (tuple(sorted(term.match_labels.items())), term.topology_key, term.weight) for term in terms
    )


def _special_key(pod: Pod, vetoes: tuple[StaticVeto, ...]) -> object:
    by_pods = bool(pod.pod_affinity or pod.pod_anti_affinity)
    return (
        _request_key(pod.request),
        pod.node_affinity,
        _terms_key(pod.pod_affinity),
        _terms_key(pod.pod_anti_affinity),
        pod.tolerations,
        pod.resource_claims,
        pod.legacy_mig,
        vetoes,
        pod.namespace,
        tuple(sorted(pod.labels.items())) if by_pods else (),
    )


def _shape_of(pod: Pod, vetoes: tuple[StaticVeto, ...]) -> Shape:
    request = pod.request
    kind, gpus, milli, mib, devices = _gpu_numbers(request.gpu)
    extras = dict(request.extended)
    charge = gpus * 1000 + milli * devices
    if isinstance(request.gpu, Mig):
        charge += request.gpu.compute_slices() * 1000
        extras |= {f"{MIG_PREFIX}{profile}": count for profile, count in request.gpu.profiles}
    cpu = request.milli_cpu + request.overhead_milli_cpu
    memory = request.memory_bytes + request.overhead_memory_bytes
    is_shared = kind in {FRACTION, MEMORY}
    return Shape(
        kind=kind,
        milli_cpu=cpu,
        memory_bytes=memory,
        gpus=gpus,
        milli=milli,
        mib=mib,
        devices=devices,
        extras=tuple(sorted(extras.items())),
        charge_milli=charge,
        pending_mib=mib * devices,
        claims=pod.resource_claims,
        node_affinity=pod.node_affinity,
        pod_affinity=pod.pod_affinity,
        pod_anti_affinity=pod.pod_anti_affinity,
        tolerations=pod.tolerations,
        vetoes=vetoes,
        legacy_mig=pod.legacy_mig,
        labels=tuple(sorted(pod.labels.items())),
        namespace=pod.namespace,
        request=request,
        is_shared=is_shared,
        is_rare=is_shared or bool(extras) or pod.legacy_mig,
        is_plain=not pod.resource_claims and kind != MEMORY,
        asked=(cpu, memory, charge, mib * devices),
    )


NOTHING = _shape_of(Pod("", "", ""), ())
"""Stands at the number of a shape that nobody has."""
