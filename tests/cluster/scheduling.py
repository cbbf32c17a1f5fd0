"""Queues, groups, pods and a running `kai serve --backend kubernetes`, as the tests of scheduling need them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.testbed.admin import Object
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.process import Process

KAI = "scheduling.run.ai"
UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
LOOKOUT = "lookout"
"""A tainted node on which nothing but look-outs go."""
_TAINT = {"key": "testbed.kai/lookout", "effect": "NoSchedule"}


@contextmanager
def scheduler(cluster: Cluster, *flags: str, kubeconfig: str | None = None) -> Iterator[Process]:
    """Give a running scheduler with exactly the rights that we ship for it; it ends with the block."""
    login = cluster.access("kai-scheduler")
    process = cluster.kai(
        "serve",
        "--backend",
        "kubernetes",
        "--kubeconfig",
        kubeconfig or str(login.kubeconfig),
        *flags,
    )
    try:
        yield process
    finally:
        process.kill()


def share(quota: float = 0, limit: float = -1, weight: float = 1) -> Object:
    """Return what a queue has of one resource, in the API's units."""
    return {"quota": quota, "limit": limit, "overQuotaWeight": weight}


class Stage:
    """One test's namespace, queues and pods. Names of queues begin with the namespace, so that tests do not meet."""

    def __init__(self, cluster: Cluster, namespace: str, *, has_lookout: bool = True) -> None:
        self.cluster, self.admin, self.namespace = cluster, cluster.admin, namespace
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.groups = f"/apis/{KAI}/v2alpha2/namespaces/{namespace}/podgroups"
        self.requests = f"/apis/{KAI}/v1alpha2/namespaces/{namespace}/bindrequests"
        self.default = self.queue("main")
        self._lookouts = itertools.count(1)
        if has_lookout:
            cluster.nodes.add(LOOKOUT, gpus=0, taints=(_TAINT,))

    def queue(self, name: str, parent: str = "", **spec: Any) -> str:
        """Make a queue and return its name; `gpu`, `cpu`, `memory` as `share` returns them, else unlimited."""
        full = f"{self.namespace}-{name}"
        resources = {kind: spec.pop(kind, UNLIMITED) for kind in ("gpu", "cpu", "memory")}
        body: Object = {
            "apiVersion": f"{KAI}/v2",
            "kind": "Queue",
            "metadata": {"name": full},
            "spec": {"resources": resources, **spec},
        }
        if parent:
            body["spec"]["parentQueue"] = parent
        self.admin.create(body)
        return full

    def group(self, name: str, queue: str = "", **spec: Any) -> str:
        """Make a PodGroup by hand and return its name."""
        annotations = spec.pop("annotations", {})
        labels = spec.pop("labels", {})
        self.admin.create(
            {
                "apiVersion": f"{KAI}/v2alpha2",
                "kind": "PodGroup",
                "metadata": {
                    "name": name,
                    "namespace": self.namespace,
                    "annotations": annotations,
                    "labels": labels,
                },
                "spec": {"queue": queue or self.default, **spec},
            }
        )
        return name

    def pod(
        self,
        name: str,
        group: str = "",
        *,
        gpus: int = 0,
        cpu: str = "",
        memory: str = "",
        asks: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> str:
        """Make a pod of a group and return its name."""
        amounts: dict[str, str] = dict(asks or {})
        for key, amount in (
            ("nvidia.com/gpu", gpus and str(gpus)),
            ("cpu", cpu),
            ("memory", memory),
        ):
            if amount:
                amounts[key] = str(amount)
        container = {
            "name": "main",
            "image": "example.local/box:test",
            "resources": {"requests": amounts, "limits": amounts},
        }
        notes = {**({"pod-group-name": group} if group else {}), **(annotations or {})}
        self.admin.post(
            self.pods,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "annotations": notes, "labels": labels or {}},
                "spec": {
                    "schedulerName": "kai-scheduler",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                    **spec,
                },
            },
        )
        return name

    def alone(self, name: str, queue: str = "", **parts: Any) -> str:
        """Make a pod with a group of its own; `group` goes into the group's spec."""
        self.group(name, queue, **parts.pop("group", {}))
        return self.pod(name, name, **parts)

    def shard(self, running: Process, name: str = "default", **spec: Any) -> None:
        """Make or change the shard, and wait until the scheduler says that it holds."""
        body = {
            "apiVersion": "kai.scheduler/v1",
            "kind": "SchedulingShard",
            "metadata": {"name": name},
            "spec": spec,
        }
        path = f"/apis/kai.scheduler/v1/schedulingshards/{name}"
        if self.admin.find(path) is None:
            made = self.admin.create(body)
        else:
            made = self.admin.put(path, {**self.admin.get(path), "spec": spec})
        says = f"in force: {name} {made['metadata']['resourceVersion']}"
        running.wait_until(lambda: says in running.log.read_text(), says)

    # -- what became of them ---------------------------------------------------------------------------
    def bound(self, *pods: str) -> list[str]:
        """Return the nodes of pods, once all of them are bound."""
        found = self.admin.wait_for(
            self.pods,
            lambda all_: all(_node(all_, pod) for pod in pods),
            f"{', '.join(pods)} bound",
        )
        return [_node(found, pod) for pod in pods]

    def settled(self) -> dict[str, str]:
        """Return pod -> node (waiting ones left out), once all made so far was decided upon.

        A look-out that comes later and has a place of its own is bound: so everything before it was looked at. A
        second one gives the bindings that were under way beside the first the time of another whole turn.
        """
        for _ in range(2):
            self._look_out()
        pods = self.admin.list(self.pods)
        return {
            one["metadata"]["name"]: one["spec"]["nodeName"]
            for one in pods
            if one["spec"].get("nodeName")
            and not one["metadata"]["name"].startswith("lookout-")
            and "deletionTimestamp" not in one["metadata"]
        }

    def _look_out(self) -> None:
        name = f"lookout-{next(self._lookouts)}"
        parts = {"tolerations": [{"key": _TAINT["key"], "operator": "Exists"}]}
        self.alone(name, nodeSelector={"kubernetes.io/hostname": LOOKOUT}, **parts)
        self.bound(name)

    def running(self, *pods: str) -> None:
        """Wait until pods run."""
        self.admin.wait_for(
            self.pods,
            lambda all_: all(
                all_.get(pod, {}).get("status", {}).get("phase") == "Running" for pod in pods
            ),
            f"{', '.join(pods)} run",
        )

    def gone(self, *pods: str) -> None:
        """Wait until pods are there no more."""
        self.admin.wait_for(
            self.pods, lambda all_: not set(pods) & all_.keys(), f"{', '.join(pods)} gone"
        )

    def request(self, pod: str) -> Object:
        """Return the spec of a pod's BindRequest, once it is there."""
        found = self.admin.wait_for_one(f"{self.requests}/{pod}", bool, f"a BindRequest for {pod}")
        spec: Object = found["spec"]
        return spec

    def path(self, pod: str) -> str:
        """Return the path of a pod."""
        return f"{self.pods}/{pod}"


def _node(pods: dict[str, Object], name: str) -> str:
    return str(pods.get(name, {}).get("spec", {}).get("nodeName") or "")
