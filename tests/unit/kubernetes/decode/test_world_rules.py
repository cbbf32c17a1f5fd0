"""Rules on nodes and pods, groups and queues as KAI's objects say them, followed by a ledger."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_service.backends.kubernetes.decode.stores import Scope
from scheduler_service.model.pod import NodeAffinity, Toleration
from scheduler_service.model.pod_group import Preemptibility
from tests.unit.kubernetes.following import Cluster
from tests.unit.kubernetes.objects import group, node, pod, queue

GPU = {"nvidia.com/gpu": 1}


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.put("nodes", node())
    made.put("queues", queue())
    made.put("groups", group())
    return made


def test_rules_on_nodes(cluster: Cluster) -> None:
    required = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]
    cluster.put(
        "pods",
        pod(
            nodeSelector={"disk": "ssd"},
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": required
                    }
                }
            },
            tolerations=[
                {"key": "t", "operator": "Exists"},
                {"key": "u", "value": "1", "effect": "NoSchedule"},
            ],
        ),
    )
    found = cluster.pod()
    assert found.node_affinity == (NodeAffinity("disk", ("ssd",)), NodeAffinity("zone", ("a", "b")))
    assert found.tolerations == (Toleration("t"), Toleration("u", "1", "NoSchedule"))


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": "zone", "operator": "NotIn", "values": ["b"]}, ["in-a", "plain"]),
        ({"key": "zone", "operator": "Exists"}, ["in-a", "in-b"]),
        ({"key": "zone", "operator": "DoesNotExist"}, ["plain"]),
        ({"key": "size", "operator": "Gt", "values": ["3"]}, ["in-b"]),
        ({"key": "size", "operator": "Lt", "values": ["3"]}, ["in-a"]),
        ({"key": "size", "operator": "Lt", "values": ["x"]}, []),
    ],
)
def test_rules_that_the_model_has_no_word_for(
    cluster: Cluster, expression: dict[str, Any], fits: list[str]
) -> None:
    cluster.drop("nodes", "n")
    for name, labels in (
        ("in-a", {"zone": "a", "size": "1"}),
        ("in-b", {"zone": "b", "size": "5"}),
        ("plain", {}),
    ):
        cluster.put("nodes", node(name, gpus=1, labels=labels))
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    for number in range(3):
        cluster.put("groups", group(f"g{number}"))
        cluster.put("pods", pod(f"p{number}", group=f"g{number}", requests=GPU, affinity=required))
    assert sorted(op.node for op in cluster.plan().operations()) == fits
    cluster.check()


def test_one_of_several_terms_is_enough(cluster: Cluster) -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
    ]
    required = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }
    cluster.put("nodes", node("other"))
    cluster.put("pods", pod(requests=GPU, affinity=required))
    (bind,) = cluster.plan().operations()
    assert bind.node == "n"


def test_pods_of_a_kind_keep_apart_by_expression(cluster: Cluster) -> None:
    cluster.put("nodes", node("m"))
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for name in ("n", "m"):
        cluster.put("nodes", node(name, labels={"kubernetes.io/hostname": name}))
    for number in range(3):
        cluster.put("groups", group(f"g{number}"))
        cluster.put(
            "pods", pod(f"p{number}", group=f"g{number}", labels={"app": "x"}, affinity=apart)
        )
    assert sorted(op.node for op in cluster.plan().operations()) == ["m", "n"]
    cluster.check()


def test_groups(cluster: Cluster) -> None:
    spec = {
        "minSubGroup": 1,
        "subGroups": [
            {"name": "a", "minMember": 2},
            {"name": "b", "minSubGroup": 1},
            {"name": "b1", "parent": "B", "minMember": 1},
            {"name": "b2", "parent": "b", "minMember": 3},
            {"name": "lost", "parent": "nobody", "minMember": 1},
        ],
        "preemptibility": "non-preemptible",
        "preemptionDelay": "10m",
        "stalenessGracePeriod": "-1s",
        "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"},
    }
    cluster.put("groups", group(**spec))
    cluster.turn()
    (found,) = cluster.ledger.snapshot(0).pod_groups
    tree = {item.name: item for item in found.gang.children}
    assert sorted(tree) == ["a", "b", "lost"]
    assert [(leaf.name, leaf.min_members) for leaf in tree["b"].leaves()] == [("b1", 1), ("b2", 3)]
    assert (found.gang.min_subgroups, tree["b"].min_subgroups) == (1, 1)
    assert found.preemptibility is Preemptibility.NON_PREEMPTIBLE
    assert (found.preemption_delay_ms, found.stale_grace_ms) == (600_000, None)
    assert found.gang.topology is not None
    assert found.gang.topology.required_level == "rack"


@pytest.mark.parametrize(
    ("spec", "needed"), [({}, 1), ({"minMember": 0}, 0), ({"minMember": 4}, 4)]
)
def test_flat_groups(cluster: Cluster, spec: dict[str, Any], needed: int) -> None:
    cluster.put("groups", group(**spec))
    cluster.turn()
    (found,) = cluster.ledger.snapshot(0).pod_groups
    assert found.min_members == needed


def test_queues(cluster: Cluster) -> None:
    gpu = {"quota": 1.5, "limit": 0, "overQuotaWeight": 2}
    cluster.put(
        "queues", queue("r", gpu=gpu, parentQueue="q", priority=7, preemptMinRuntime="1m30s")
    )
    cluster.turn()
    found = next(item for item in cluster.ledger.snapshot(0).queues if item.name == "r")
    assert (found.gpu.quota, found.gpu.limit, found.gpu.over_quota_weight) == (1500, 0, 2)
    assert (found.cpu.quota, found.cpu.limit) == (None, None)
    assert (found.parent, found.priority, found.preempt_min_runtime_ms) == ("q", 7, 90_000)
    cluster.put("queues", queue("s", gpu={**gpu, "overQuotaWeight": 0.5}))
    cluster.turn()
    weights = {item.name: item.gpu.over_quota_weight for item in cluster.ledger.snapshot(0).queues}
    assert weights == {"q": 1000, "r": 2000, "s": 500}
    cluster.check()


def test_without_the_fairness_of_the_hierarchy_all_leaves_are_brothers() -> None:
    cluster = Cluster(Scope(is_flat=True))
    for name, parent in (("top", ""), ("mid", "top"), ("leaf", "mid")):
        cluster.put("queues", queue(name, parentQueue=parent))
    cluster.turn()
    assert {item.name: item.parent for item in cluster.ledger.snapshot(0).queues} == {
        "default": None,
        "mid": "default",
        "leaf": "default",
    }


def test_each_pool_has_its_own() -> None:
    pool = {"kai.scheduler/node-pool": "blue"}
    cluster = Cluster(Scope(pool="blue"))
    cluster.put("nodes", node("mine", labels=pool))
    cluster.put("nodes", node("other"))
    mine = queue()
    mine["metadata"]["labels"] = pool
    cluster.put("queues", mine)
    cluster.put("groups", group(labels=pool))
    cluster.put("groups", group("theirs"))
    cluster.put("pods", pod(requests={"nvidia.com/gpu": 8}))
    cluster.put(
        "pods",
        pod("x", group="theirs", node="mine", phase="Running", requests={"nvidia.com/gpu": 2}),
    )
    cluster.turn()
    found = cluster.ledger.snapshot(0)
    assert [(item.name, item.gpus) for item in found.nodes] == [("mine", 6)]
    assert [item.key for item in found.pods] == ["a/p"]
    cluster.world.rescope(Scope())
    cluster.turn()
    assert [item.name for item in cluster.ledger.snapshot(0).nodes] == ["other"]
