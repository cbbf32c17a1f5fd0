"""From a request to the objects that are made for it, the one that stands for it first. Pure."""

from __future__ import annotations

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.workloads import operators, pod, variables
from scheduler_service.backends.kubernetes.workloads.pod import Table
from scheduler_service.backends.kubernetes.workloads.rules import Rules
from scheduler_service.backends.kubernetes.workloads.wish import (
    Folder,
    Wish,
    in_cluster,
    tied,
    understood,
)
from scheduler_service.grouping import keys
from scheduler_service.wire.pod_group import Submit

JOB_NAME_LABEL = "batch.kubernetes.io/job-name"


def make(
    ask: Submit,
    *,
    owner: str,
    namespace: str,
    name: str,
    rules: Rules,
    folder: Folder | None = None,
) -> tuple[Table, ...]:
    """Return a pod, an indexed Job with its headless Service, or the kind that was asked for.

    `folder` is the person's claim as it was found. Raises the refusal of what is never made.
    """
    wish = understood(ask, owner=owner, namespace=namespace, name=name, rules=rules)
    wish = tied(wish, folder)
    workload = in_cluster(ask).workload
    if workload is not None:
        return (operators.made(workload, wish),)
    if ask.workers == 1:
        return (_pod(wish),)
    return (_job(wish), _service(wish))


def _pod(wish: Wish) -> Table:
    template = pod.template(wish)
    notes = template["metadata"].get("annotations", {})
    return {
        "apiVersion": names.PODS.api_version,
        "kind": names.PODS.kind,
        "metadata": pod.metadata(wish, annotations=notes),
        "spec": template["spec"],
    }


def _job(wish: Wish) -> Table:
    """A worker that fails or is evicted ends the gang: what it computed together it can not go on with alone."""
    workers = wish.ask.workers
    hosts = [f"{wish.name}-{rank}.{wish.name}" for rank in range(workers)]
    template = pod.template(wish, more=variables.gang(hosts))
    template["spec"]["subdomain"] = wish.name
    return {
        "apiVersion": names.JOBS.api_version,
        "kind": names.JOBS.kind,
        "metadata": pod.metadata(wish, annotations={keys.BATCH_MIN_MEMBER: str(wish.min_members)}),
        "spec": {
            "completionMode": "Indexed",
            "parallelism": workers,
            "completions": workers,
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": wish.rules.keep_s,
            "template": template,
        },
    }


def _service(wish: Wish) -> Table:
    """Return what gives the workers their host names, from the moment they have an address."""
    ports = (("rendezvous", variables.MASTER_PORT), ("rank", variables.RANK_PORT))
    return {
        "apiVersion": names.SERVICES.api_version,
        "kind": names.SERVICES.kind,
        "metadata": {
            "name": wish.name,
            "namespace": wish.namespace,
            "labels": {**pod.MANAGED_BY, names.REQUEST_LABEL: wish.name},
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB_NAME_LABEL: wish.name},
            "ports": [{"name": name, "port": port} for name, port in ports],
        },
    }
