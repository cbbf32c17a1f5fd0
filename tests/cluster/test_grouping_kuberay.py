"""A real operator's workload under our scheduler: KubeRay makes the pods, we group and place them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.scheduling import Stage, scheduler
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.operators import start_kuberay


@pytest.fixture(scope="module", autouse=True)
def running(kai_cluster: Cluster, say: Callable[[str], None]) -> Iterator[None]:
    operator = start_kuberay(kai_cluster, say)
    try:
        with scheduler(kai_cluster):
            yield
    finally:
        operator.stop()


def ray_cluster(stage: Stage, *, workers: int) -> dict[str, Any]:
    container = {
        "name": "ray",
        "image": "example.local/ray:1",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    template = {"spec": {"schedulerName": "kai-scheduler", "containers": [container]}}
    group = {
        "groupName": "workers",
        "replicas": workers,
        "minReplicas": 2,
        "maxReplicas": 5,
        "rayStartParams": {},
        "template": template,
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": "small",
            "namespace": stage.namespace,
            "labels": {"kai.scheduler/queue": stage.default},
        },
        "spec": {
            "rayVersion": "2.46.0",
            "headGroupSpec": {"rayStartParams": {}, "template": template},
            "workerGroupSpecs": [group],
        },
    }


def test_int_32_33_a_ray_cluster_starts_whole_scales_and_leaves_nothing(
    kai_cluster: Cluster, namespace: str
) -> None:
    stage = Stage(kai_cluster, namespace)
    kai_cluster.nodes.add("ray", gpus=2)
    body = ray_cluster(stage, workers=2)
    path = stage.admin.path_of(body)
    stage.admin.create(body)
    made = stage.admin.wait_for(stage.pods, lambda all_: len(all_) == 3, "a head and two workers")
    assert stage.settled() == {}  # two GPUs are too few for the gang of three
    kai_cluster.nodes.add("more", gpus=2)
    stage.bound(*made)
    stage.running(*made)
    (group,) = [
        one
        for one in stage.admin.list(stage.groups)
        if one["metadata"]["name"].startswith("pg-small-")
    ]
    assert {part["name"]: part["minMember"] for part in group["spec"]["subGroups"]} == {
        "headgroup": 1,
        "workers": 2,
    }
    assert group["spec"]["queue"] == stage.default
    stage.admin.patch(path, ray_cluster(stage, workers=3))
    more = stage.admin.wait_for(
        stage.pods, lambda all_: sum("worker" in name for name in all_) == 3, "a third worker"
    )
    stage.bound(*(name for name in more if "lookout" not in name))
    stage.admin.patch(path, ray_cluster(stage, workers=2))
    stage.admin.wait_for(
        stage.pods, lambda all_: sum("worker" in name for name in all_) == 2, "a worker less"
    )
    stage.admin.delete(path)
    stage.admin.wait_for(
        stage.groups,
        lambda all_: not any(name.startswith("pg-small-") for name in all_),
        "the group goes with it",
    )
