"""Changes of the API become events; after any order of changes the ledger is as one made from what is there now."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_service.backends.kubernetes.decode.pods import Place
from scheduler_service.ledger import events
from scheduler_service.model.gpu import FractionOfGpu, GpuShare, WholeGpus
from scheduler_service.model.plan import Bind
from scheduler_service.model.pod import PodState
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


def test_a_pod_is_planned(cluster: Cluster) -> None:
    cluster.put("pods", pod(requests=GPU))
    (bind,) = cluster.plan().operations()
    assert bind == Bind("a/p", "n")
    cluster.check()


def test_what_did_not_change_is_not_told(cluster: Cluster) -> None:
    cluster.put("pods", pod(requests=GPU))
    assert cluster.turn()
    cluster.put(
        "pods",
        pod(requests=GPU, status={"conditions": [{"type": "PodScheduled", "status": "False"}]}),
    )
    cluster.put("nodes", node(conditions=[{"type": "Ready", "status": "True", "message": "beat"}]))
    cluster.put("groups", group(status={"resourcesStatus": {"allocated": {"cpu": "1"}}}))
    assert cluster.turn() == []


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ({}, PodState.PENDING),
        ({"schedulingGates": [{"name": "x"}]}, PodState.GATED),
        ({"node": "n"}, PodState.BOUND),
        ({"node": "n", "phase": "Running"}, PodState.RUNNING),
        ({"node": "n", "phase": "Running", "deleted": "2026-01-05T09:00:00Z"}, PodState.RELEASING),
        ({"node": "n", "phase": "Succeeded"}, PodState.SUCCEEDED),
        ({"node": "n", "phase": "Failed"}, PodState.FAILED),
    ],
)
def test_states(cluster: Cluster, how: dict[str, Any], state: PodState) -> None:
    cluster.put("pods", pod(requests=GPU, **how))
    assert cluster.pod().state is state
    cluster.check()


def test_a_pod_that_goes_before_it_was_anywhere_is_not_known(cluster: Cluster) -> None:
    cluster.put("pods", pod(deleted="2026-01-05T09:00:00Z"))
    assert cluster.plan().operations() == ()
    assert cluster.ledger.snapshot(0).pods == ()


def test_from_pending_over_binding_to_running_only_the_state_is_told(cluster: Cluster) -> None:
    cluster.put("pods", pod(requests=GPU))
    cluster.turn()
    told = cluster.stores.pods["a/p"]
    cluster.world.overlay.bind(told, Place("n"))
    cluster.world.look_at_pod("a/p")
    assert cluster.turn() == [events.PodStateChanged("a/p", PodState.BINDING, "n")]
    cluster.put("pods", pod(requests=GPU, node="n"))
    assert cluster.turn() == [events.PodStateChanged("a/p", PodState.BOUND, "n")]
    cluster.check()


def test_a_binding_that_failed_frees_its_place(cluster: Cluster) -> None:
    cluster.put("pods", pod(requests={"nvidia.com/gpu": 8}))
    cluster.turn()
    cluster.world.overlay.bind(cluster.stores.pods["a/p"], Place("n"))
    cluster.world.look_at_pod("a/p")
    assert cluster.plan().operations() == ()
    cluster.world.overlay.unbind("a/p")
    cluster.world.look_at_pod("a/p")
    assert len(cluster.plan().operations()) == 1


def request_for(name: str, uid: str = "", **status: Any) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid or f"uid-{name}"}
    meta = {"name": name, "namespace": "a", "uid": f"br-{name}", "ownerReferences": [owner]}
    spec = {"podName": name, "selectedNode": "n", "selectedGPUGroups": ["group-1"]}
    return {"metadata": meta, "spec": spec, "status": status}


def test_a_bind_request_is_a_place_with_its_shared_gpu(cluster: Cluster) -> None:
    cluster.put("pods", pod(annotations={"gpu-fraction": "0.5"}))
    cluster.put("requests", request_for("p"))
    found = cluster.pod()
    assert (found.state, found.node) == (PodState.BINDING, "n")
    assert found.request.gpu == FractionOfGpu(500)
    assert found.devices == (GpuShare("group-1", 500),)
    cluster.put("requests", request_for("p", phase="Failed", failedAttempts=1))
    assert cluster.pod().state is PodState.PENDING
    cluster.check()


def test_a_bind_request_of_an_earlier_pod_of_that_name_means_nothing(cluster: Cluster) -> None:
    cluster.put("pods", pod(requests=GPU))
    cluster.put("requests", request_for("p", uid="other"))
    assert cluster.pod().state is PodState.PENDING


@pytest.mark.parametrize(
    "labels",
    [
        {"runai-gpu-group": "x"},
        {"runai-gpu-group/x": "x"},
        {"runai-gpu-group": "x", "runai-gpu-group/x": "x"},
    ],
)
def test_a_running_share_is_known_by_its_labels(cluster: Cluster, labels: dict[str, str]) -> None:
    cluster.put("nodes", node(labels={"nvidia.com/gpu.memory": "11441"}))
    cluster.put(
        "pods", pod(node="n", phase="Running", annotations={"gpu-fraction": "0.5"}, labels=labels)
    )
    assert cluster.pod().devices == (GpuShare("x", 500, 5700),)
    cluster.check()


def test_strangers_and_reservations_take_what_they_take(cluster: Cluster) -> None:
    cluster.put(
        "pods",
        pod("s", node="n", requests={"nvidia.com/gpu": 3, "cpu": "2"}, schedulerName="other"),
    )
    reservation = pod(
        "r", node="n", requests={"nvidia.com/gpu": 1, "cpu": "1"}, schedulerName="other"
    )
    reservation["metadata"]["namespace"] = "kai-resource-reservation"
    cluster.put("pods", reservation)
    cluster.turn()
    (found,) = cluster.ledger.snapshot(0).nodes
    assert (found.gpus, found.foreign_milli_cpu, found.foreign_pods) == (5, 3000, 1)
    cluster.put(
        "pods",
        pod(
            "s", node="n", phase="Succeeded", requests={"nvidia.com/gpu": 3}, schedulerName="other"
        ),
    )
    cluster.turn()
    (found,) = cluster.ledger.snapshot(0).nodes
    assert (found.gpus, found.foreign_pods) == (8, 0)
    cluster.check()


def test_nothing_of_a_released_group_is_placed(cluster: Cluster) -> None:
    cluster.put("pods", pod(requests=GPU))
    assert len(cluster.plan().operations()) == 1
    cluster.put("groups", group(annotations={"kai.scheduler/released": "finished"}))
    assert cluster.plan().operations() == ()
    assert cluster.pod().state is PodState.GATED
    cluster.put("groups", group())
    assert len(cluster.plan().operations()) == 1
    cluster.check()


def test_a_group_that_is_gone_leaves_its_running_pods_in_the_book(cluster: Cluster) -> None:
    cluster.put("pods", pod(requests={"nvidia.com/gpu": 8}, node="n", phase="Running"))
    cluster.turn()
    cluster.drop("groups", "a/g")
    cluster.put("groups", group("h"))
    cluster.put("pods", pod("q", group="h", requests=GPU))
    assert [op for op in cluster.plan().operations() if isinstance(op, Bind)] == []
    cluster.check()


class CountedLooks(dict[str, Any]):
    """What was told of pods, and how often somebody looked one up or went through all."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)

    def items(self) -> Any:
        self.looks += len(self)
        return super().items()


