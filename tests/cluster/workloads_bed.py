"""A namespace that is open for what the API makes, and our Creator in it with the rights that the chart gives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from scheduler_service.backends.kubernetes.access import Access
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.workloads.creator import Creator
from scheduler_service.ports import Caller, RefusedRequest
from scheduler_service.wire.pod_group import ClusterAsk, Submit, Work
from tests.cluster.admission_bed import EVERYTHING_OF_ONES_OWN, RBAC
from tests.cluster.testbed.cluster import Cluster
from tools.manifests import rendered

IMAGE = "example.local/notebook:1"
RULES = ("submit.images={example.local/*}", "submit.plainImages={plain.local/*}")
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
OPEN = {"kai.scheduler/managed": "true"}
ANA = Caller("ana", frozenset({"system:authenticated"}))
HOME = "home"


class Lab:
    """A namespace that is open for requests, and our Creator with the rights that the chart gives it there."""

    def __init__(self, cluster: Cluster, namespace: str, proxy: Any = None) -> None:
        self.cluster, self.admin, self.namespace = cluster, cluster.admin, namespace
        self.login = proxy or cluster.access("kai-scheduler")

    def create(self, ask: Submit, key: str | None = "key", caller: Caller = ANA) -> Any:
        return self._do(lambda creator: creator.create(caller, ask, key))

    def end(self, name: str) -> None:
        self._do(lambda creator: creator.end(self.namespace, name, "Ana let it go."))

    def _do(self, action: Any) -> Any:
        async def story() -> Any:
            async with KubeClient(Access.load(self.login.kubeconfig)) as client:
                return await action(Creator(client))

        return asyncio.run(story())

    def refusal(self, ask: Submit, caller: Caller = ANA) -> Any:
        with pytest.raises(RefusedRequest) as caught:
            self.create(ask, None, caller)
        problem = caught.value.problem
        assert problem.detail.endswith("."), problem
        assert problem.hint.endswith("."), problem
        return problem

    def all(self, kind: str) -> list[dict[str, Any]]:
        group = {"jobs": "/apis/batch/v1"}.get(kind, "/api/v1")
        found: list[dict[str, Any]] = self.admin.list(f"{group}/namespaces/{self.namespace}/{kind}")
        return found

    def one(self, kind: str) -> dict[str, Any]:
        (found,) = self.all(kind)
        return found


def opened(cluster: Cluster, helm_program: str, **labels: str) -> str:
    """Make a namespace, and give it what the chart gives to those that it is told of."""
    namespace = cluster.new_namespace(**labels)
    choices = (*RULES, f"submit.namespaces={{{namespace}}}", f"submit.namespace={namespace}")
    documents = [d for d in yaml.safe_load_all(rendered(helm_program, *choices)) if d]
    there = [d for d in documents if d["metadata"].get("namespace") == namespace]
    assert {d["kind"] for d in there} == {"ServiceAccount", "RoleBinding", "NetworkPolicy"}
    rules = [d for d in documents if d["metadata"]["name"] == "kai-submit"]
    cluster.apply([*there, *rules])
    cluster.admin.create(claim(namespace))
    may_edit(cluster, namespace, "ana")
    return namespace


def claim(namespace: str) -> dict[str, Any]:
    """Return the volume claim of Ana's home."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": HOME, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def may_edit(cluster: Cluster, namespace: str, user: str) -> None:
    meta = {"name": f"{user}-edits", "namespace": namespace}
    version = f"{RBAC}/v1"
    cluster.apply(
        [
            {
                "apiVersion": version,
                "kind": "Role",
                "metadata": meta,
                "rules": EVERYTHING_OF_ONES_OWN,
            },
            {
                "apiVersion": version,
                "kind": "RoleBinding",
                "metadata": meta,
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": meta["name"]},
                "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}],
            },
        ]
    )


def ask(**parts: Any) -> Submit:
    work = Work(command=("python", "train.py"), env={"OMP_NUM_THREADS": "2"})
    chosen = {"image": IMAGE, "folder": HOME, **parts.pop("cluster", {})}
    defaults: dict[str, Any] = {"kind": "batch", "work": work, "signature": "s", "cpu": 1}
    return Submit(**{**defaults, **parts}, cluster=ClusterAsk(**chosen))
