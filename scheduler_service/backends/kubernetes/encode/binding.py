"""The call that puts a plain pod on a node."""

from __future__ import annotations

from typing import Any

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.objects import RawPod


def binding(pod: RawPod, node: str) -> dict[str, Any]:
    """Return the body for the pod's `binding`; its UID keeps a re-created pod of that name from being bound.

    The API copies a binding's annotations to the pod, so KAI's notes of its group and of what it received cost no
    further write.
    """
    notes = {names.RECEIVED_TYPE: names.RECEIVED_REGULAR}
    if group := pod.metadata.annotations.get(names.POD_GROUP_ANNOTATION):
        notes[names.POD_GROUP_ANNOTATION] = group
    meta = {
        "name": pod.metadata.name,
        "namespace": pod.metadata.namespace,
        "uid": pod.metadata.uid,
        "annotations": notes,
    }
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