@pytest.mark.parametrize("others", [1, 50])
def test_a_group_that_is_gone_costs_its_own_pods_and_not_those_of_others(others: int) -> None:
    cluster = Cluster()
    cluster.put("nodes", node())
    cluster.put("queues", queue())
    for number in range(others + 1):
        cluster.put("groups", group(f"g{number}"))
        cluster.put("pods", pod(f"p{number}", group=f"g{number}", requests=GPU))
    cluster.turn()
    told = cluster.world.told.pods = CountedLooks(cluster.world.told.pods)
    cluster.drop("groups", "a/g0")
    cluster.turn()
    assert told.looks == 3
    cluster.check()


def test_a_pod_that_changes_its_group_when_the_old_one_goes_is_told_once(cluster: Cluster) -> None:
    cluster.put("pods", pod(requests=GPU, node="n", phase="Running"))
    cluster.turn()
    cluster.put("groups", group("h"))
    cluster.put("pods", pod(group="h", requests=GPU, node="n", phase="Running"))
    cluster.drop("groups", "a/g")
    kinds = [type(event) for event in cluster.turn()]
    assert kinds == [events.PodGroupRemoved, events.PodGroupAdded, events.PodAdded]
    cluster.check()


def test_nothing_is_kept_of_pods_and_groups_that_are_gone(cluster: Cluster) -> None:
    world = cluster.world
    cluster.put("pods", pod(requests=GPU, node="n", phase="Running"))
    cluster.turn()
    cluster.drop("groups", "a/g")
    cluster.drop("pods", "a/p")
    cluster.turn()
    for kept in (world.pods_of, world.pods_on, world.told_on, world.told.pods):
        assert not kept


def test_a_pod_waits_for_its_group(cluster: Cluster) -> None:
    cluster.put("pods", pod(group="late", requests=GPU))
    assert cluster.plan().operations() == ()
    cluster.put("groups", group("late"))
    assert len(cluster.plan().operations()) == 1
    cluster.check()


