"""What groups and queues ask for and hold, as their statuses tell it on a real API server."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.scheduling import KAI, Stage, scheduler, share
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.process import Process

GPU, GPU_MEMORY = "nvidia.com/gpu", "run.ai/gpu.memory"


@pytest.fixture(scope="module", autouse=True)
def running(kai_cluster: Cluster) -> Iterator[Process]:
    with scheduler(kai_cluster) as process:
        yield process


@pytest.fixture
def stage(kai_cluster: Cluster, namespace: str) -> Stage:
    kai_cluster.nodes.add("n", gpus=4)
    return Stage(kai_cluster, namespace)


def resources(stage: Stage, group: str, right: Any, what: str) -> dict[str, Any]:
    """Return what a group's status says of resources, once it is right."""
    found = stage.admin.wait_for_one(
        f"{stage.groups}/{group}",
        lambda one: right(one.get("status", {}).get("resourcesStatus", {})),
        what,
    )
    told: dict[str, Any] = found["status"]["resourcesStatus"]
    return told


def queue(stage: Stage, name: str, right: Any, what: str) -> dict[str, Any]:
    """Return the status of a queue, once it is right."""
    path = f"/apis/{KAI}/v2/queues/{name}"
    found = stage.admin.wait_for_one(path, lambda one: right(one.get("status", {})), what)
    told: dict[str, Any] = found["status"]
    return told


def test_a_group_asks_holds_and_lets_go(stage: Stage) -> None:
    stage.group("g", preemptibility="non-preemptible")
    stage.pod("a", "g", gpus=1, cpu="500m", memory="1Gi")
    stage.bound("a")
    told = resources(stage, "g", lambda one: one.get("allocated"), "it holds something")
    assert told["allocated"] == {"cpu": "500m", "memory": str(2**30), GPU: "1"}
    assert told["requested"] == told["allocated"] == told["allocatedNonPreemptible"]
    stage.admin.patch(f"{stage.groups}/g", {"spec": {"preemptibility": "preemptible"}})
    told = resources(
        stage, "g", lambda one: not one["allocatedNonPreemptible"], "it may be preempted now"
    )
    assert told["allocated"][GPU] == "1"
    stage.cluster.nodes.finish(stage.path("a"))
    resources(stage, "g", lambda one: not one["allocated"] and not one["requested"], "it ended")


def test_what_waits_is_asked_for_and_not_held_with_all_devices_and_init_containers(
    stage: Stage,
) -> None:
    init = {
        "name": "first",
        "image": "example.local/box:test",
        "resources": {"requests": {"cpu": "900"}},
    }
    notes = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}
    stage.alone("w", annotations=notes, cpu="1", initContainers=[init])
    told = resources(stage, "w", lambda one: one.get("requested"), "it asks")
    assert told["requested"] == {GPU: "1", "cpu": "900"}
    assert not told.get("allocated")
    stage.alone("m", annotations={"gpu-memory": "2000"}, cpu="900")
    told = resources(stage, "m", lambda one: one.get("requested"), "it asks for memory")
    assert told["requested"] == {GPU_MEMORY: "2000", "cpu": "900"}


def test_queues_add_up_what_is_below_them(stage: Stage) -> None:
    top = stage.queue("top")
    left, right = stage.queue("left", top), stage.queue("right", top, gpu=share(limit=0))
    stage.alone("a", left, gpus=2)
    stage.alone("b", right, gpus=1)
    stage.bound("a")
    told = queue(
        stage, top, lambda one: one.get("requested", {}).get(GPU) == "3", "both are asked for"
    )
    assert told["childQueues"] == [left, right]
    assert told["allocated"][GPU] == "2"
    assert queue(stage, right, lambda one: one.get("requested"), "asked")["requested"][GPU] == "1"
    stage.admin.delete(stage.path("a"), grace_s=0)
    queue(stage, top, lambda one: not one["allocated"] and one["requested"][GPU] == "1", "a went")


def test_a_group_is_told_why_it_waits_and_the_condition_goes_when_it_runs(stage: Stage) -> None:
    limited = stage.queue("limited", gpu=share(limit=0.5))
    stage.alone("x", limited, gpus=1)
    group = stage.admin.wait_for_one(
        f"{stage.groups}/x",
        lambda one: one.get("status", {}).get("schedulingConditions"),
        "the group is told",
    )
    (told,) = group["status"]["schedulingConditions"]
    assert told["type"] == "UnschedulableOnNodePool"
    assert (told["nodePool"], told["status"], told["reason"]) == (
        "default",
        "True",
        "Unschedulable",
    )
    assert told["reasons"][0]["reason"] == "OverLimit"
    details = told["reasons"][0]["details"]["queueDetails"]
    assert details["name"] == limited
    assert details["podGroupRequestedResources"] == {GPU: "1"}
    pod = stage.admin.wait_for_one(
        stage.path("x"),
        lambda one: any(
            each["type"] == "PodScheduled" and each["message"] == told["message"]
            for each in one["status"].get("conditions", [])
        ),
        "the pod is told",
    )
    assert limited in told["message"]
    (condition,) = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    more = {"spec": {"resources": {"gpu": share(limit=2)}}}
    stage.admin.patch(f"/apis/{KAI}/v2/queues/{limited}", more)
    stage.bound("x")
    stage.admin.wait_for_one(
        f"{stage.groups}/x",
        lambda one: not one["status"].get("schedulingConditions"),
        "the condition is gone",
    )


def test_a_group_that_wants_no_mark_on_its_pods_gets_none(stage: Stage) -> None:
    stage.alone("x", gpus=64, group={"markUnschedulable": False})
    stage.admin.wait_for_one(
        f"{stage.groups}/x",
        lambda one: one.get("status", {}).get("schedulingConditions"),
        "the group is told",
    )
    assert not stage.admin.get(stage.path("x"))["status"].get("conditions")


def test_a_pod_of_no_sub_group_is_told_so(stage: Stage) -> None:
    stage.group("g", subGroups=[{"name": "left", "minMember": 1}])
    stage.pod("x", "g", labels={"kai.scheduler/subgroup-name": "middle"})
    pod = stage.admin.wait_for_one(
        stage.path("x"), lambda one: one["status"].get("conditions"), "the pod is told"
    )
    (condition,) = pod["status"]["conditions"]
    assert "no sub-group 'middle'" in condition["message"]


def test_figures_say_what_queues_hold(stage: Stage, running: Process) -> None:
    queue_name = stage.queue("figures")
    stage.alone("a", queue_name, gpus=2)
    stage.bound("a")
    queue(stage, queue_name, lambda one: one.get("allocated"), "the queue holds something")
    found = re.search(r"health on (\S+)", running.tail())
    assert found is not None
    with urllib.request.urlopen(f"http://{found.group(1)}/metrics") as answer:
        text = answer.read().decode()
    labels = f'queue_display_name="",queue_metadata_name="{queue_name}",queue_name="{queue_name}"'
    assert f"kai_queue_allocated_gpus{{{labels}}} 2.0" in text
    assert f'kai_queue_wait_seconds_count{{queue="{queue_name}"}} 1.0' in text
