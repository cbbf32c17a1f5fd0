"""A snapshot written to a file is read back as it was: captures replay only if nothing is lost."""

from pathlib import Path

import pytest

from scheduler_service.model.gpu import FractionOfGpu, GpuShare, Mig, WholeGpus
from scheduler_service.model.node import GpuDevice, Node, Taint
from scheduler_service.model.pod import (
    NodeAffinity,
    Pod,
    PodAffinity,
    PodRequest,
    PodState,
    Toleration,
)
from scheduler_service.model.pod_group import PodGroup, Preemptibility, SubGroup
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare, Resources
from scheduler_service.model.snapshot import BackOff, Hold, Snapshot, StaticVeto
from scheduler_service.model.topology import Topology, TopologyConstraint
from scheduler_service.simulate import capture, reader

NOW = 1_764_000_000_123
TREE = SubGroup(
    min_subgroups=1,
    topology=TopologyConstraint("net", "rack", None),
    children=(
        SubGroup("a", 0, 1, children=(SubGroup("a1", 2), SubGroup("a2", 0))),
        SubGroup("b", 1),
    ),
)
FULL = Snapshot(
    now_ms=NOW,
    nodes=(
        Node(
            "n0",
            gpus=1,
            gpu_memory_mib=16_000,
            milli_cpu=4000,
            memory_bytes=10**10,
            labels={"rack": "r0"},
            devices=(GpuDevice("GPU-1", 0, 16_000, "A", simulated=True, taken=False),),
            taints=(Taint("only", "ml"),),
            extended={"fpga": 2},
            ready=False,
            role="gpu",
            foreign_pods=3,
        ),
        Node("n1", mig={"1g.10gb": 7}, mig_strategy="mixed"),
    ),
    queues=(
        Queue("leaf", parent="team", created=5),
        Queue("team", gpu=QueueShare(1000, None, 2), preempt_min_runtime_ms=1500),
    ),
    pod_groups=(
        PodGroup(
            name="g",
            namespace="anna",
            queue="leaf",
            gang=TREE,
            preemptibility=Preemptibility.SEMI_PREEMPTIBLE,
            stale_since_ms=NOW - 1,
            started_ms=NOW - 61_000,
            stale_grace_ms=None,
            preemption_delay_ms=30_000,
            owner="anna",
            kind="lease",
            labels={"x": "y"},
        ),
        PodGroup(name="g", namespace="ben", queue="leaf"),
    ),
    pods=(
        Pod(
            "p0",
            "anna",
            "anna/g",
            PodState.RUNNING,
            "a1",
            PodRequest(1000, 10**9, FractionOfGpu(500), {"fpga": 1}, 10, 20),
            "n0",
            (GpuShare("GPU-1", 500, 8000),),
            precedence=3,
            labels={"app": "x"},
            node_affinity=(NodeAffinity("rack", ("r0",), 5),),
            pod_affinity=(PodAffinity({"app": "x"}, "rack"),),
            tolerations=(Toleration("only", None, "NoSchedule"),),
        ),
        Pod(
            "p1",
            "anna",
            "anna/g",
            PodState.RELEASING,
            "b",
            PodRequest(0, 0, Mig((("1g.10gb", 2),))),
            "n1",
            deleted_ms=NOW - 5000,
        ),
        Pod("p0", "ben", "ben/g", request=PodRequest(gpu=WholeGpus(2)), legacy_mig=True),
    ),
    topologies=(Topology("net", ("block", "rack"), {"r": "rack"}),),
    vetoes=(StaticVeto("anna/p0", "no volume", ("n1",)),),
    holds=(Hold("ben/p0", "n0", NOW + 30_000),),
    back_offs=(BackOff("ben/g", 2, NOW + 1),),
    usage={"leaf": Resources(100, 2, 3)},
    owner_usage={"leaf": {"anna": 7}},
)


@pytest.mark.parametrize("policy", [Policy.conformance(), Policy.default()])
def test_everything_comes_back(tmp_path: Path, policy):
    file = tmp_path / "snapshot.json"

    capture.write(file, capture.snapshot_file(FULL, policy))
    world = reader.read_world(file, Policy.conformance())

    assert world.snapshot == FULL
    assert world.policy == policy


def test_the_file_is_its_owner_s_alone_and_equal_each_time(tmp_path: Path):
    file = tmp_path / "new" / "snapshot.json"

    capture.write(file, capture.snapshot_file(FULL, Policy.default()))

    assert file.stat().st_mode & 0o077 == 0
    assert file.read_text() == capture.text_of(capture.snapshot_file(FULL, Policy.default()))
    assert [entry.name for entry in file.parent.iterdir()] == ["snapshot.json"]
