"""An autoscaler sees what is missing: pods that can not be scheduled, and pods that stand for waiting shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.scheduling import Stage, scheduler, share
from tests.cluster.testbed.cluster import Cluster

STANDING = "/api/v1/namespaces/kai-scale-adjust/pods"


@pytest.fixture(scope="module", autouse=True)
def running(kai_cluster: Cluster) -> Iterator[None]:
    with scheduler(kai_cluster, "--scaling-image", "example.local/box:test"):
        yield


@pytest.fixture
def stage(kai_cluster: Cluster, namespace: str) -> Iterator[Stage]:
    yield Stage(kai_cluster, namespace)
    kai_cluster.admin.delete(f"/api/v1/namespaces/{namespace}/pods", grace_s=0)
    kai_cluster.admin.wait_for(STANDING, lambda all_: not all_, "no pod stands for shares")


def is_unschedulable(pod: dict[str, Any]) -> bool:
    return any(
        each["type"] == "PodScheduled" and each["reason"] == "Unschedulable"
        for each in pod["status"].get("conditions", [])
    )


def test_pods_stand_for_shares_that_lack_a_gpu_until_nobody_waits(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.alone(
            name, annotations={"gpu-fraction": "0.6"}, cpu="1", nodeSelector={"pool": "gpu"}
        )
    found = stage.admin.wait_for(
        STANDING,
        lambda all_: len(all_) == 3 and all(map(is_unschedulable, all_.values())),
        "three shares of 0.6 are three GPUs",
    )
    names = {f"{stage.namespace}-{name}" for name in ("a", "b", "c")}
    assert found.keys() == names
    one = found[f"{stage.namespace}-a"]
    assert one["spec"]["nodeSelector"] == {"pool": "gpu"}
    assert one["spec"]["schedulerName"] == "default-scheduler"
    asked = one["spec"]["containers"][0]["resources"]["requests"]
    assert asked == {"nvidia.com/gpu": "1", "cpu": "1"}
    assert one["metadata"]["labels"]["shared-gpu-pod-name"] == "a"
    for name in ("a", "b"):
        stage.admin.delete(stage.path(name), grace_s=0)
    stage.admin.wait_for(
        STANDING, lambda all_: all_.keys() == {f"{stage.namespace}-c"}, "only one is missing"
    )


def test_no_gpu_is_asked_for_where_the_queue_says_no(stage: Stage) -> None:
    stage.cluster.nodes.add("n", gpus=2)
    closed = stage.queue("closed", gpu=share(limit=0))
    stage.alone("held", closed, annotations={"gpu-fraction": "0.5"})
    stage.admin.wait_for_one(stage.path("held"), is_unschedulable, "it waits for its queue")
    stage.alone("lacks", annotations={"gpu-fraction": "0.5"}, nodeSelector={"pool": "none"})
    found = stage.admin.wait_for(STANDING, bool, "one GPU is asked for")
    assert found.keys() == {f"{stage.namespace}-lacks"}


def test_while_a_delay_lasts_the_pod_is_unschedulable_and_nobody_is_evicted(stage: Stage) -> None:
    stage.cluster.nodes.add("n", gpus=2)
    stage.alone("low", gpus=2)
    stage.bound("low")
    high = {"priorityClassName": "build", "preemptionDelay": "1h"}
    stage.alone("high", gpus=2, group=high)
    stage.admin.wait_for_one(stage.path("high"), is_unschedulable, "an autoscaler sees it")
    stage.cluster.nodes.add("new", gpus=2)
    assert stage.bound("high") == ["new"]
    low = stage.admin.get(stage.path("low"))
    assert "deletionTimestamp" not in low["metadata"]
    assert low["spec"]["nodeName"] == "n"
