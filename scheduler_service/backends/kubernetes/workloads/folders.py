"""A person's folder as the cluster has it: is there such a claim, and where can it be used just now."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import NotFound
from scheduler_service.backends.kubernetes.workloads.refusals import refusal
from scheduler_service.backends.kubernetes.workloads.wish import Folder

SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})
ENDED = frozenset({"Succeeded", "Failed"})
Table = dict[str, Any]
_decode = msgspec.json.decode


async def find(client: KubeClient, namespace: str, claim: str) -> Folder:
    """Return the folder; where one node alone can use it and a pod does, with that node."""
    try:
        raw = await client.get(names.VOLUME_CLAIMS.path(namespace, claim))
    except NotFound:
        raise refusal(
            "bad_folder",
            f"There is no volume claim {claim} in {namespace}.",
            "Name another folder; 'kubectl get pvc' lists them.",
            claim=claim,
        ) from None
    spec: Table = _decode(raw).get("spec", {})
    if SHARED.intersection(spec.get("accessModes", ())):
        return Folder(claim)
    pods = [_decode(each) for each in await client.items(names.PODS, namespace)]
    return Folder(claim, node_of(claim, pods))


def node_of(claim: str, pods: list[Table]) -> str:
    """Return the node where a pod uses the claim, "" if none does."""
    for pod in pods:
        spec = pod.get("spec", {})
        if pod.get("status", {}).get("phase") in ENDED or not spec.get("nodeName"):
            continue
        for volume in spec.get("volumes", ()):
            if (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim:
                return str(spec["nodeName"])
    return ""
