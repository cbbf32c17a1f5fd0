"""Pods, bind requests and a running `kai binder`, as the tests of the binder need them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.testbed.admin import Object
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.process import Process

BIND = "/apis/scheduling.run.ai/v1alpha2/namespaces"
OUR_NAMESPACE = "kai-scheduler"
RESERVED = "kai-resource-reservation"
RESERVATIONS = f"/api/v1/namespaces/{RESERVED}/pods"
IMAGE = "example.local/kai:test"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"


def config(**reservation: Any) -> Object:
    """Return KAI's Config with these settings of reservations."""
    return binder_config(resourceReservation=reservation)


def binder_config(**binder: Any) -> Object:
    """Return KAI's Config with these settings of the binder."""
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "Config",
        "metadata": {"name": "kai-config"},
        "spec": {"binder": binder},
    }


class Bench:
    """A namespace of pods and the requests for them."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.admin, self.namespace = cluster, cluster.admin, namespace
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.requests = f"{BIND}/{namespace}/bindrequests"

    # -- the binder --------------------------------------------------------------------------------
    def start(self, *flags: str, kubeconfig: str | None = None) -> Process:
        """Start the binder with exactly the rights that we ship for it."""
        login = self.cluster.access("kai-binder", OUR_NAMESPACE)
        arguments = ["--no-lease", "--reservation-image", IMAGE, *flags]  # the last word counts
        return self.cluster.kai(
            "binder", "--kubeconfig", kubeconfig or str(login.kubeconfig), *arguments
        )

    @contextmanager
    def binder(self, *flags: str, kubeconfig: str | None = None) -> Iterator[Process]:
        """Give a running binder that ends with the block."""
        process = self.start(*flags, kubeconfig=kubeconfig)
        try:
            yield process
        finally:
            process.kill()

    # -- objects -------------------------------------------------------------------------------------
    def pod(self, name: str, *, gpus: int = 0, cpu: str = "10m", **parts: Any) -> Object:
        """Make a pod that waits for the scheduler; `parts` go into metadata (annotations, labels) and spec."""
        meta: Object = {"name": name, "namespace": self.namespace}
        for key in ("annotations", "labels"):
            if key in parts:
                meta[key] = parts.pop(key)
        asks = {"cpu": cpu, **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
        container = {
            "name": "main",
            "image": IMAGE,
            "resources": {"requests": asks, "limits": asks},
        }
        return self.admin.post(
            self.pods,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": meta,
                "spec": {"schedulerName": "kai-scheduler", "containers": [container], **parts},
            },
        )

    def request(self, pod: Object, node: str, **spec: Any) -> Object:
        """Make KAI's bind request for a pod: named like it, owned by it."""
        meta = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        return self.admin.post(
            self.requests,
            {
                "apiVersion": "scheduling.run.ai/v1alpha2",
                "kind": "BindRequest",
                "metadata": {
                    "name": meta["name"],
                    "namespace": self.namespace,
                    "labels": {"selected-node": node},
                    "ownerReferences": [owner],
                },
                "spec": {
                    "podName": meta["name"],
                    "selectedNode": node,
                    "receivedResourceType": "Regular",
                    **spec,
                },
            },
        )

    def share(
        self, name: str, node: str, *groups: str, portion: str = "0.50", **parts: Any
    ) -> Object:
        """Make a pod with a share as admission leaves it, and the request that gives it devices."""
        annotations = {
            "gpu-fraction": portion,
            "runai/shared-gpu-configmap": f"{name}-abc1234-shared-gpu",
            **({"gpu-fraction-num-devices": str(len(groups))} if len(groups) > 1 else {}),
        }
        pod = self.pod(name, annotations=annotations, **parts)
        self.give(pod, node, *groups, portion=portion)
        return pod

    def give(
        self, pod: Object, node: str, *groups: str, portion: str = "0.50", **spec: Any
    ) -> Object:
        """Make the request that gives a pod shares of devices."""
        return self.request(
            pod,
            node,
            receivedResourceType="Fraction",
            receivedGPU={"count": len(groups), "portion": portion},
            selectedGPUGroups=list(groups),
            **spec,
        )

    # -- what is seen --------------------------------------------------------------------------------
    def bound(self, name: str) -> Object:
        """Return the pod once it is on a node and that was said of it, and its request is carried out."""
        self.admin.wait_for_one(
            f"{self.requests}/{name}",
            lambda one: one.get("status", {}).get("phase") == "Succeeded",
            f"the request of {name} is carried out",
        )
        return self.admin.wait_for_one(
            f"{self.pods}/{name}", lambda one: bool(one["spec"].get("nodeName")), f"{name} is bound"
        )

    def running(self, name: str) -> Object:
        """Return the pod once it runs."""
        return self.admin.wait_for_one(
            f"{self.pods}/{name}",
            lambda one: one["status"].get("phase") == "Running",
            f"{name} runs",
        )

    def failed(self, name: str, attempts: int = 1) -> Object:
        """Return the status of a request once so many tries failed."""
        found = self.admin.wait_for_one(
            f"{self.requests}/{name}",
            lambda one: one.get("status", {}).get("failedAttempts", 0) >= attempts,
            f"{attempts} tries of {name} failed",
        )
        return dict(found["status"])

    def condition(self, name: str) -> Object:
        """Return the pod's condition PodBound."""
        conditions = self.admin.get(f"{self.pods}/{name}")["status"].get("conditions", [])
        return dict(next((one for one in conditions if one["type"] == "PodBound"), {}))

    def events(self, name: str) -> list[str]:
        """Return the reasons of the events of a pod, oldest first."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        found = [one for one in self.admin.list(path) if one["regarding"]["name"] == name]
        return [one["reason"] for one in sorted(found, key=lambda one: one["eventTime"] or "")]

    def variables(self, name: str) -> Object:
        """Return what the container with the share would see."""
        prefix = f"/api/v1/namespaces/{self.namespace}/configmaps/{name}-abc1234-shared-gpu-0"
        first, second = self.admin.get(prefix)["data"], self.admin.get(f"{prefix}-evar")["data"]
        assert second.items() <= first.items()
        return dict(second)

    def config_maps(self) -> set[str]:
        """Return the names of the ConfigMaps that the binder wrote."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        return {one["metadata"]["name"] for one in self.admin.list(path)} - {"kube-root-ca.crt"}

    def reservations(self) -> dict[str, str]:
        """Return the reserved devices by group ("" = not told yet)."""
        return {
            one["metadata"]["labels"]["runai-gpu-group"]: one["metadata"]["annotations"].get(
                "run.ai/reserve_for_gpu_index", ""
            )
            for one in self.admin.list(RESERVATIONS)
        }

    def wait_for_reservations(self, groups: set[str]) -> dict[str, Object]:
        """Return the reservation pods once exactly those of `groups` are there."""
        return self.admin.wait_for(
            RESERVATIONS,
            lambda all_: (
                {one["metadata"]["labels"]["runai-gpu-group"] for one in all_.values()} == groups
            ),
            f"exactly {sorted(groups)} are reserved",
        )

    def assigned(self, name: str) -> Object:
        """Return which device a pod was given for each group."""
        notes = self.admin.get(f"{self.pods}/{name}")["metadata"]["annotations"]
        return dict(json.loads(notes["kai.scheduler/gpu-assigned"]))
