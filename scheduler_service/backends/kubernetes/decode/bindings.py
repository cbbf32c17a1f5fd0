"""KAI's BindRequest and Topology, as far as they decide anything."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.pods import Place
from scheduler_service.backends.kubernetes.objects import Meta, decoder
from scheduler_service.model.topology import Topology


class ReceivedGpu(msgspec.Struct, frozen=True, gc=False):
    """How many devices, and which part of each."""

    count: int = 0
    portion: str = ""


class ClaimGiven(msgspec.Struct, frozen=True, gc=False):
    """What a claim is given: an AllocationResult of the API."""

    name: str
    allocation: Any = None


class BindRequestSpec(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "pod_name": "podName",
        "selected_node": "selectedNode",
        "received_resource_type": "receivedResourceType",
        "received_gpu": "receivedGPU",
        "selected_gpu_groups": "selectedGPUGroups",
        "resource_claim_allocations": "resourceClaimAllocations",
        "backoff_limit": "backoffLimit",
    },
):
    """Which pod goes where, with what."""

    pod_name: str = ""
    selected_node: str = ""
    received_resource_type: str = ""
    received_gpu: ReceivedGpu | None = None
    selected_gpu_groups: tuple[str, ...] = ()
    resource_claim_allocations: tuple[ClaimGiven, ...] = ()
    backoff_limit: int | None = None


class BindRequestStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far it is."""

    phase: str = ""
    reason: str = ""
    failed_attempts: int = 0


class RawBindRequest(msgspec.Struct, frozen=True, gc=False):
    """A BindRequest of the API."""

    metadata: Meta
    spec: BindRequestSpec = BindRequestSpec()
    status: BindRequestStatus = BindRequestStatus()


decode_bind_request = decoder(RawBindRequest)


def has_failed(raw: RawBindRequest) -> bool:
    """Whether nobody tries it any more: then it is removed, and the pod decided upon anew."""
    limit = raw.spec.backoff_limit or 0
    return raw.status.phase == names.PHASE_FAILED and raw.status.failed_attempts >= limit


def place_of(raw: RawBindRequest) -> Place | None:
    """Return where the request puts its pod; None once it failed or is being deleted."""
    if has_failed(raw) or raw.metadata.deletion_timestamp:
        return None
    return Place(raw.spec.selected_node, tuple(sorted(raw.spec.selected_gpu_groups)))


class TopologyLevel(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One level: a node label, and maybe another word for it."""

    node_label: str = ""
    alias: str = ""


class TopologySpec(msgspec.Struct, frozen=True, gc=False):
    """The levels, widest first."""

    levels: tuple[TopologyLevel, ...] = ()


class RawTopology(msgspec.Struct, frozen=True, gc=False):
    """A Topology of the API."""

    metadata: Meta
    spec: TopologySpec = TopologySpec()


decode_topology = decoder(RawTopology)


def topology_of(raw: RawTopology) -> Topology:
    """Return the model's topology."""
    levels = raw.spec.levels
    return Topology(
        raw.metadata.name,
        tuple(level.node_label for level in levels),
        {level.alias: level.node_label for level in levels if level.alias},
    )
