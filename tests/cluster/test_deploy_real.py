"""What we ship, as it runs: manifests and the real image on the real node, a pod that asks, an upgrade in place."""

from __future__ import annotations

import copy
import threading
from contextlib import contextmanager

import pytest
import yaml

from tests.cluster.admission_bed import queue
from tests.cluster.testbed import images
from tests.cluster.testbed.admin import ApiError
from tests.cluster.testbed.cluster import DEPLOY, OUR_NAMESPACE

MANIFESTS = DEPLOY / "manifests"
APPS = f"/apis/apps/v1/namespaces/{OUR_NAMESPACE}"
PODS = f"/api/v1/namespaces/{OUR_NAMESPACE}/pods"
OURS = ("admission", "binder", "kai-scheduler-default")
SLOW_S = 600
WITH_PROCESSES = {
    "Deployment",
    "DaemonSet",
    "Service",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


def running_parts():
    """What `kai_cluster` leaves out, with the image of the test and little appetite: the machine is small."""
    for path in sorted(MANIFESTS.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] in WITH_PROCESSES:
                template = (
                    document["spec"]["template"] if "template" in document.get("spec", {}) else None
                )
                if template is not None:
                    for container in template["spec"]["containers"]:
                        _fit(container)
                yield document


def _fit(container):
    container["image"], container["imagePullPolicy"] = images.PYTHON, "Never"
    container["resources"]["requests"] = {"cpu": "10m", "memory": "64Mi"}
    container["args"] = [
        f"--reservation-image={images.PYTHON}" if part.startswith("--reservation-image") else part
        for part in container["args"]
    ]


def grouped(admin, pod):
    """Make the pod's group by hand, then the pod: who groups by owner is another test's business."""
    meta = pod["metadata"]
    name, space = meta["name"], meta["namespace"]
    admin.create(
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": space},
            "spec": {"queue": "team", "minMember": 1},
        }
    )
    meta.setdefault("annotations", {})["pod-group-name"] = name
    meta.setdefault("labels", {})["kai.scheduler/queue"] = "team"
    return admin.create(pod)


class Placing:
    """Stands for the default scheduler, which the test cluster has not: our own pods go to the one node."""

    def __init__(self, admin, node):
        self.admin, self.node = admin, node

    def until(self, right, what):
        def look(found):
            for name, pod in found.items():
                if "nodeName" not in pod["spec"] and "deletionTimestamp" not in pod["metadata"]:
                    self._bind(name)
            return right(found)

        return self.admin.wait_for(PODS, look, what, fail_safe_s=SLOW_S)

    def _bind(self, name):
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        try:
            self.admin.post(f"{PODS}/{name}/binding", body)
        except ApiError as error:
            assert error.status in {404, 409}, error  # noqa: PT017


def is_ready(pod):
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def is_running(pod):
    return pod.get("status", {}).get("phase") == "Running"


def of_app(found, app):
    return [
        pod
        for pod in found.values()
        if pod["metadata"]["labels"].get("app") == app
        and "deletionTimestamp" not in pod["metadata"]
    ]


def all_serve(found, image_mark=None):
    """Two of each: all ready, but of the scheduler only who leads."""
    parts = {app: of_app(found, app) for app in OURS}
    if image_mark is not None:
        marks = [
            p["metadata"].get("annotations", {}).get("mark") for ps in parts.values() for p in ps
        ]
        if set(marks) != {image_mark}:
            return False
    ready = {app: sum(map(is_ready, pods)) for app, pods in parts.items()}
    return (
        all(len(pods) == 2 and all(map(is_running, pods)) for pods in parts.values())
        and ready == {"admission": 2, "binder": 2, "kai-scheduler-default": 1}
        and len(of_app(found, "kai-agent")) == 1
    )


@pytest.fixture(scope="module")
def installed(kai_cluster, real_node):
    documents = list(running_parts())
    kai_cluster.apply(documents)
    placing = Placing(kai_cluster.admin, real_node.name)
    try:
        placing.until(all_serve, "all that we ship serves")
        yield placing
    finally:
        for document in reversed(documents):
            kai_cluster.admin.delete(kai_cluster.admin.path_of(document))


