"""One schedulable unit on one node, and the states it goes through."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from scheduler_service.model.gpu import GpuRequest, GpuShare
from scheduler_service.model.resources import nothing


class PodState(StrEnum):
    """Where a pod is in its life, in order."""

    PENDING = "pending"
    GATED = "gated"
    PIPELINED = "pipelined"
    BINDING = "binding"
    BOUND = "bound"
    RUNNING = "running"
    RELEASING = "releasing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


ALLOCATED = frozenset({PodState.BINDING, PodState.BOUND, PodState.RUNNING})
COUNTS_FOR_QUEUE = ALLOCATED | {PodState.PIPELINED}
HOLDS_RESOURCES = COUNTS_FOR_QUEUE | {PodState.RELEASING}
IS_WAITING = frozenset({PodState.PENDING, PodState.GATED})
FINISHED = frozenset({PodState.SUCCEEDED, PodState.FAILED})


class PodRequest(msgspec.Struct, frozen=True, gc=False):
    """What a pod asks of a node. `overhead_*` comes with its runtime and is charged too."""

    milli_cpu: int = 0
    memory_bytes: int = 0
    gpu: GpuRequest | None = None
    extended: Mapping[str, int] = msgspec.field(default_factory=nothing)
    overhead_milli_cpu: int = 0
    overhead_memory_bytes: int = 0


class NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """The node's label must be one of the values; with a weight it only should."""

    label: str
    values: tuple[str, ...]
    weight: int | None = None


class PodAffinity(msgspec.Struct, frozen=True, gc=False):
    """To share (or not) a domain with pods that carry these labels; with a weight: should."""

    match_labels: Mapping[str, str]
    topology_key: str
    weight: int | None = None


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """Lets a pod onto nodes with this taint. Empty key: every taint; None: any value or effect."""

    key: str = ""
    value: str | None = None
    effect: str | None = None


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A member of a pod group. It is known by `namespace/name`, its group likewise.

    `node` and `devices` are set while it holds something. `precedence`: order inside the group,
    higher first, None last. `deleted_ms`: for a releasing pod, when it should have been gone.
    `shares`: the named GPUs it holds; whole GPUs need not be named.
    """

    name: str
    namespace: str
    group: str
    state: PodState = PodState.PENDING
    sub_group: str = "default"
    request: PodRequest = PodRequest()
    node: str | None = None
    devices: tuple[GpuShare, ...] = ()
    precedence: int | None = None
    deleted_ms: int | None = None
    labels: Mapping[str, str] = msgspec.field(default_factory=nothing)
    node_affinity: tuple[NodeAffinity, ...] = ()
    pod_affinity: tuple[PodAffinity, ...] = ()
    pod_anti_affinity: tuple[PodAffinity, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    resource_claims: tuple[str, ...] = ()
    legacy_mig: bool = False

    @property
    def key(self) -> str:
        """The pod's identity: namespace/name."""
        return f"{self.namespace}/{self.name}"
