"""Making room on a real API server: preempt, reclaim, consolidate, gangs that went stale. IDs as in COVERAGE.md."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cluster.scheduling import Stage, scheduler, share
from tests.cluster.testbed.cluster import Cluster

LOW_PREEMPTIBLE = {"priorityClassName": "train"}
HIGH_PREEMPTIBLE = {"priorityClassName": "build-preemptible"}
LOW_FIXED = {"priorityClassName": "train", "preemptibility": "non-preemptible"}
HIGH_FIXED = {"priorityClassName": "build"}


@pytest.fixture(scope="module", autouse=True)
def running(kai_cluster: Cluster) -> Iterator[None]:
    with scheduler(kai_cluster):
        yield


@pytest.fixture
def stage(kai_cluster: Cluster, namespace: str) -> Stage:
    return Stage(kai_cluster, namespace)


def nodes(stage: Stage, count: int, gpus: int, **shape: object) -> list[str]:
    return stage.cluster.nodes.add("n", count=count, gpus=gpus, **shape)


# -- preempt -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "yields"),
    [
        pytest.param(LOW_PREEMPTIBLE, HIGH_PREEMPTIBLE, True, id="prm_01"),
        pytest.param(LOW_PREEMPTIBLE, HIGH_FIXED, True, id="prm_02"),
        pytest.param(LOW_FIXED, HIGH_FIXED, False, id="prm_03_17"),
        pytest.param(HIGH_PREEMPTIBLE, LOW_PREEMPTIBLE, False, id="prm_04"),
        pytest.param(HIGH_FIXED, LOW_FIXED, False, id="prm_05"),
        pytest.param(HIGH_FIXED, LOW_PREEMPTIBLE, False, id="prm_06"),
        pytest.param(LOW_PREEMPTIBLE, LOW_PREEMPTIBLE, False, id="prm_07"),
        pytest.param(HIGH_FIXED, HIGH_FIXED, False, id="prm_08"),
        pytest.param(
            {**HIGH_PREEMPTIBLE, "preemptibility": "preemptible"}, HIGH_FIXED, True, id="prm_16"
        ),
    ],
)
def test_who_makes_room_for_whom(stage: Stage, old: dict, new: dict, yields: bool) -> None:
    nodes(stage, 1, 1)
    queue = stage.queue("q", cpu=share(500, 500), gpu=share(-1))
    stage.alone("old", queue, cpu="500m", group=old)
    stage.running("old")
    stage.alone("new", queue, cpu="500m", group=new)
    if yields:
        stage.gone("old")
        stage.bound("new")
    else:
        assert [*stage.settled()] == ["old"]


def test_who_has_to_leave_is_told_why(stage: Stage) -> None:
    nodes(stage, 1, 1)
    stage.alone("old", gpus=1)
    stage.running("old")
    stage.cluster.nodes.hold_end(stage.path("old"))
    stage.alone("new", gpus=1, group=HIGH_FIXED)
    found = stage.admin.wait_for_one(
        stage.path("old"),
        lambda pod: "kai.scheduler/eviction-notice" in pod["metadata"].get("annotations", {}),
        "a notice on the pod that leaves",
    )
    notice = json.loads(found["metadata"]["annotations"]["kai.scheduler/eviction-notice"])
    assert (notice["reason"], notice["for"]) == ("preempted_by", f"{stage.namespace}/new")
    assert "deletionTimestamp" in found["metadata"]
    assert [*stage.settled()] == []
    stage.cluster.nodes.let_go(stage.path("old"))
    stage.bound("new")


def test_prm_09_a_gang_takes_whole_nodes(stage: Stage) -> None:
    nodes(stage, 2, 2)
    old = [stage.alone(f"old-{n}", gpus=1) for n in range(4)]
    stage.running(*old)
    stage.group("g", minMember=2, **HIGH_FIXED)
    stage.bound(*(stage.pod(f"new-{n}", "g", gpus=2) for n in range(2)))
    stage.gone(*old)


def test_prm_10_room_for_one_more_pod(stage: Stage) -> None:
    nodes(stage, 1, 1, pods=2)
    stage.running(*(stage.alone(f"old-{n}", cpu="10m") for n in range(2)))
    stage.alone("new", cpu="10m", group=HIGH_FIXED)
    stage.bound("new")
    assert len(stage.settled()) == 2


def test_prm_12_one_pod_of_each_elastic_group(stage: Stage) -> None:
    nodes(stage, 1, 4)
    for group in ("a", "b"):
        stage.group(group, minMember=1)
        for number in range(2):
            stage.pod(f"{group}{number}", group, gpus=1)
    stage.running("a0", "a1", "b0", "b1")
    stage.alone("new", gpus=2, group=HIGH_FIXED)
    stage.bound("new")
    assert sorted(name[0] for name in stage.settled() if name != "new") == ["a", "b"]


def test_prm_13_14_victims_are_the_last_in_order(stage: Stage) -> None:
    nodes(stage, 1, 2)
    stage.group("g", minMember=1)
    for name, order in (("first", "5"), ("last", "1")):
        stage.pod(name, "g", gpus=1, labels={"kai.scheduler/task-priority": order})
    stage.running("first", "last")
    stage.alone("one", gpus=1, group=HIGH_FIXED)
    stage.bound("one")
    assert sorted(stage.settled()) == ["first", "one"]
    stage.alone("two", gpus=1, group=HIGH_FIXED)
    stage.bound("two")
    assert sorted(stage.settled()) == ["one", "two"]


def test_a_disruption_budget_is_kept(stage: Stage) -> None:
    nodes(stage, 1, 1)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": stage.namespace},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "x"}}},
    }
    stage.admin.create(budget)
    stage.alone("old", gpus=1, labels={"app": "x"})
    stage.running("old")
    stage.alone("new", gpus=1, group=HIGH_FIXED)
    assert [*stage.settled()] == ["old"]
    stage.admin.delete(f"/apis/policy/v1/namespaces/{stage.namespace}/poddisruptionbudgets/b")
    stage.gone("old")
    stage.bound("new")


# -- reclaim -----------------------------------------------------------------------------------------------------


class Two:
    """A holder and a claimer below one parent."""

    def __init__(
        self, stage: Stage, quotas: tuple[float, float], *, gpus: int = 4, **claimer: object
    ) -> None:
        self.stage = stage
        nodes(stage, 1, gpus)
        top = stage.queue("top", gpu=share(gpus, -1))
        self.holder = stage.queue("holder", top, gpu=share(quotas[0]))
        self.claimer = stage.queue("claimer", top, gpu=share(quotas[1]), **claimer)

    def holds(self, *gpus: int) -> None:
        self.stage.running(
            *(self.stage.alone(f"h{n}", self.holder, gpus=each) for n, each in enumerate(gpus))
        )

    def claims(self, gpus: int) -> None:
        self.stage.alone("claim", self.claimer, gpus=gpus)


def test_rcl_01_the_fair_share_is_taken_back(stage: Stage) -> None:
    two = Two(stage, (1, 1))
    two.holds(2, 2)
    two.claims(2)
    stage.bound("claim")
    assert len(stage.settled()) == 2


def test_rcl_02_the_quota_is_taken_back(stage: Stage) -> None:
    two = Two(stage, (2, 2))
    two.holds(1, 2)
    stage.bound(stage.alone("has", two.claimer, gpus=1))
    two.claims(1)
    stage.bound("claim")


def test_rcl_03_not_beyond_the_fair_share(stage: Stage) -> None:
    two = Two(stage, (1, 1))
    two.holds(2)
    stage.running(stage.alone("has", two.claimer, gpus=1))
    stage.running(stage.alone("more", two.holder, gpus=1))
    two.claims(2)
    assert sorted(stage.settled()) == ["h0", "has", "more"]


def test_rcl_07_a_queue_of_higher_priority(stage: Stage) -> None:
    two = Two(stage, (1, 0), priority=101)
    two.holds(1, 1, 1, 1)
    two.claims(1)
    stage.bound("claim")
    assert len(stage.settled()) == 4


def test_rcl_09_a_gang_reclaims_from_many(stage: Stage) -> None:
    nodes(stage, 2, 4)
    top = stage.queue("top", gpu=share(8))
    holder = stage.queue("holder", top, gpu=share(0, -1, 0))
    claimer = stage.queue("claimer", top, gpu=share(8))
    old = [stage.alone(f"h{n}", holder, gpus=1) for n in range(8)]
    stage.running(*old)
    stage.group("g", claimer, minMember=2)
    stage.bound(*(stage.pod(f"c{n}", "g", gpus=4) for n in range(2)))
    stage.gone(*old)


def test_rcl_12_one_pod_of_each_elastic_group(stage: Stage) -> None:
    two = Two(stage, (2, 2))
    for group in ("a", "b"):
        stage.group(group, two.holder, minMember=1)
        for number in range(2):
            stage.pod(f"{group}{number}", group, gpus=1)
    stage.running("a0", "a1", "b0", "b1")
    two.claims(2)
    stage.bound("claim")
    assert sorted(name[0] for name in stage.settled() if name != "claim") == ["a", "b"]


# -- consolidate, stale --------------------------------------------------------------------------------------------


def test_con_01_single_gpus_move_together(stage: Stage) -> None:
    """Made anew by nobody here: what was moved waits as a pod of its controller would."""
    nodes(stage, 2, 2)
    old = [stage.alone(f"p{n}", gpus=1) for n in range(4)]
    placed = dict(zip(old, stage.bound(*old), strict=True))
    stage.running(*old)
    for node in ("n-0", "n-1"):
        victim = next(name for name, where in placed.items() if where == node)
        stage.cluster.nodes.lose(stage.path(victim))
    left = [name for name in old if name in stage.settled()]
    stage.alone("big", gpus=2, group=HIGH_PREEMPTIBLE)
    stage.bound("big")
    assert len([name for name in left if name in stage.settled()]) == 1


def test_a_gang_below_its_minimum_ends_after_its_grace(stage: Stage) -> None:
    nodes(stage, 1, 2)
    stage.group("g", minMember=2, stalenessGracePeriod="0s")
    stage.running(*(stage.pod(f"p{n}", "g", gpus=1) for n in range(2)))
    stage.cluster.nodes.fail(stage.path("p0"))
    stage.gone("p1")
