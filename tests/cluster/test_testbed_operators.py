"""Other people's operators on the test cluster."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.operators import SOURCES, apply_crds, start_kuberay

GROUPS = {"kubeflow.org", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "ray.io"}


def test_the_crds_of_four_projects_are_served(cluster: Cluster) -> None:
    apply_crds(cluster)
    served = {one["name"] for one in cluster.admin.get("/apis")["groups"]}
    assert len(SOURCES) == len(GROUPS & served) == 4


def test_kuberay_makes_pods_of_a_cluster_scales_and_removes_them(
    cluster: Cluster, namespace: str, say: Any
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.nodes.add("ray", count=2, gpus=2)
    operator = start_kuberay(cluster, say)
    try:
        path = cluster.admin.path_of(cluster.admin.create(ray_cluster(namespace, workers=2)))
        made = cluster.admin.wait_for(pods, lambda all_: len(all_) == 3, "a head and two workers")
        assert {one["spec"]["schedulerName"] for one in made.values()} == {"kai-scheduler"}
        for name in made:
            bind(cluster, namespace, name)
        cluster.admin.wait_for(
            pods,
            lambda all_: all(one["status"]["phase"] == "Running" for one in all_.values()),
            "all of them run",
        )
        cluster.admin.patch(path, ray_cluster(namespace, workers=1))
        cluster.admin.wait_for(pods, lambda all_: len(all_) == 2, "one worker less")
        cluster.admin.delete(path)
        cluster.admin.wait_for(pods, lambda all_: not all_, "nothing is left of it")
    finally:
        operator.stop()


def test_what_the_operator_says_is_kept(cluster: Cluster, say: Any) -> None:
    """When a test about it fails, its log is what one reads."""
    operator = start_kuberay(cluster, say)
    try:
        operator.wait_until(lambda: "Starting" in operator.tail(), "it says that it starts")
    finally:
        operator.stop()
    assert any(
        "level" in json.loads(line) for line in operator.tail().splitlines() if line[:1] == "{"
    )


def bind(cluster: Cluster, namespace: str, name: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": "ray-0"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    cluster.admin.post(f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body)


def ray_cluster(namespace: str, *, workers: int) -> Any:
    template = {
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "ray", "image": "example.local/ray:1"}],
        }
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "small", "namespace": namespace},
        "spec": {
            "rayVersion": "2.46.0",
            "headGroupSpec": {"rayStartParams": {}, "template": template},
            "workerGroupSpecs": [
                {
                    "groupName": "workers",
                    "replicas": workers,
                    "minReplicas": 1,
                    "maxReplicas": 5,
                    "rayStartParams": {},
                    "template": template,
                }
            ],
        },
    }
