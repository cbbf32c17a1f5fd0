"""A pod that stands for shares of GPUs which wait, so that an autoscaler sees that a GPU is missing. Pure.

It asks for whole GPUs as its origin would find them, is of no scheduler of ours, and ends at once where it runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.objects import RawPod, encode

CLASS_ANNOTATION = "kai.scheduler/scaling-class"
"""Which nodes the pod may be on, in short: pods of one class stand for each other."""
ACCOUNT = "kai-scaling-pod"
LONGEST_NAME = 200
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 10000,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def where(pod: RawPod) -> dict[str, Any]:
    """Return what of a pod's spec says on which nodes it may be."""
    spec = pod.spec
    found: dict[str, Any] = {}
    if spec.node_selector:
        found["nodeSelector"] = dict(spec.node_selector)
    if spec.affinity is not None and spec.affinity.node_affinity is not None:
        found["affinity"] = {"nodeAffinity": _plain(spec.affinity.node_affinity)}
    if spec.tolerations:
        found["tolerations"] = [_plain(each) for each in spec.tolerations]
    return found


def _plain(value: msgspec.Struct) -> Any:
    """Return a struct as the API writes it, without what is not said."""
    return _said(msgspec.json.decode(encode(value)))


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _said(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, "", [], {})}
    return [_said(item) for item in value] if isinstance(value, list) else value


def class_of(pod: RawPod) -> str:
    """Return a short name for the nodes that a pod may be on."""
    return hashlib.sha256(msgspec.json.encode(where(pod), order="deterministic")).hexdigest()[:12]


def scaling_name(origin: RawPod) -> str:
    """Return KAI's name for the pod that stands for another, with its end cut where it is too long."""
    name = f"{origin.metadata.namespace}-{origin.metadata.name}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9].rstrip('-.')}-{digest}"


def scaling_pod(
    origin: RawPod, image: str, *, devices: int, amounts: Mapping[str, str]
) -> dict[str, Any]:
    """Return the pod; `amounts`: CPU and memory of all shares it stands for."""
    asked = {**amounts, names.GPU_RESOURCE: str(devices)}
    meta = origin.metadata
    container = {
        "name": "scaling",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", ""],
        "resources": {"requests": asked, "limits": {names.GPU_RESOURCE: str(devices)}},
        "securityContext": _RESTRICTED,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": scaling_name(origin),
            "namespace": names.SCALE_ADJUST_NAMESPACE,
            "labels": {
                "app": names.SCALE_ADJUST_NAMESPACE,
                names.SCALING_POD_NAME_LABEL: meta.name[:63].rstrip("-._"),
                names.SCALING_POD_NAMESPACE_LABEL: meta.namespace,
            },
            "annotations": {CLASS_ANNOTATION: class_of(origin)},
        },
        "spec": {
            **where(origin),
            "serviceAccountName": ACCOUNT,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [container],
        },
    }