@pytest.fixture
def hand(kai_cluster, installed, namespace):
    """The administrator, in a namespace with a queue."""
    kai_cluster.apply(queue("team"))
    return kai_cluster.admin


def runs(hand, namespace, name):
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    return hand.wait_for_one(path, is_running, f"{name} runs", fail_safe_s=SLOW_S)


def test_what_we_ship_runs_and_places_a_pod(hand, real_node, namespace):
    first = real_node.pod("first", namespace, ["sleep", "600"], gpus=1)
    wrong = copy.deepcopy(first)
    grouped(hand, first)
    runs(hand, namespace, "first")
    wrong["metadata"] |= {"name": "wrong", "annotations": {"gpu-fraction": "0.5"}}
    with pytest.raises(ApiError, match="not for both"):
        hand.create(wrong)


def test_a_job_of_somebody_needs_a_queue_and_a_scheduler_name_only(hand, real_node, namespace):
    template = real_node.pod("unused", namespace, ["true"], gpus=1)
    labels = {"kai.scheduler/queue": "team"}
    hand.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train", "namespace": namespace, "labels": labels},
            "spec": {
                "parallelism": 2,
                "completions": 2,
                "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
            },
        }
    )
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/train"
    hand.wait_for_one(
        path, lambda job: job["status"].get("succeeded") == 2, "the job ends", fail_safe_s=SLOW_S
    )


def test_the_agent_tells_of_its_node_and_is_confined_to_that(hand, real_node):
    path = f"/api/v1/nodes/{real_node.name}"
    told = "kai.scheduler/gpu-devices"
    hand.wait_for_one(
        path,
        lambda node: told in node["metadata"].get("annotations", {}),
        "the agent writes about its node",
        fail_safe_s=SLOW_S,
    )


def test_two_halves_run_on_one_gpu_with_what_admission_and_binder_gave_them(
    hand, real_node, namespace
):
    for name in ("one", "two"):
        half = {"gpu-fraction": "0.5"}
        shared = real_node.pod(name, namespace, ["sleep", "600"], annotations=half)
        grouped(hand, shared)
    for name in ("one", "two"):
        runs(hand, namespace, name)
    maps = hand.list(f"/api/v1/namespaces/{namespace}/configmaps")
    told = [one["data"] for one in maps if "NVIDIA_VISIBLE_DEVICES" in one.get("data", {})]
    assert {one["GPU_PORTION"] for one in told} == {"0.50"}
    (device,) = {one["NVIDIA_VISIBLE_DEVICES"] for one in told}
    assert device.startswith("GPU-")


@contextmanager
def asking_all_the_time(hand, pod):
    """Somebody makes pods of ours again and again; gives what they were told when nobody answered."""
    pod["metadata"]["labels"] = {"kai.scheduler/queue": "team"}
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
    over, told = threading.Event(), []

    def ask():
        while not over.wait(0.1):
            try:
                hand._request("POST", path, pod, parameters={"dryRun": "All"})
            except ApiError as error:
                told.append(error.message)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield told
    finally:
        over.set()
        asking.join()


def test_an_upgrade_in_place_touches_no_running_work(hand, real_node, installed, namespace):
    grouped(hand, real_node.pod("before", namespace, ["sleep", "600"], gpus=1))
    before = runs(hand, namespace, "before")
    with asking_all_the_time(hand, real_node.pod("asked", namespace, ["true"])) as unanswered:
        for app in OURS:
            mark = {"spec": {"template": {"metadata": {"annotations": {"mark": "next"}}}}}
            hand.patch(f"{APPS}/deployments/{app}", mark)
        installed.until(lambda found: all_serve(found, "next"), "all that we ship was replaced")
    assert unanswered == []
    after = runs(hand, namespace, "before")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    grouped(hand, real_node.pod("after", namespace, ["sleep", "600"], gpus=1))
    runs(hand, namespace, "after")
