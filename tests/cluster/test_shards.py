"""What a cluster's owner flips while the scheduler runs: the fields of KAI's SchedulingShard and Config."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.scheduling import Stage, scheduler, share
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.process import Process

SPREAD = {"placementStrategy": {"gpu": "spread", "cpu": "spread"}}
WORKER = "node-role.kubernetes.io"


@pytest.fixture(scope="module")
def running(kai_cluster: Cluster) -> Iterator[Process]:
    with scheduler(kai_cluster) as process:
        yield process


@pytest.fixture
def stage(kai_cluster: Cluster, namespace: str) -> Stage:
    return Stage(kai_cluster, namespace)


def test_alc_13_spread_over_nodes(stage: Stage, running: Process) -> None:
    stage.cluster.nodes.add("n", count=2, gpus=2)
    stage.shard(running, **SPREAD)
    assert len({*stage.bound(stage.alone("a", gpus=1), stage.alone("b", gpus=1))}) == 2


def test_alc_14_15_spread_shares(stage: Stage, running: Process) -> None:
    stage.cluster.nodes.add("n", count=2, gpus=2)
    stage.shard(running, **SPREAD)
    half = {"annotations": {"gpu-fraction": "0.5"}}
    stage.alone("a", **half)
    first = stage.request("a")
    stage.alone("b", **half)
    assert stage.request("b")["selectedNode"] != first["selectedNode"]
    stage.alone("c", nodeSelector={"kubernetes.io/hostname": first["selectedNode"]}, **half)
    assert stage.request("c")["selectedGPUGroups"] != first["selectedGPUGroups"]


def test_a_flip_holds_from_then_on(stage: Stage, running: Process) -> None:
    stage.cluster.nodes.add("n", count=2, gpus=4)
    stage.shard(running, **SPREAD)
    assert len({*stage.bound(stage.alone("a", gpus=1), stage.alone("b", gpus=1))}) == 2
    stage.shard(running, placementStrategy={"gpu": "binpack", "cpu": "binpack"})
    assert len({*stage.bound(stage.alone("c", gpus=1), stage.alone("d", gpus=1))}) == 1


def test_alc_25_26_27_28_restricted_nodes(stage: Stage, running: Process) -> None:
    stage.cluster.nodes.add("for-gpu", labels={f"{WORKER}/gpu-worker": "true"})
    stage.cluster.nodes.add("for-cpu", labels={f"{WORKER}/cpu-worker": "true"})
    stage.shard(running, args={"restrict-node-scheduling": "true"})

    def on(node: str) -> dict[str, object]:
        return {"nodeSelector": {"kubernetes.io/hostname": node}}

    stage.alone("gpu-on-gpu", gpus=1, **on("for-gpu"))
    stage.alone("cpu-on-gpu", cpu="1", **on("for-gpu"))
    stage.alone("cpu-on-cpu", cpu="1", **on("for-cpu"))
    stage.alone("gpu-on-cpu", gpus=1, **on("for-cpu"))
    stage.bound("gpu-on-gpu", "cpu-on-cpu")
    stage.shard(running)
    stage.bound("cpu-on-gpu", "gpu-on-cpu")


def test_rcl_18_the_fairness_of_the_hierarchy(stage: Stage, running: Process) -> None:
    """A parent that may have nothing stops its children only as long as the hierarchy counts."""
    stage.cluster.nodes.add("n", gpus=1)
    closed = stage.queue("closed", gpu=share(0, 0))
    leaf = stage.queue("leaf", closed, gpu=share(1))
    stage.alone("p", leaf, gpus=1)
    assert stage.settled() == {}
    stage.shard(running, args={"full-hierarchy-fairness": "false"})
    stage.bound("p")


def test_the_depth_of_an_action(stage: Stage, running: Process) -> None:
    stage.cluster.nodes.add("n", gpus=1)
    actions = ("allocate", "consolidation", "reclaim", "preempt")
    stage.shard(running, queueDepthPerAction=dict.fromkeys(actions, 1))
    stage.alone("first", gpus=8)
    second = stage.alone("second", gpus=1)
    other = stage.queue("other")
    stage.alone("lookout", other, cpu="1")
    stage.bound("lookout")
    assert "nodeName" not in stage.admin.get(stage.path(second))["spec"]
    stage.shard(running)
    stage.bound(second)


@pytest.mark.parametrize("field", ["reclaimMinRuntime", "preemptMinRuntime"])
def test_rcl_17_prm_minimum_run_times(stage: Stage, running: Process, field: str) -> None:
    stage.cluster.nodes.add("n", gpus=1)
    top = stage.queue("top")
    holder = stage.queue("holder", top, gpu=share(0))
    claimer = holder if field.startswith("preempt") else stage.queue("claimer", top, gpu=share(1))
    stage.shard(running, minRuntime={field: "1h"})
    stage.running(stage.alone("old", holder, gpus=1))
    stage.alone("new", claimer, gpus=1, group={"priorityClassName": "build-preemptible"})
    assert [*stage.settled()] == ["old"]
    stage.shard(running, minRuntime={field: "1s"})
    stage.bound("new")


def test_the_grace_of_gangs_below_their_minimum(stage: Stage, running: Process) -> None:
    stage.cluster.nodes.add("n", gpus=2)
    stage.shard(running, args={"default-staleness-grace-period": "-1s"})
    stage.group("g", minMember=2)
    stage.running(*(stage.pod(f"p{n}", "g", gpus=1) for n in range(2)))
    stage.cluster.nodes.fail(stage.path("p0"))
    stage.admin.wait_for_one(
        stage.path("p0"), lambda p: p["status"]["phase"] == "Failed", "it failed"
    )
    assert sorted(stage.settled()) == ["p0", "p1"]
    stage.shard(running, args={"default-staleness-grace-period": "0s"})
    stage.gone("p1")


def test_a_shard_is_a_node_pool(stage: Stage, running: Process) -> None:
    pool = {"kai.scheduler/node-pool": "blue"}
    stage.cluster.nodes.add("blue", gpus=1, labels=pool)
    stage.cluster.nodes.add("plain", gpus=1)
    queue = f"{stage.namespace}-blue"
    stage.admin.create(
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": queue, "labels": pool},
            "spec": {"resources": {kind: share() for kind in ("gpu", "cpu", "memory")}},
        }
    )
    stage.group("mine", queue, labels=pool)
    stage.pod("mine", "mine", gpus=1)
    stage.alone("other", gpus=1)
    assert stage.settled() == {"other": "plain"}
    stage.shard(running, partitionLabelValue="blue")
    assert stage.bound("mine") == ["blue"]
