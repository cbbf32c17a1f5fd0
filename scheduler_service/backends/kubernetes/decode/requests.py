"""What a pod asks of a node, computed once: containers, init containers, sidecars, overhead, shares of GPUs, MIG.

Per resource a pod needs the larger of: all its containers and sidecars together; each init container with the
sidecars that started before it. The runtime's overhead comes on top. Equal requests are one object, which the
ledger counts on for speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.quantities import milli, whole
from scheduler_service.backends.kubernetes.objects import Container, PodSpec, Quantities, RawPod
from scheduler_service.model.gpu import (
    FractionOfGpu,
    GpuMemory,
    GpuRequest,
    GpuShare,
    Mig,
    WholeGpus,
)
from scheduler_service.model.pod import PodRequest

Amounts = dict[str, int]
GPU_RESOURCES = (names.GPU_RESOURCE, "amd.com/gpu")
_BASE = frozenset({"cpu", "memory", "pods", *GPU_RESOURCES})
_KEPT = 20_000


class BadShare(ValueError):
    """A sharing annotation that says nothing sensible; its text is the sentence."""


def is_mig(resource: str) -> bool:
    """Whether a resource is a MIG slice."""
    return resource.startswith(names.MIG_PREFIX)


def is_extended(resource: str) -> bool:
    """Whether a resource is counted by name alone (neither CPU, memory, GPUs nor MIG)."""
    return resource not in _BASE and not is_mig(resource)


def amounts_of(quantities: Quantities) -> Amounts:
    """Return amounts: CPU in thousandths, all else in whole units."""
    return {
        name: milli(quantity) if name == "cpu" else whole(quantity)
        for name, quantity in quantities.items()
    }


def _of_container(container: Container) -> Amounts:
    asked = container.resources
    if not asked.limits:
        return amounts_of(asked.requests)
    return amounts_of({**asked.limits, **asked.requests})


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def needed(spec: PodSpec) -> Amounts:
    """Return what the containers need together, without the overhead."""
    total: Amounts = {}
    for container in spec.containers:
        _add(total, _of_container(container))
    if not spec.init_containers:
        return total
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        asked = _of_container(container)
        if container.restart_policy == "Always":
            _add(sidecars, asked)
            asked = {}
        at_once = dict(sidecars)
        _add(at_once, asked)
        peak = {name: max(peak.get(name, 0), at_once.get(name, 0)) for name in peak | at_once}
    _add(total, sidecars)
    return {name: max(total.get(name, 0), peak.get(name, 0)) for name in total | peak}


def request_of(pod: RawPod) -> PodRequest:
    """Return what a pod asks for; a sharing annotation that makes no sense raises `BadShare`."""
    total = needed(pod.spec)
    overhead = amounts_of(pod.spec.overhead) if pod.spec.overhead else {}
    return _interned(
        total.get("cpu", 0),
        total.get("memory", 0),
        _gpu(pod.metadata.annotations, total),
        tuple(sorted((name, n) for name, n in total.items() if n and is_extended(name))),
        (overhead.get("cpu", 0), overhead.get("memory", 0)),
    )


@lru_cache(maxsize=_KEPT)
def _interned(
    cpu: int,
    memory: int,
    gpu: GpuRequest | None,
    extended: tuple[tuple[str, int], ...],
    overhead: tuple[int, int],
) -> PodRequest:
    if not extended:
        return PodRequest(
            cpu, memory, gpu, overhead_milli_cpu=overhead[0], overhead_memory_bytes=overhead[1]
        )
    return PodRequest(cpu, memory, gpu, dict(extended), *overhead)


def _gpu(annotations: Mapping[str, str], total: Amounts) -> GpuRequest | None:
    slices = tuple(
        sorted((mig_profile(name), n) for name, n in total.items() if n and is_mig(name))
    )
    if slices:
        return Mig(slices)
    share = share_asked(annotations)
    if share is not None:
        return share
    count = sum(total.get(name, 0) for name in GPU_RESOURCES)
    return WholeGpus(count) if count else None


def mig_profile(resource: str) -> str:
    """Return the profile of a MIG resource: "3g.20gb"."""
    return resource.removeprefix(names.MIG_PREFIX)


def share_asked(annotations: Mapping[str, str]) -> FractionOfGpu | GpuMemory | None:
    """Return the part of GPUs that the annotations ask for, if they do."""
    fraction = annotations.get(names.GPU_FRACTION)
    memory = annotations.get(names.GPU_MEMORY)
    if fraction is None and memory is None:
        return None
    devices = _count(annotations.get(names.GPU_FRACTION_DEVICES, "1"), names.GPU_FRACTION_DEVICES)
    if fraction is not None:
        return FractionOfGpu(_milli_fraction(fraction), devices)
    return GpuMemory(_count(memory or "", names.GPU_MEMORY), devices)


def _milli_fraction(text: str) -> int:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or not 0 < value <= 1:
        raise BadShare(f"The annotation gpu-fraction is {text[:20]!r}: not between 0 and 1.")
    return max(1, round(value * 1000))


def _count(text: str, name: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and 0 < len(digits) <= 9) or int(digits) < 1:  # noqa: PLR2004
        raise BadShare(f"The annotation {name} is {text[:20]!r}: not a positive whole number.")
    return int(digits)


def shares_of(
    request: PodRequest, devices: tuple[str, ...], gpu_memory_mib: int | None
) -> tuple[GpuShare, ...]:
    """Return what a pod with this request holds of the named devices of a node."""
    gpu = request.gpu
    memory = gpu_memory_mib or 0
    if isinstance(gpu, FractionOfGpu):
        mib = max(1, gpu.milli * memory // 1000) if memory else 0
        return tuple(GpuShare(device, gpu.milli, mib) for device in devices)
    if isinstance(gpu, GpuMemory):
        part = -(-gpu.mib * 100 // memory) * 10 if memory else 0
        return tuple(GpuShare(device, part, gpu.mib) for device in devices)
    return ()
