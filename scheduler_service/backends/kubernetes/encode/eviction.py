"""What is sent when a pod has to leave: the eviction itself, and the notice on the pod."""

from __future__ import annotations

import json
from typing import Any

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.model.reasons import Reason, code, sentence


def eviction(pod: RawPod) -> dict[str, Any]:
    """Return the body for the pod's `eviction`: disruption budgets are honoured, the pod's own grace applies."""
    meta = pod.metadata
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": {"preconditions": {"uid": meta.uid}},
    }


def notice(
    pod: RawPod, reason: Reason, *, by_group: str, action: str, at_ms: int
) -> dict[str, Any]:
    """Return the patch that tells the pod (and who looks at it) why it leaves."""
    told = {
        "reason": code(reason),
        "sentence": sentence(reason),
        "action": action,
        "for": by_group,
        "at": at_ms,
    }
    text = json.dumps(told, separators=(",", ":"))
    return {"metadata": {"uid": pod.metadata.uid, "annotations": {names.EVICTION_NOTICE: text}}}
