"""What can never be: requests larger than every node, than all nodes together, or than a queue may ever have. Pure.

Rule: only what waiting would not help is judged here; what is merely taken now is the planner's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler_service.model import quantities
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, Mig, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import PodRequest
from scheduler_service.model.queue import Queue
from scheduler_service.ports import RefusedRequest
from scheduler_service.service.refusals import refusal

WHOLE = 1000
NO_PLACE = "Waiting would not help, so no place was taken in the queue."


def device_memories(node: Node) -> list[int | None]:
    """Return the memory of each GPU of a node in MiB, strangers' included; None = not known."""
    if node.devices:
        return [device.memory_mib for device in node.devices]
    return [node.gpu_memory_mib] * node.gpus


def pods_at_most(request: PodRequest, node: Node) -> int:
    """Return how many such pods an empty node could hold."""
    room = [node.max_pods, _by_gpu(request.gpu, device_memories(node))]
    if request.milli_cpu:
        room.append(node.milli_cpu // request.milli_cpu)
    if request.memory_bytes:
        room.append(node.memory_bytes // request.memory_bytes)
    return max(0, min(room))


def _by_gpu(gpu: GpuRequest | None, memories: Sequence[int | None]) -> int:
    unlimited = 10**9
    if gpu is None or isinstance(gpu, Mig):
        return unlimited
    if isinstance(gpu, WholeGpus):
        return len(memories) // gpu.count
    if isinstance(gpu, FractionOfGpu):
        slots = [WHOLE // gpu.milli] * len(memories)
    else:
        slots = [(memory or 0) // gpu.mib for memory in memories]
    fitting = [slot for slot in slots if slot]
    if len(fitting) < gpu.devices:
        return 0
    return sum(fitting) // gpu.devices


def never_fits(request: PodRequest, needed: int, nodes: Iterable[Node]) -> RefusedRequest | None:
    """Return the refusal if `needed` such pods can never run together, however long they wait."""
    known = list(nodes)
    capacity = sum(pods_at_most(request, node) for node in known)
    if capacity >= needed:
        return None
    if capacity == 0:
        return _one_too_large(request, known)
    return refusal(
        "never_fits",
        f"Cannot fit: {needed} workers start together, all nodes hold at most {capacity} of them.",
        f"{NO_PLACE} Ask for {capacity} workers, or for less each.",
        needed=needed,
        capacity=capacity,
    )


def _one_too_large(request: PodRequest, nodes: Sequence[Node]) -> RefusedRequest:
    memories = [memory for node in nodes for memory in device_memories(node)]
    most = max((len(device_memories(node)) for node in nodes), default=0)
    detail, wanted, largest = _too_large_words(request, memories, most, nodes)
    return refusal(
        "never_fits", detail, f"{NO_PLACE} Ask for less.", wanted=wanted, largest=largest
    )


def _too_large_words(
    request: PodRequest, memories: Sequence[int | None], most: int, nodes: Sequence[Node]
) -> tuple[str, int, int]:
    gpu = request.gpu
    if gpu is not None and not memories:
        return "Cannot fit: there is no GPU here.", 1, 0
    if isinstance(gpu, WholeGpus) and gpu.count > most:
        have = quantities.gpu_words(most * WHOLE)
        return (
            f"Cannot fit: largest node has {have}, you asked for {gpu.count} on one node.",
            gpu.count,
            most,
        )
    if isinstance(gpu, GpuMemory):
        return _memory_words(gpu, memories, most)
    if isinstance(gpu, FractionOfGpu) and gpu.devices > most:
        return (
            f"Cannot fit: largest node has {most} GPUs, you asked for parts of {gpu.devices}.",
            gpu.devices,
            most,
        )
    return _machine_words(request, nodes)


def _memory_words(
    gpu: GpuMemory, memories: Sequence[int | None], most: int
) -> tuple[str, int, int]:
    largest = max((memory for memory in memories if memory is not None), default=0)
    if not largest:
        return "Cannot tell: no node says how much memory its GPUs have.", gpu.mib, 0
    if gpu.mib > largest:
        have, want = quantities.mib_words(largest), quantities.mib_words(gpu.mib)
        return (
            f"Cannot fit: the largest GPU has {have}, you asked for {want} on one.",
            gpu.mib,
            largest,
        )
    return (
        f"Cannot fit: largest node has {most} GPUs, you asked for memory on {gpu.devices}.",
        gpu.devices,
        most,
    )


def _machine_words(request: PodRequest, nodes: Sequence[Node]) -> tuple[str, int, int]:
    cpu = max((node.milli_cpu for node in nodes), default=0)
    if request.milli_cpu > cpu:
        have, want = quantities.cpu_words(cpu), quantities.cpu_words(request.milli_cpu)
        return f"Cannot fit: largest node has {have}, you asked for {want}.", request.milli_cpu, cpu
    memory = max((node.memory_bytes for node in nodes), default=0)
    have, want = quantities.bytes_words(memory), quantities.bytes_words(request.memory_bytes)
    return (
        f"Cannot fit: largest node has {have} memory, you asked for {want}.",
        request.memory_bytes,
        memory,
    )


def charge_milli(gpu: GpuRequest | None, nodes: Iterable[Node]) -> int:
    """Return what one pod is charged in milli-GPU, memory by the largest device so that nothing is refused wrongly."""
    if gpu is None:
        return 0
    if isinstance(gpu, WholeGpus):
        return gpu.count * WHOLE
    if isinstance(gpu, FractionOfGpu):
        return gpu.milli * gpu.devices
    if isinstance(gpu, Mig):
        return gpu.compute_slices() * WHOLE
    largest = max((m for node in nodes for m in device_memories(node) if m), default=0)
    return gpu.mib * WHOLE * gpu.devices // largest if largest else 0


def over_queue(
    charge: int, *, queue: str, queues: Mapping[str, Queue], preemptible: bool
) -> RefusedRequest | None:
    """Return the refusal if `charge` milli-GPU is more than this queue or one above it may ever have."""
    name: str | None = queue
    while name is not None:
        share = queues[name].gpu
        if share.limit is not None and charge > share.limit:
            return _over(name, "over_limit", charge, share.limit)
        if not preemptible and share.quota is not None and charge > share.quota:
            return _over(name, "over_quota", charge, share.quota)
        name = queues[name].parent
    return None


def _over(queue: str, code: str, charge: int, cap: int) -> RefusedRequest:
    want, have = quantities.gpu_words(charge), quantities.gpu_words(cap)
    if code == "over_limit":
        detail = f"You asked for {want}; queue {queue} is limited to {have}."
        hint = f"{NO_PLACE} Ask for at most {have}, or in another queue."
    else:
        detail = (
            f"You asked for {want} that may not be taken back; queue {queue} guarantees {have}."
        )
        hint = f"{NO_PLACE} Ask for at most {have}, or let it be taken back (--preemptible)."
    return refusal(code, detail, hint, queue=queue, asked_milli=charge, cap_milli=cap)
