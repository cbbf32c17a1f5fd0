"""Whether what is to be on a node fits it, by the numbers of now: the last look before a binding is sent. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from scheduler_service.model.gpu import GpuMemory, Mig, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import Pod

WHOLE = 1000


def overbooked(node: Node, pods: Iterable[Pod]) -> str | None:
    """Return what of a node these pods, together with those that are not ours, would exceed; None if they fit."""
    held: dict[str, int] = defaultdict(int)
    devices: dict[str, int] = defaultdict(int)
    for pod in pods:
        _add(held, pod)
        for share in pod.devices:
            devices[share.device] += _part(pod, share.milli, node)
    held["gpu"] += len(devices)
    for name, amount in held.items():
        if amount and amount > _offered(node, name):
            return f"{node.name} has no longer enough {_WORDS.get(name, name)}."
    fullest = max(devices.values(), default=0)
    size = node.gpu_memory_mib or WHOLE
    if fullest > size:
        return f"A GPU of {node.name} has no longer so much left."
    return None


_WORDS = {"gpu": "GPUs", "cpu": "CPU", "memory": "memory", "pods": "room for pods"}


def _part(pod: Pod, milli: int, node: Node) -> int:
    """Return what a pod takes of a device: MiB where its size is known, else thousandths."""
    memory = node.gpu_memory_mib
    if isinstance(pod.request.gpu, GpuMemory):
        return pod.request.gpu.mib if memory else WHOLE
    return max(1, milli * memory // WHOLE) if memory else milli


def _add(held: dict[str, int], pod: Pod) -> None:
    asked = pod.request
    held["cpu"] += asked.milli_cpu + asked.overhead_milli_cpu
    held["memory"] += asked.memory_bytes + asked.overhead_memory_bytes
    held["pods"] += 1
    for name, amount in asked.extended.items():
        held[name] += amount
    if isinstance(asked.gpu, WholeGpus):
        held["gpu"] += asked.gpu.count
    elif isinstance(asked.gpu, Mig):
        for profile, amount in asked.gpu.profiles:
            held[f"mig {profile}"] += amount


def _offered(node: Node, name: str) -> int:
    if name == "gpu":
        return node.gpus
    if name == "cpu":
        return node.milli_cpu - node.foreign_milli_cpu
    if name == "memory":
        return node.memory_bytes - node.foreign_memory_bytes
    if name == "pods":
        return node.max_pods - node.foreign_pods
    return node.mig.get(name.removeprefix("mig "), 0) or node.extended.get(name, 0)
