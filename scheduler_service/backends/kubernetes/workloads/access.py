"""Who may have what made, where: asked of the cluster each time, never remembered.

Rule: our own account may do all that the API does for people, so everything that the cluster would have asked of the
person themselves is asked here: may they make pods there, may they ask that queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import Forbidden, NotFound
from scheduler_service.backends.kubernetes.workloads.refusals import refusal
from scheduler_service.backends.kubernetes.workloads.rules import Rules
from scheduler_service.ports import Caller
from scheduler_service.wire.pod_group import Workload

EVERYBODY = "*"
Table = dict[str, Any]
_decode = msgspec.json.decode


async def require_pods(client: KubeClient, caller: Caller, namespace: str) -> None:
    """Raise the refusal of a caller who may not make pods in a namespace."""
    body = {
        "apiVersion": names.ACCESS_REVIEWS.api_version,
        "kind": names.ACCESS_REVIEWS.kind,
        "spec": {
            "user": caller.user,
            "groups": sorted(caller.groups),
            "resourceAttributes": {"namespace": namespace, "verb": "create", "resource": "pods"},
        },
    }
    answer: Table = _decode(await client.post(names.ACCESS_REVIEWS.path(), body))
    if not answer.get("status", {}).get("allowed", False):
        raise refusal(
            "pods_not_allowed",
            f"{caller.user} may not make pods in the namespace {namespace}.",
            "Name a namespace of yours, or ask whoever keeps it for the role 'edit'.",
            namespace=namespace,
        )


async def require_open(client: KubeClient, namespace: str) -> Mapping[str, str]:
    """Return the labels of a namespace. Raises the refusal of one that is not open for what we make."""
    try:
        found: Table = _decode(await client.get(names.NAMESPACES.path(name=namespace)))
    except NotFound:
        found = {}
    labels: Mapping[str, str] = found.get("metadata", {}).get("labels", {})
    if labels.get(names.MANAGED_LABEL) != "true":
        raise refusal(
            "namespace_not_open",
            f"The namespace {namespace} is not open for requests of notebooks.",
            f"Its keeper opens it: kubectl label namespace {namespace} {names.MANAGED_LABEL}=true.",
            namespace=namespace,
        )
    return labels


async def queue_for(
    client: KubeClient,
    caller: Caller,
    asked: str | None,
    *,
    labels: Mapping[str, str],
    place: tuple[str, Rules],
) -> str:
    """Return the queue of a request: the one asked for, that of the namespace, or the default; if it may be asked.

    `labels` are the namespace's, `place` is its name and the rules.
    """
    namespace, rules = place
    name = asked or labels.get(rules.queue_label) or rules.default_queue
    try:
        queue: Table = _decode(await client.get(names.QUEUES.path(name=name)))
    except NotFound:
        raise refusal(
            "unknown_queue",
            f"There is no queue {name}.",
            "'kubectl get queues' lists them.",
            queue=name,
        ) from None
    spec = queue.get("spec", {})
    if not _is_open(spec.get("namespaces"), {namespace}):
        raise refusal(
            "not_your_queue",
            f"The queue {name} can not be asked from the namespace {namespace}.",
            f"Its namespaces are: {', '.join(spec['namespaces']) or 'none'}.",
            queue=name,
        )
    who = {f"user:{caller.user}", *(f"group:{group}" for group in caller.groups)}
    if not _is_open(spec.get("subjects"), who):
        raise refusal(
            "not_your_queue",
            f"{caller.user} may not ask in queue {name}.",
            "Choose another queue, or ask who keeps this one.",
            queue=name,
        )
    return name


def _is_open(allowed: list[str] | None, who: set[str]) -> bool:
    """Whether a list names one of these; without a list everybody is meant."""
    return allowed is None or EVERYBODY in allowed or bool(who.intersection(allowed))


async def require_installed(client: KubeClient, workload: Workload) -> None:
    """Raise the refusal of a kind that the cluster does not serve."""
    resource = names.WORKLOADS[workload]
    root = f"/apis/{resource.group}/{resource.version}"
    try:
        served: Table = _decode(await client.get(root))
    except (NotFound, Forbidden):
        served = {}
    if all(row.get("name") != resource.plural for row in served.get("resources", ())):
        raise refusal(
            "kind_not_installed",
            f"This cluster serves no {workload} ({resource.api_version}).",
            "Leave the kind out: a gang is a Job then; or have its operator installed.",
            workload=workload,
        )
