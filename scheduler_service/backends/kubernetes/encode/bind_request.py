"""KAI's BindRequest: what a binder is to carry out for one pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuShare, Mig, WholeGpus
from scheduler_service.model.pod import PodRequest


def received_type(request: PodRequest) -> str:
    """Return KAI's word for what a pod gets."""
    if isinstance(request.gpu, Mig):
        return "MigInstance"
    is_share = isinstance(request.gpu, FractionOfGpu | GpuMemory)
    return names.RECEIVED_FRACTION if is_share else names.RECEIVED_REGULAR


def bind_request(
    pod: RawPod,
    node: str,
    request: PodRequest,
    shares: Sequence[GpuShare],
    *,
    labels: Mapping[str, str],
    allocations: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the object. `labels`: those of the node pool; `allocations`: of the pod's resource claims."""
    meta = pod.metadata
    spec: dict[str, Any] = {
        "podName": meta.name,
        "selectedNode": node,
        "receivedResourceType": received_type(request),
        "receivedGPU": _received(request, shares),
    }
    if shares:
        spec["selectedGPUGroups"] = [share.device for share in shares]
    if allocations:
        spec["resourceClaimAllocations"] = list(allocations)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
    return {
        "apiVersion": names.BIND_REQUESTS.api_version,
        "kind": names.BIND_REQUESTS.kind,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": {names.SELECTED_NODE_LABEL: node[:63].rstrip("-._"), **labels},
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def _received(request: PodRequest, shares: Sequence[GpuShare]) -> dict[str, Any]:
    if shares:
        part = max(10, shares[0].milli)  # less than a hundredth would be said as nothing
        return {"count": len(shares), "portion": f"{part / 1000:.2f}"}
    count = request.gpu.count if isinstance(request.gpu, WholeGpus) else 0
    return {"count": count, "portion": "1.00" if count else "0.00"}
