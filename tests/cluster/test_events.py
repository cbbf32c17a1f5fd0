"""What people read on their pods and on what they applied: placed, waiting and why, stopped by whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.scheduling import Stage, scheduler
from tests.cluster.testbed.cluster import Cluster

QUEUE = "kai.scheduler/queue"


@pytest.fixture(scope="module", autouse=True)
def running(kai_cluster: Cluster) -> Iterator[None]:
    with scheduler(kai_cluster):
        yield


@pytest.fixture
def stage(kai_cluster: Cluster, namespace: str) -> Stage:
    kai_cluster.nodes.add("n", gpus=2)
    return Stage(kai_cluster, namespace)


def told(stage: Stage, kind: str, name: str, reason: str) -> list[dict[str, Any]]:
    """Return the events of a reason on an object, once there is one."""

    def about(all_: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            one
            for one in all_.values()
            if one["regarding"]["kind"] == kind
            and one["regarding"]["name"] == name
            and one["reason"] == reason
        ]

    path = f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events"
    found = stage.admin.wait_for(path, lambda all_: bool(about(all_)), f"{reason} on {kind} {name}")
    return about(found)


def job(stage: Stage, name: str, count: int, gpus: int, queue: str = "") -> None:
    spec = {
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": "example.local/box:test",
                "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
            }
        ],
    }
    stage.admin.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": stage.namespace,
                "labels": {QUEUE: queue or stage.default},
                "annotations": {"kai.scheduler/batch-min-member": str(count)},
            },
            "spec": {"parallelism": count, "completions": count, "template": {"spec": spec}},
        }
    )


def test_a_placed_pod_and_its_job_are_told_so(stage: Stage) -> None:
    job(stage, "j", 2, 1)
    (owner,) = told(stage, "Job", "j", "Scheduled")
    assert owner["note"] == "All 2 pods of it have a place."
    pods = [one["metadata"]["name"] for one in stage.admin.list(stage.pods)]
    for pod in pods:
        (event,) = told(stage, "Pod", pod, "Scheduled")
        assert event["note"] == "Placed on node n."
        assert event["reportingController"] == "kai-scheduler"


def test_what_can_not_be_placed_is_told_on_pod_group_and_owner_once(stage: Stage) -> None:
    job(stage, "big", 1, 64)
    (owner,) = told(stage, "Job", "big", "Unschedulable")
    (pod,) = [one["metadata"]["name"] for one in stage.admin.list(stage.pods)]
    (event,) = told(stage, "Pod", pod, "Unschedulable")
    assert event["type"] == owner["type"] == "Warning"
    assert event["note"] == owner["note"]
    assert "64" in event["note"]
    for name in ("a", "b"):  # plans come and go, the news stays one
        stage.alone(name, gpus=1)
        stage.bound(name)
    assert len(told(stage, "Pod", pod, "Unschedulable")) == 1
    assert len(told(stage, "Job", "big", "Unschedulable")) == 1


def test_nothing_wrong_is_said_of_a_gang_whose_pods_are_still_arriving(stage: Stage) -> None:
    stage.group("g", minMember=2)
    stage.pod("g-0", "g", gpus=1)
    (event,) = told(stage, "PodGroup", "g", "NotReady")
    assert event["note"] == "1 of the 2 pods that start together is there."
    assert not stage.admin.get(stage.path("g-0"))["status"].get("conditions")
    stage.pod("g-1", "g", gpus=1)
    stage.bound("g-0", "g-1")
    path = f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events"
    assert not [one for one in stage.admin.list(path) if one["reason"] == "Unschedulable"]


def test_an_evicted_pod_and_its_owner_are_told_by_whom_and_why(stage: Stage) -> None:
    job(stage, "low", 1, 2)
    (pod,) = [
        one["metadata"]["name"]
        for one in stage.admin.wait_for(stage.pods, bool, "the pod is there").values()
    ]
    stage.bound(pod)
    stage.running(pod)
    stage.alone("high", gpus=2, group={"priorityClassName": "build"})
    (event,) = told(stage, "Pod", pod, "Evict")
    assert f"{stage.namespace}/high" in event["note"]
    (owner,) = told(stage, "Job", "low", "Evict")
    assert owner["note"] == event["note"]
    notes = owner["metadata"]["annotations"]
    assert notes["evictor-pod-group-name"] == "high"
    assert notes["evictor-action-type"] == "preempt"
    assert notes["num-evicted-pods"] == "1"
    stage.bound("high")


def test_a_pod_whose_group_nobody_made_is_told_what_to_do(stage: Stage) -> None:
    stage.pod("x", "nowhere")
    (event,) = told(stage, "Pod", "x", "PodGrouperWarning")
    assert "nowhere does not exist" in event["note"]


def test_a_job_that_says_nonsense_is_told_on_its_pod(stage: Stage) -> None:
    job(stage, "n", 1, 1)
    body = {"metadata": {"annotations": {"kai.scheduler/batch-min-member": "many"}}}
    stage.admin.patch(f"/apis/batch/v1/namespaces/{stage.namespace}/jobs/n", body)
    stage.admin.wait_for(stage.pods, bool, "the pod is there")
    (pod,) = [one["metadata"]["name"] for one in stage.admin.list(stage.pods)]
    (event,) = told(stage, "Pod", pod, "PodGrouperWarning")
    assert "batch-min-member" in event["note"]
