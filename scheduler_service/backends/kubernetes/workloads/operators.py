"""The kinds of other people's operators, where they are asked for by name: PyTorchJob, RayJob, TrainJob. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.workloads import pod, variables
from scheduler_service.backends.kubernetes.workloads.pod import Table
from scheduler_service.backends.kubernetes.workloads.refusals import refusal
from scheduler_service.backends.kubernetes.workloads.wish import Wish
from scheduler_service.model.gpu import WholeGpus
from scheduler_service.wire.pod_group import Workload

NODE_CONTAINER = "node"


def made(workload: Workload, wish: Wish) -> Table:
    """Return the object; its operator makes the pods."""
    if wish.ask.work is None:
        raise refusal("nothing_to_run", f"A {workload} of nothing.", "Name a command or a cell.")
    resource = names.WORKLOADS[workload]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": pod.metadata(wish),
        "spec": _SPECS[workload](wish),
    }


def _pytorch_job(wish: Wish) -> Table:
    """Master and workers are alike; the operator gives them torchrun's variables."""
    others = wish.ask.workers - 1
    hosts = [f"{wish.name}-master-0", *(f"{wish.name}-worker-{n}" for n in range(others))]
    addresses = ",".join(f"{host}:{variables.RANK_PORT}" for host in hosts)
    more = [variables.literal("KAI_GANG_HOSTS", addresses)]
    template = pod.template(wish, container="pytorch", more=more)
    roles = {"Master": 1} | ({"Worker": others} if others else {})
    return {
        "runPolicy": {
            "cleanPodPolicy": "None",
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": wish.rules.keep_s,
            "schedulingPolicy": {"minAvailable": wish.min_members},
        },
        "pytorchReplicaSpecs": {
            role: {"replicas": count, "restartPolicy": "Never", "template": template}
            for role, count in roles.items()
        },
    }


def _ray_job(wish: Wish) -> Table:
    """The head is the first of the workers, and has devices as they have."""
    program, arguments = pod.command(wish)
    cluster: Table = {
        "headGroupSpec": {
            "rayStartParams": {"dashboard-host": "0.0.0.0"},  # noqa: S104 - inside the pod
            "template": _ray_template(wish, "ray-head"),
        }
    }
    others = wish.ask.workers - 1
    if others:
        cluster["workerGroupSpecs"] = [
            {
                "groupName": "workers",
                "replicas": others,
                "minReplicas": wish.min_members - 1,
                "maxReplicas": others,
                "rayStartParams": {},
                "template": _ray_template(wish, "ray-worker"),
            }
        ]
    return {
        "entrypoint": shlex.join(part.replace("$$", "$") for part in (*program, *arguments)),
        "submissionMode": "HTTPMode",
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": 0,
        "rayClusterSpec": cluster,
    }


def _ray_template(wish: Wish, container: str) -> Table:
    """Ray says itself what its containers run."""
    template = pod.template(wish, container=container)
    for part in ("command", "args"):
        del template["spec"]["containers"][0][part]
    return template


def _train_job(wish: Wish) -> Table:
    """The pods are the runtime's: their security, account and scheduler are what the cluster's owner wrote there."""
    if wish.gpu is not None and not isinstance(wish.gpu, WholeGpus):
        raise refusal(
            "bad_amount",
            "The pods of a TrainJob can not ask for a share of a GPU.",
            "Ask for whole GPUs, or for a PyTorchJob.",
        )
    program, arguments = pod.command(wish)
    trainer: Table = {
        "image": wish.image,
        "command": program,
        "args": arguments,
        "numNodes": wish.ask.workers,
        "env": pod.environment(wish),
    }
    if wish.limits:
        trainer["resourcesPerNode"] = {
            "requests": dict(wish.limits),
            "limits": dict(wish.limits),
        }
    found: Table = {
        "runtimeRef": {"name": wish.rules.training_runtime},
        "labels": pod.labels(wish),
        "trainer": trainer,
        "podTemplateOverrides": [_override(wish)],
    }
    return found


def _override(wish: Wish) -> Table:
    whole = pod.spec(wish, container=NODE_CONTAINER, more=[])
    mounts = whole["containers"][0]["volumeMounts"]
    return {
        "targetJobs": [{"name": NODE_CONTAINER}],
        "spec": {
            "serviceAccountName": whole["serviceAccountName"],
            "volumes": whole["volumes"],
            "containers": [{"name": NODE_CONTAINER, "volumeMounts": mounts}],
            **{part: whole[part] for part in ("nodeSelector", "tolerations") if part in whole},
        },
    }


_SPECS: Mapping[Workload, Callable[[Wish], Table]] = {
    "PyTorchJob": _pytorch_job,
    "RayJob": _ray_job,
    "TrainJob": _train_job,
}
