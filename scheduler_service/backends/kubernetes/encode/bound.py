"""What is said on a pod that was bound, or could not be: KAI's condition and event, the binding itself. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

from scheduler_service.backends.kubernetes import names

NOTE_LIMIT = 1000


def binding(name: str, uid: str, node: str, annotations: dict[str, str]) -> dict[str, Any]:
    """Return the body that puts this incarnation of a pod on a node; the annotations come with it, or not at all."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "uid": uid, "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def bound_condition(uid: str, failure: str, now: str) -> dict[str, Any]:
    """Return the patch of a pod's status that says it was bound, or why not."""
    condition = {
        "type": names.POD_BOUND,
        "status": "False" if failure else "True",
        "reason": names.BINDING_ERROR if failure else names.BOUND,
        "message": failure[:NOTE_LIMIT],
        "lastTransitionTime": now,
    }
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}


def bound_event(pod: str, uid: str, node: str, failure: str, now: str) -> dict[str, Any]:
    """Return the event that says so; the same news has the same name, so that it is told once."""
    namespace, _, name = pod.partition("/")
    reason = names.BINDING_ERROR if failure else names.BOUND
    note = failure[:NOTE_LIMIT] if failure else f"The pod is bound to node {node}."
    digest = hashlib.sha256(f"{uid}/{node}/{reason}/{note}".encode()).hexdigest()[:16]
    return {
        "apiVersion": names.EVENTS.api_version,
        "kind": names.EVENTS.kind,
        "metadata": {"name": f"{name[:200]}.{digest}", "namespace": namespace},
        "type": "Warning" if failure else "Normal",
        "reason": reason,
        "note": note,
        "action": "Binding",
        "eventTime": now,
        "reportingController": "kai-binder",
        "reportingInstance": "kai-binder",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": namespace,
            "name": name,
            "uid": uid,
        },
    }
