"""A bind request as the binder keeps it, decoded from the API's bytes. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.objects import Meta, decoder


class ClaimGrant(msgspec.Struct, frozen=True, gc=False):
    """What one claim of the pod gets: its name in the pod, and an AllocationResult as it came."""

    name: str = ""
    allocation: dict[str, Any] = {}


class _ReceivedGpu(msgspec.Struct, gc=False):
    count: int = 0
    portion: str = ""


class _RequestSpec(msgspec.Struct, gc=False, rename="camel"):
    pod_name: str = ""
    selected_node: str = ""
    pod_uid: str = msgspec.field(default="", name="podUID")
    received_resource_type: str = ""
    received_gpu: _ReceivedGpu | None = msgspec.field(default=None, name="receivedGPU")
    selected_gpu_groups: list[str] | None = msgspec.field(default=None, name="selectedGPUGroups")
    resource_claim_allocations: list[ClaimGrant] | None = None
    backoff_limit: int | None = None


class _RequestStatus(msgspec.Struct, gc=False, rename="camel"):
    phase: str = ""
    reason: str = ""
    failed_attempts: int = 0


class _RequestObject(msgspec.Struct, gc=False):
    metadata: Meta
    spec: _RequestSpec = msgspec.field(default_factory=_RequestSpec)
    status: _RequestStatus | None = None


class Request(msgspec.Struct, frozen=True, gc=False):
    """One decision to carry out. `pod_uid` is empty where its writer did not say which incarnation it meant."""

    key: str
    uid: str
    pod: str
    node: str
    pod_uid: str = ""
    received: str = names.RECEIVED_REGULAR
    """KAI's word for what the pod gets: Regular, Fraction, MigInstance."""
    groups: tuple[str, ...] = ()
    portion: str = ""
    claims: tuple[ClaimGrant, ...] = ()
    backoff_limit: int | None = None
    phase: str = ""
    reason: str = ""
    failed_attempts: int = 0
    is_leaving: bool = False

    @property
    def is_share(self) -> bool:
        """Whether it gives shares of devices."""
        return self.received == names.RECEIVED_FRACTION

    @property
    def namespace(self) -> str:
        """Where the pod and the request live."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """The request's own name."""
        return self.key.partition("/")[2]

    @property
    def pod_name(self) -> str:
        """The pod's name without its namespace."""
        return self.pod.partition("/")[2]

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do: carried out, failed for good, or on its way out."""
        return self.is_leaving or self.phase == names.PHASE_SUCCEEDED or self.is_failed

    @property
    def is_failed(self) -> bool:
        """Whether it failed and no try is left."""
        tries = self.backoff_limit or 0
        return self.phase == names.PHASE_FAILED and self.failed_attempts >= tries


_decode = decoder(_RequestObject)


def request_of(raw: bytes) -> Request:
    """Return the decision in a BindRequest."""
    found = _decode(raw)
    meta, spec = found.metadata, found.spec
    status = found.status or _RequestStatus()
    owned_by = next((o.uid for o in meta.owner_references if o.kind == "Pod"), "")
    return Request(
        key=meta.key,
        uid=meta.uid,
        pod=f"{meta.namespace}/{spec.pod_name or meta.name}",
        node=spec.selected_node,
        pod_uid=spec.pod_uid or owned_by,
        received=spec.received_resource_type or names.RECEIVED_REGULAR,
        groups=tuple(spec.selected_gpu_groups or ()),
        portion=spec.received_gpu.portion if spec.received_gpu else "",
        claims=tuple(spec.resource_claim_allocations or ()),
        backoff_limit=spec.backoff_limit,
        phase=status.phase,
        reason=status.reason,
        failed_attempts=status.failed_attempts,
        is_leaving=bool(meta.deletion_timestamp),
    )
