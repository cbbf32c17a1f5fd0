"""Groups made from what people apply, on a real API server: nobody writes a PodGroup by hand here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.scheduling import Stage, scheduler
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.operators import apply_crds

QUICK_START = Path(__file__).parent / "yaml" / "quick-start.yaml"
QUEUE = "kai.scheduler/queue"
RELEASED = "kai.scheduler/released"


@pytest.fixture(scope="module", autouse=True)
def running(kai_cluster: Cluster) -> Iterator[None]:
    with scheduler(kai_cluster):
        yield


@pytest.fixture
def stage(kai_cluster: Cluster, namespace: str) -> Stage:
    kai_cluster.nodes.add("n", count=2, gpus=4)
    return Stage(kai_cluster, namespace)


def template(queue: str = "", *, gpus: int = 1, labels: dict[str, str] | None = None) -> Any:
    """Return a pod template of ours."""
    amounts = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {
        "metadata": {"labels": {**({QUEUE: queue} if queue else {}), **(labels or {})}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "main", "image": "example.local/box:test", "resources": amounts}
            ],
        },
    }


def group_of(stage: Stage, prefix: str) -> dict[str, Any]:
    """Return the one group whose name begins so, once it is there."""
    found = stage.admin.wait_for(
        stage.groups,
        lambda all_: any(name.startswith(prefix) for name in all_),
        f"a group {prefix}…",
    )
    (one,) = [group for name, group in found.items() if name.startswith(prefix)]
    return one


def pods_like(stage: Stage, prefix: str, count: int) -> list[str]:
    """Return the names of so many pods, once they are there."""
    found = stage.admin.wait_for(
        stage.pods,
        lambda all_: sum(name.startswith(prefix) for name in all_) == count,
        f"{count} pods {prefix}…",
    )
    return sorted(name for name in found if name.startswith(prefix))


def group_is(stage: Stage, name: str, right: Any, what: str) -> dict[str, Any]:
    found: dict[str, Any] = stage.admin.wait_for_one(f"{stage.groups}/{name}", right, what)
    return found


def test_int_01_the_quick_start_pods_run_with_groups_of_their_own(stage: Stage) -> None:
    for one in yaml.safe_load_all(QUICK_START.read_text()):
        stage.admin.post(stage.pods, one)
    stage.bound("cpu-only-pod", "gpu-pod")
    pod = stage.admin.get(stage.path("gpu-pod"))
    name = pod["metadata"]["annotations"]["pod-group-name"]
    assert name == f"pg-gpu-pod-{pod['metadata']['uid']}"
    group = stage.admin.get(f"{stage.groups}/{name}")
    assert group["spec"]["queue"] == "default-queue"
    assert group["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]


def test_int_03_each_pod_of_a_deployment_is_alone_and_for_inference(stage: Stage) -> None:
    labels = {"app": "d"}
    stage.admin.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "d",
                "namespace": stage.namespace,
                "labels": {QUEUE: stage.default},
            },
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": _for_ever(template(labels=labels)),
            },
        }
    )
    pods = pods_like(stage, "d-", 2)
    stage.bound(*pods)
    groups = stage.admin.list(stage.groups)
    assert len(groups) == 2
    assert {one["spec"]["queue"] for one in groups} == {stage.default}
    assert {one["spec"]["priorityClassName"] for one in groups} == {"inference"}


def _for_ever(pod: Any) -> Any:
    spec = {key: value for key, value in pod["spec"].items() if key != "restartPolicy"}
    return {**pod, "spec": spec}


def job(stage: Stage, name: str, count: int, *, gpus: int = 1, **metadata: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": stage.namespace, **metadata},
        "spec": {"parallelism": count, "completions": count, "template": template(gpus=gpus)},
    }
    return body


def test_int_06_a_job_is_one_gang_of_the_minimum_it_names(stage: Stage) -> None:
    notes = {"kai.scheduler/batch-min-member": "3"}
    stage.admin.create(job(stage, "j", 3, annotations=notes, labels={QUEUE: stage.default}))
    stage.bound(*pods_like(stage, "j-", 3))
    group = group_of(stage, "pg-j-")
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["priorityClassName"] == "train"
    assert group["spec"]["queue"] == stage.default


def test_a_suspended_owner_lets_go_of_waiting_pods_and_takes_them_up_again(stage: Stage) -> None:
    body = job(stage, "s", 1, gpus=64, labels={QUEUE: stage.default})
    path = stage.admin.path_of(body)
    stage.admin.create(body)
    group = group_of(stage, "pg-s-")["metadata"]["name"]
    # The Job's own controller removes pods of a suspended Job; ours must not place one meanwhile.
    stage.admin.patch(path, {"spec": {"suspend": True}})
    stage.admin.wait_for(stage.pods, lambda all_: not all_, "the pods of the suspended Job go")
    stage.admin.patch(path, {"spec": {"suspend": False}})
    pods_like(stage, "s-", 1)
    group_is(stage, group, lambda one: RELEASED not in one["metadata"]["annotations"], "it is back")


def test_a_relabelled_owner_moves_its_group_and_a_move_by_hand_stays(stage: Stage) -> None:
    other, third = stage.queue("other"), stage.queue("third")
    body = job(stage, "m", 1, gpus=64, labels={QUEUE: stage.default})
    stage.admin.create(body)
    group = group_of(stage, "pg-m-")["metadata"]["name"]
    stage.admin.patch(stage.admin.path_of(body), {"metadata": {"labels": {QUEUE: other}}})
    group_is(stage, group, lambda one: one["spec"]["queue"] == other, "the group moved")
    stage.admin.patch(f"{stage.groups}/{group}", {"spec": {"queue": third}})
    stage.admin.patch(stage.admin.path_of(body), {"metadata": {"labels": {"x": "y"}}})
    seen = group_is(stage, group, lambda one: one["metadata"]["labels"].get("x") == "y", "seen")
    assert seen["spec"]["queue"] == third


def test_int_09_an_owner_that_may_not_be_read_ends_the_walk(stage: Stage) -> None:
    stage.admin.apply(_foreign_crd("riddles", "Riddle"))
    owner = stage.admin.create(
        {
            "apiVersion": "testbed.example/v1",
            "kind": "Riddle",
            "metadata": {"name": "r", "namespace": stage.namespace},
        }
    )
    reference = {
        "apiVersion": "testbed.example/v1",
        "kind": "Riddle",
        "name": "r",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    pod = template(stage.default)
    metadata = {**pod["metadata"], "name": "r-0", "ownerReferences": [reference]}
    stage.admin.post(stage.pods, {**pod, "metadata": metadata})
    stage.bound("r-0")
    assert group_of(stage, "pg-r-0-")["spec"]["minMember"] == 1


def _foreign_crd(plural: str, kind: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.testbed.example"},
        "spec": {
            "group": "testbed.example",
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def owned_pod(stage: Stage, owner: dict[str, Any], name: str, labels: dict[str, str]) -> str:
    """Make a pod as an operator would."""
    pod = template(labels=labels)
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    metadata = {**pod["metadata"], "name": name, "ownerReferences": [reference]}
    stage.admin.post(stage.pods, {**pod, "metadata": metadata})
    return name


def test_int_24_27_a_pytorch_job_waits_for_its_minimum_and_follows_its_scale(stage: Stage) -> None:
    apply_crds(stage.cluster, "kubeflow")
    pod = {"spec": {"containers": [{"name": "pytorch", "image": "example.local/box:test"}]}}
    owner = stage.admin.create(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {
                "name": "p",
                "namespace": stage.namespace,
                "labels": {QUEUE: stage.default},
            },
            "spec": {
                "pytorchReplicaSpecs": {
                    "Master": {"replicas": 1, "template": pod},
                    "Worker": {"replicas": 2, "template": pod},
                }
            },
        }
    )
    role, kind = "training.kubeflow.org/job-role", "training.kubeflow.org/replica-type"
    first = owned_pod(stage, owner, "p-master-0", {role: "master", kind: "master"})
    second = owned_pod(stage, owner, "p-worker-0", {kind: "worker"})
    group = group_of(stage, "pg-p-")
    assert group["spec"]["minMember"] == 3
    assert {each["name"] for each in group["spec"]["subGroups"]} == {"master", "worker"}
    assert stage.settled() == {}
    path = stage.admin.path_of(owner)
    stage.admin.patch(path, {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}})
    stage.bound(first, second)
    worker = stage.admin.get(stage.path(second))
    assert worker["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "worker"
    stage.admin.patch(path, {"metadata": {"finalizers": ["testbed.example/keep"]}})
    try:
        stage.admin.delete(path)
        group_is(
            stage,
            group["metadata"]["name"],
            lambda one: one["metadata"]["annotations"].get(RELEASED) == "deleted",
            "it is let go of",
        )
    finally:
        stage.admin.patch(path, {"metadata": {"finalizers": None}})


def test_int_34_a_ray_cluster_is_a_gang_of_its_head_and_the_least_of_its_workers(
    stage: Stage,
) -> None:
    apply_crds(stage.cluster, "ray")
    pod = {"spec": {"containers": [{"name": "ray", "image": "example.local/box:test"}]}}
    workers = {
        "groupName": "w",
        "replicas": 3,
        "minReplicas": 1,
        "maxReplicas": 3,
        "rayStartParams": {},
        "template": pod,
    }
    owner = stage.admin.create(
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {
                "name": "r",
                "namespace": stage.namespace,
                "labels": {QUEUE: stage.default},
            },
            "spec": {
                "headGroupSpec": {"rayStartParams": {}, "template": pod},
                "workerGroupSpecs": [workers],
            },
        }
    )
    head = owned_pod(
        stage, owner, "r-head", {"ray.io/node-type": "head", "ray.io/group": "headgroup"}
    )
    assert stage.settled() == {}
    worker = owned_pod(
        stage, owner, "r-worker-0", {"ray.io/node-type": "worker", "ray.io/group": "w"}
    )
    stage.bound(head, worker)


def test_rules_of_the_clusters_owner_are_taken_without_a_restart(stage: Stage) -> None:
    rules = """
    rules:
    - group: testbed.example
      kind: Choir
      minMember: spec.singers
    """
    stage.admin.apply(_foreign_crd("choirs", "Choir"))
    stage.admin.apply(_reader("choirs"))
    where = "/api/v1/namespaces/kai-scheduler/configmaps"
    stage.admin.post(
        where,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kai-grouping-rules"},
            "data": {"choirs.yaml": rules},
        },
    )
    try:
        owner = stage.admin.create(
            {
                "apiVersion": "testbed.example/v1",
                "kind": "Choir",
                "metadata": {"name": "c", "namespace": stage.namespace},
                "spec": {"singers": 2},
            }
        )
        first = owned_pod(stage, owner, "c-0", {QUEUE: stage.default})
        name = group_of(stage, "pg-c-")["metadata"]["name"]
        group_is(stage, name, lambda one: one["spec"]["minMember"] == 2, "the rule counts")
        assert stage.settled() == {}
        stage.bound(first, owned_pod(stage, owner, "c-1", {QUEUE: stage.default}))
    finally:
        stage.admin.delete(f"{where}/kai-grouping-rules")


def _reader(plural: str) -> list[dict[str, Any]]:
    """Return the right to read one more kind of owner, as a cluster's owner would give it."""
    rule = {
        "apiGroups": ["testbed.example"],
        "resources": [plural],
        "verbs": ["get", "list", "watch"],
    }
    name = {"name": f"testbed:{plural}"}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": name}
    subject = {"kind": "ServiceAccount", "name": "kai-scheduler", "namespace": "kai-scheduler"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name}
    return [
        {**role, "kind": "ClusterRole", "rules": [rule]},
        {**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
    ]
