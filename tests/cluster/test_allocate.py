"""Starting what fits on a real API server. The IDs are those of KAI's own end-to-end suites (COVERAGE.md)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.scheduling import Stage, scheduler, share
from tests.cluster.testbed.cluster import Cluster

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture(scope="module", autouse=True)
def running(kai_cluster: Cluster) -> Iterator[None]:
    with scheduler(kai_cluster):
        yield


@pytest.fixture
def stage(kai_cluster: Cluster, namespace: str) -> Stage:
    return Stage(kai_cluster, namespace)


def nodes(stage: Stage, count: int = 2, gpus: int = 2, **shape: object) -> list[str]:
    return stage.cluster.nodes.add("n", count=count, gpus=gpus, **shape)


def affinity(kind: str, how: str, labels: dict[str, str]) -> dict[str, object]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST}
    terms = [term] if how == REQUIRED else [{"weight": 100, "podAffinityTerm": term}]
    return {"affinity": {kind: {how: terms}}}


# -- what a pod asks ---------------------------------------------------------------------------------------


def test_alc_01_43_44_49_50_51_each_kind_of_request_is_placed(stage: Stage) -> None:
    nodes(stage, extended={"example.com/fpga": "4"})
    asks = {
        "nothing": {},
        "gpu": {"gpus": 1},
        "cpu": {"cpu": "500m"},
        "memory": {"memory": "1Gi"},
        "other": {"asks": {"example.com/fpga": "2"}},
    }
    for name, each in asks.items():
        stage.alone(name, **each)
    assert {*stage.bound(*asks)} <= {"n-0", "n-1"}
    stage.running(*asks)


def test_a_pod_that_fits_nowhere_waits_and_starts_when_a_node_comes(stage: Stage) -> None:
    nodes(stage)
    stage.alone("big", gpus=4)
    assert stage.settled() == {}
    stage.cluster.nodes.add("large", gpus=4)
    assert stage.bound("big") == ["large"]


def test_alc_11_packed_on_one_node(stage: Stage) -> None:
    nodes(stage)
    assert len({*stage.bound(stage.alone("a", gpus=1), stage.alone("b", gpus=1))}) == 1


def test_alc_12_halves_share_a_gpu(stage: Stage) -> None:
    nodes(stage)
    for name in ("a", "b", "c"):
        stage.alone(name, annotations={"gpu-fraction": "0.5"})
    a, b, c = (stage.request(name) for name in ("a", "b", "c"))
    assert a["selectedNode"] == b["selectedNode"] == c["selectedNode"]
    assert len({*a["selectedGPUGroups"], *b["selectedGPUGroups"], *c["selectedGPUGroups"]}) == 2
    assert a["receivedResourceType"] == "Fraction"
    assert a["receivedGPU"] == {"count": 1, "portion": "0.50"}


def test_alc_46_no_gpu_is_shared_beyond_what_it_has(stage: Stage) -> None:
    nodes(stage, count=1)
    names = [stage.alone(f"p{n}", annotations={"gpu-fraction": "0.4"}) for n in range(6)]
    placed = stage.settled()
    requests = stage.admin.wait_for(stage.requests, lambda found: len(found) == 4, "four requests")
    groups = [one["spec"]["selectedGPUGroups"][0] for one in requests.values()]
    assert sorted(groups.count(group) for group in {*groups}) == [2, 2]
    assert placed == {}
    assert len(names) == 6


@pytest.mark.parametrize(("mib", "fits"), [("40000", True), ("100000", False)])
def test_alc_47_48_gpu_memory(stage: Stage, mib: str, fits: bool) -> None:
    nodes(stage, count=1)
    stage.alone("p", annotations={"gpu-memory": mib})
    stage.settled()
    assert [one["metadata"]["name"] for one in stage.admin.list(stage.requests)] == ["p"] * fits


def test_alc_16_work_without_gpus_goes_where_none_are(stage: Stage) -> None:
    nodes(stage)
    stage.cluster.nodes.add("plain", gpus=0)
    assert stage.bound(stage.alone("p", cpu="1")) == ["plain"]


# -- where a pod may be --------------------------------------------------------------------------------------


def test_alc_17_18_node_affinity(stage: Stage) -> None:
    stage.cluster.nodes.add("here", labels={"zone": "a"})
    stage.cluster.nodes.add("there", labels={"zone": "b"})

    def wants(zone: str) -> dict[str, object]:
        terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]
        return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}

    stage.alone("fits", gpus=1, **wants("b"))
    stage.alone("lost", gpus=1, **wants("c"))
    assert stage.settled() == {"fits": "there"}


def test_alc_19_pod_affinity_that_can_not_be(stage: Stage) -> None:
    nodes(stage)
    stage.alone("p", **affinity("podAffinity", REQUIRED, {"app": "nobody"}))
    assert stage.settled() == {}


def test_alc_09_10_pods_near_and_far(stage: Stage) -> None:
    nodes(stage, count=3)
    (first,) = stage.bound(stage.alone("first", cpu="1", labels={"app": "x"}))
    stage.alone("near", cpu="1", **affinity("podAffinity", PREFERRED, {"app": "x"}))
    stage.alone("far", cpu="1", **affinity("podAntiAffinity", PREFERRED, {"app": "x"}))
    near, far = stage.bound("near", "far")
    assert near == first
    assert far != first


def test_alc_29_30_taints(stage: Stage) -> None:
    stage.cluster.nodes.add("kept", taints=({"key": "k", "value": "v", "effect": "NoSchedule"},))
    stage.alone("stranger", gpus=1)
    stage.alone("friend", gpus=1, tolerations=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    assert stage.settled() == {"friend": "kept"}


# -- queues ------------------------------------------------------------------------------------------------------


def test_alc_33_a_limit_of_nothing(stage: Stage) -> None:
    nodes(stage)
    closed = stage.queue("closed", gpu=share(0, 0))
    stage.alone("p", closed, gpus=1)
    assert stage.settled() == {}


def test_alc_34_what_may_not_be_preempted_stays_within_quota(stage: Stage) -> None:
    nodes(stage)
    queue = stage.queue("q", gpu=share(0, -1))
    stage.alone("p", queue, gpus=1, group={"priorityClassName": "build"})
    stage.alone("q", queue, gpus=1, group={"priorityClassName": "train"})
    assert [*stage.settled()] == ["q"]


@pytest.mark.parametrize("depth", [1, 3, 4])
def test_alc_35_36_37_trees_of_any_depth(stage: Stage, depth: int) -> None:
    nodes(stage)
    queue = ""
    for level in range(depth):
        queue = stage.queue(f"level-{level}", queue)
    assert stage.bound(stage.alone("p", queue, gpus=1))


def test_alc_38_equal_shares(stage: Stage) -> None:
    nodes(stage, count=2, gpus=8)
    top = stage.queue("top", gpu=share(3, 3))
    leaves = [stage.queue(name, top, gpu=share(1)) for name in ("a", "b", "c")]
    for queue in leaves:
        for number in range(2):
            stage.alone(f"{queue}-{number}", queue, gpus=1)
    placed = [name.rpartition("-")[0] for name in stage.settled()]
    assert sorted(placed) == sorted(leaves)


# -- gangs and elastic work ------------------------------------------------------------------------------------------


def test_a_gang_starts_whole_or_not_at_all(stage: Stage) -> None:
    nodes(stage, count=2, gpus=2)
    stage.group("large", minMember=5)
    stage.group("right", minMember=4)
    for name, count in (("large", 5), ("right", 4)):
        for number in range(count):
            stage.pod(f"{name}-{number}", name, gpus=1)
    assert {name.partition("-")[0] for name in stage.settled()} == {"right"}
    assert len(stage.settled()) == 4


def limited(stage: Stage, cpu: int) -> str:
    return stage.queue("limited", cpu=share(cpu, cpu))


@pytest.mark.parametrize(("cpu", "starts"), [("500m", 1), ("200m", 2)])
def test_alc_03_04_elastic(stage: Stage, cpu: str, starts: int) -> None:
    nodes(stage)
    stage.group("g", limited(stage, 500), minMember=1)
    for number in range(2):
        stage.pod(f"p{number}", "g", cpu=cpu)
    assert len(stage.settled()) == starts


def test_alc_05_two_elastic_groups(stage: Stage) -> None:
    nodes(stage)
    queue = limited(stage, 500)
    for group in ("g", "h"):
        stage.group(group, queue, minMember=1)
        for number in range(3):
            stage.pod(f"{group}{number}", group, cpu="100m")
    assert len(stage.settled()) == 5


def test_alc_07_08_order_inside_a_group(stage: Stage) -> None:
    queue = limited(stage, 500)
    stage.group("g", queue, minMember=1)
    orders: dict[str, dict[str, str]] = {
        "one": {"kai.scheduler/task-priority": "1"},
        "three": {"kai.scheduler/task-priority": "3"},
        "two": {"kai.scheduler/task-priority": "2"},
        "none": {},
    }
    for name, labels in orders.items():
        stage.pod(name, "g", cpu="200m", labels=labels)
    nodes(stage)
    assert sorted(stage.settled()) == ["three", "two"]


def test_alc_06_31_32_higher_priority_first(stage: Stage) -> None:
    queue = limited(stage, 500)
    stage.alone("low", queue, cpu="500m", group={"priorityClassName": "train"})
    stage.group("high", queue, priorityClassName="build-preemptible", minMember=2)
    for number in range(2):
        stage.pod(f"high-{number}", "high", cpu="250m")
    assert stage.settled() == {}
    nodes(stage)
    stage.bound("high-0", "high-1")
    assert sorted(stage.settled()) == ["high-0", "high-1"]


def sub_groups(*least: int) -> list[dict[str, object]]:
    return [{"name": f"s{number}", "minMember": count} for number, count in enumerate(least)]


def test_alc_52_53_54_sub_groups(stage: Stage) -> None:
    queue = limited(stage, 600)
    stage.group("first", queue, subGroups=sub_groups(3, 3))
    for part in (0, 1):
        for number in range(5):
            label = {"kai.scheduler/subgroup-name": f"s{part}"}
            stage.pod(f"first-{part}-{number}", "first", cpu="100m", labels=label)
    nodes(stage)
    placed = stage.settled()
    assert sorted(name[:7] for name in placed) == ["first-0"] * 3 + ["first-1"] * 3
    stage.group("second", queue, subGroups=sub_groups(2, 2))
    for part in (0, 1):
        for number in range(2):
            label = {"kai.scheduler/subgroup-name": f"s{part}"}
            stage.pod(f"second-{part}-{number}", "second", cpu="100m", labels=label)
    assert stage.settled() == placed


@pytest.mark.parametrize("how", ["requiredTopologyLevel", "preferredTopologyLevel"])
def test_alc_55_56_one_rack(stage: Stage, how: str) -> None:
    for rack in ("r0", "r1"):
        for number in range(2):
            stage.cluster.nodes.add(f"{rack}-{number}", gpus=2, labels={"rack": rack})
    name = f"{stage.namespace}-topology"
    levels = [{"nodeLabel": "rack"}, {"nodeLabel": HOST}]
    stage.admin.create(
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": name},
            "spec": {"levels": levels},
        }
    )
    stage.group("g", minMember=2, topologyConstraint={"topology": name, how: "rack"})
    racks = {node[:2] for node in stage.bound(*(stage.pod(f"p{n}", "g", gpus=2) for n in range(2)))}
    assert len(racks) == 1
