"""Objects as the API sends them, for tests without an API server."""

from __future__ import annotations

import json
from typing import Any

MADE = "2026-01-05T08:00:00Z"


def raw(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def pod(
    name: str = "p",
    *,
    group: str = "g",
    requests: dict[str, Any] | None = None,
    node: str = "",
    phase: str = "Pending",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    uid: str = "",
    deleted: str = "",
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    notes = {**({"pod-group-name": group} if group else {}), **(annotations or {})}
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "a",
        "uid": uid or f"uid-{name}",
        "resourceVersion": "1",
        "labels": labels or {},
        "annotations": notes,
        "creationTimestamp": MADE,
    }
    if deleted:
        meta["deletionTimestamp"] = deleted
    body: dict[str, Any] = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "c", "resources": {"requests": requests or {}}}],
        **spec,
    }
    if node:
        body["nodeName"] = node
    return {"metadata": meta, "spec": body, "status": {"phase": phase, **(status or {})}}


def node(
    name: str = "n", *, gpus: int = 8, labels: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": more.get("spec", {}),
        "status": {
            "allocatable": {**amounts, **more.get("amounts", {})},
            "conditions": more.get("conditions", [{"type": "Ready", "status": "True"}]),
        },
    }


def group(
    name: str = "g", *, queue: str = "q", labels: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": "a",
        "uid": f"uid-{name}",
        "labels": labels or {},
        "annotations": more.pop("annotations", {}),
        "creationTimestamp": MADE,
    }
    status = more.pop("status", {})
    return {"metadata": meta, "spec": {"queue": queue, **more}, "status": status}


def queue(name: str = "q", *, gpu: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    share = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"gpu": gpu or share, "cpu": share, "memory": share}
    meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": MADE}
    return {"metadata": meta, "spec": {"resources": resources, **more}}