def test_a_share_that_makes_no_sense_waits_with_its_sentence(cluster: Cluster) -> None:
    cluster.put("pods", pod(annotations={"gpu-fraction": "NaN"}))
    assert cluster.plan().operations() == ()
    assert cluster.world.troubles == {
        "a/p": "The annotation gpu-fraction is 'NaN': not between 0 and 1."
    }
    cluster.put("pods", pod(annotations={"gpu-fraction": "0.5"}))
    assert len(cluster.plan().operations()) == 1
    assert cluster.world.troubles == {}


def test_eviction_is_seen_before_the_api_shows_it(cluster: Cluster) -> None:
    cluster.put("pods", pod(requests=GPU, node="n", phase="Running"))
    cluster.turn()
    cluster.world.overlay.evict(cluster.stores.pods["a/p"], 5000)
    cluster.world.look_at_pod("a/p")
    assert cluster.turn() == [events.PodStateChanged("a/p", PodState.RELEASING, "n", (), 5000)]
    cluster.put(
        "pods", pod(requests=GPU, node="n", phase="Running", deleted="2026-01-05T09:00:00Z")
    )
    assert cluster.pod().deleted_ms == 1767603600000
    cluster.check()


def test_what_the_ledger_was_told_otherwise_is_told_again(cluster: Cluster) -> None:
    """The loop assumed a start whose request was gone before the loop knew: the pod waits as before."""
    cluster.put("pods", pod(requests=GPU))
    (statement,) = cluster.plan().statements
    cluster.ledger.apply(events.Assumed(statement, 0))
    assert cluster.turn() == []
    cluster.world.tell_again("a/p")
    assert cluster.turn() == [events.PodStateChanged("a/p", PodState.PENDING)]
    assert len(cluster.plan().operations()) == 1


def test_a_pod_made_anew_under_its_name_is_another(cluster: Cluster) -> None:
    cluster.put("pods", pod(requests=GPU, node="n", phase="Running"))
    cluster.world.overlay.evict(cluster.stores.pods["a/p"], 5000)
    cluster.turn()
    cluster.put("pods", pod(requests=GPU, uid="second"))
    assert cluster.pod().state is PodState.PENDING
    cluster.check()


def test_order_inside_a_group(cluster: Cluster) -> None:
    labels: list[dict[str, str]] = [
        {"kai.scheduler/task-priority": "3"},
        {},
        {"ray.io/node-type": "head"},
        {"kai.scheduler/task-priority": "none"},
        {"training.kubeflow.org/job-role": "master", "kai.scheduler/task-priority": "2"},
    ]
    for number, each in enumerate(labels):
        cluster.put("pods", pod(f"p{number}", labels=each))
    cluster.turn()
    found = [item.precedence for item in cluster.ledger.snapshot(0).pods]
    assert found == [3, None, 1_000_000_000, None, 1_000_000_002]


def test_nodes(cluster: Cluster) -> None:
    cluster.put(
        "nodes",
        node(
            labels={"nvidia.com/gpu.memory": "85899345920", "nvidia.com/mig.strategy": "mixed"},
            amounts={"nvidia.com/mig-1g.5gb": "7", "example.com/fpga": "2"},
            spec={
                "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
                "unschedulable": True,
            },
        ),
    )
    cluster.turn()
    (found,) = cluster.ledger.snapshot(0).nodes
    assert (found.gpu_memory_mib, found.mig_strategy, dict(found.mig)) == (
        81900,
        "mixed",
        {"1g.5gb": 7},
    )
    assert (dict(found.extended), found.ready) == ({"example.com/fpga": 2}, False)
    assert [(taint.key, taint.value, taint.effect) for taint in found.taints] == [
        ("k", "v", "NoSchedule")
    ]
    cluster.put("nodes", node(conditions=[{"type": "Ready", "status": "Unknown"}]))
    cluster.turn()
    assert not cluster.ledger.snapshot(0).nodes[0].ready


def test_when_a_group_began_is_read_off_its_pods_where_somebody_asks(cluster: Cluster) -> None:
    cluster.put("queues", queue(preemptMinRuntime="1m"))
    cluster.put("groups", group(minMember=2))
    for number in range(3):
        began = {"startTime": f"1970-01-01T00:00:0{number + 1}Z"}
        cluster.put(
            "pods", pod(f"p{number}", node="n", phase="Running", requests=GPU, status=began)
        )
    cluster.turn()
    assert cluster.ledger.snapshot(0).pod_groups[0].started_ms == 2000
    assert cluster.ledger.snapshot(0).pods[0].request.gpu == WholeGpus(1)
