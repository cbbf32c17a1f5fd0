"""The pod that takes one whole GPU from the device plug-in for those who share it. Pure.

Its name follows from node and group, so that whoever makes it twice meets the first one. It tolerates every taint,
is kept under node pressure, and asks autoscalers to leave its node: its users would lose their device with it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.binder.options import BinderOptions
from scheduler_service.backends.kubernetes.objects import Toleration

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 10000,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
MOST_WORDS = 300
SMALL = {"cpu": "10m", "memory": "32Mi"}


def reservation_name(node: str, group: str) -> str:
    """Return the name of the reservation of a group on a node: KAI's, so that each finds the other's."""
    digest = hashlib.sha256(f"{node}/{group}".encode()).digest()
    return f"gpu-reservation-{digest[:8].hex()}"


def reservation_pod(
    options: BinderOptions,
    node: str,
    group: str,
    user: tuple[str, str],
    tolerations: tuple[Toleration, ...] = (),
) -> dict[str, Any]:
    """Return the pod; `user` = (UID, key) of the first pod that is given the device."""
    spec: dict[str, Any] = {
        "nodeName": node,
        "serviceAccountName": options.reservation_account,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 0,
        "enableServiceLinks": False,
        "tolerations": [*(_plain(each) for each in tolerations), {"operator": "Exists"}],
        "containers": [_container(options)],
    }
    if options.reservation_priority_class:
        spec["priorityClassName"] = options.reservation_priority_class
    if options.reservation_runtime_class:
        spec["runtimeClassName"] = options.reservation_runtime_class
    return {
        "apiVersion": names.PODS.api_version,
        "kind": names.PODS.kind,
        "metadata": {
            "name": reservation_name(node, group),
            "namespace": options.reservation_namespace,
            "labels": {"app": options.reservation_app, names.GPU_GROUP_LABEL: group},
            "annotations": {
                names.DO_NOT_DISRUPT: "true",
                names.RESERVED_FOR_PREFIX + user[0]: user[1],
            },
        },
        "spec": _merged(spec, options.reservation_template or {}),
    }


def _container(options: BinderOptions) -> dict[str, Any]:
    given = options.reservation_resources or {}
    gpu = {names.GPU_RESOURCE: "1"}
    field = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    return {
        "name": "resource-reservation",
        "image": options.reservation_image,
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "command": list(options.reservation_command),
        "env": [
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in field.items()
        ],
        "resources": {
            "requests": {**SMALL, **given.get("requests", {}), **gpu},
            "limits": {**given.get("limits", {}), **gpu},
        },
        "securityContext": RESTRICTED,
    }


def _plain(toleration: Toleration) -> dict[str, str]:
    found = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {key: value for key, value in found.items() if value}


def _merged(base: dict[str, Any], extra: Any) -> dict[str, Any]:
    """Return `base` with `extra` laid over it; the first container is merged with the extra one."""
    merged = {**base, **{k: v for k, v in extra.items() if k != "containers"}}
    for container in list(extra.get("containers", ()))[:1]:
        merged["containers"] = [{**base["containers"][0], **container}]
    return merged


def told_by_kubelet(raw: bytes) -> str:
    """Return in a few words how a reservation pod is, as its kubelet told."""
    status = msgspec.json.decode(raw).get("status") or {}
    for container in status.get("containerStatuses") or ():
        for kind in ("waiting", "terminated"):
            state = (container.get("state") or {}).get(kind)
            last = (container.get("lastState") or {}).get("terminated") or {}
            if state:
                words = [state.get("reason"), state.get("message"), last.get("message")]
                return ": ".join(word for word in words if word)[:MOST_WORDS] or kind
    words = [status.get("phase") or "Pending", status.get("reason"), status.get("message")]
    return ": ".join(word for word in words if word)[:MOST_WORDS]
