"""What pods hold of nodes, devices and queues, counted anew from the model.

Written to be obvious and apart from the ledger's columns, so that each can find the other wrong.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler_service.model.claim import ResourceClaim, ResourceSlice, is_gpu_class
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, Mig, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import Pod


@dataclass(slots=True)
class NodeUse:
    """What the pods on one node take of it."""

    pods: int = 0
    milli_cpu: int = 0
    memory_bytes: int = 0
    whole_gpus: int = 0
    mig: Counter[str] = field(default_factory=Counter)
    extended: Counter[str] = field(default_factory=Counter)
    tenants: dict[str, list[Pod]] = field(default_factory=dict)
    """Pods by shared device."""
    claimed: dict[str, int] = field(default_factory=dict)
    """GPUs by claim: a device that pods share through a claim is used once."""

    @property
    def gpus(self) -> int:
        """GPUs in use, whole or shared, claimed ones included."""
        return self.whole_gpus + len(self.tenants) + sum(self.claimed.values())

    @property
    def pod_slots(self) -> int:
        """Pod slots in use: every shared GPU takes one for its reservation pod."""
        return self.pods + len(self.tenants)

    def add(self, pod: Pod, claims: Mapping[str, ResourceClaim]) -> None:
        """Count a pod."""
        request = pod.request
        self.pods += 1
        self.milli_cpu += request.milli_cpu + request.overhead_milli_cpu
        self.memory_bytes += request.memory_bytes + request.overhead_memory_bytes
        self.extended.update(request.extended)
        match request.gpu:
            case WholeGpus(count=count):
                self.whole_gpus += count
            case FractionOfGpu() | GpuMemory():
                for share in pod.devices:
                    self.tenants.setdefault(share.device, []).append(pod)
            case Mig(profiles=profiles):
                self.mig.update(dict(profiles))
            case None:
                pass
        for name in pod.resource_claims:
            claim = claims.get(f"{pod.namespace}/{name}")
            if claim is not None and claim.is_gpu:
                self.claimed[claim.key] = claim.count


def use_by_node(pods: Iterable[Pod], claims: Iterable[ResourceClaim]) -> dict[str, NodeUse]:
    """Return what `pods` take of each node that one of them is on."""
    claim_by_key = {claim.key: claim for claim in claims}
    found: dict[str, NodeUse] = {}
    for pod in pods:
        if pod.node is not None:
            found.setdefault(pod.node, NodeUse()).add(pod, claim_by_key)
    return found


def gpus_of(node: Node, slices: Iterable[ResourceSlice]) -> int:
    """Return the GPUs a node offers, those handed out through claims included."""
    return node.gpus + sum(
        piece.count
        for piece in slices
        if piece.node == node.name and is_gpu_class(piece.device_class)
    )


def charged_milli_gpu(pod: Pod, claims: Mapping[str, ResourceClaim]) -> int:
    """Return what a placed pod is charged for in milli-GPU."""
    charge = 0
    match pod.request.gpu:
        case WholeGpus(count=count):
            charge = 1000 * count
        case FractionOfGpu() | GpuMemory():
            charge = sum(share.milli for share in pod.devices)
        case Mig() as mig:
            charge = 1000 * mig.compute_slices()
        case None:
            pass
    named = (claims.get(f"{pod.namespace}/{name}") for name in pod.resource_claims)
    return charge + sum(1000 * claim.count for claim in named if claim is not None and claim.is_gpu)
