"""What enters the cluster, asked by a real API server of a real `kai webhook` with its own few rights."""

from __future__ import annotations

import pytest

from tests.cluster.admission_bed import (
    admission,
    answer,
    person,
    pod,
    pods,
    queue,
    user_name,
    wait_until,
)
from tests.cluster.testbed.admin import Admin, ApiError

QUEUES = "/apis/scheduling.run.ai/v2/queues"


@pytest.fixture(scope="module")
def webhook(kai_cluster):
    with admission(kai_cluster) as running:
        yield running


@pytest.fixture
def ana(kai_cluster, webhook, namespace):
    return person(kai_cluster, namespace, "ana")


def refusal(action):
    with pytest.raises(ApiError) as caught:
        action()
    assert caught.value.status == 403, caught.value
    return caught.value.message


def groups(namespace):
    return f"/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups"


def test_the_quick_start_pod_is_let_in(ana, namespace):
    made = ana.create(pod(namespace, limits={"nvidia.com/gpu": "1"}))
    assert made["spec"]["schedulerName"] == "kai-scheduler"


@pytest.mark.parametrize("meta", [{"name": "work"}, {"generateName": "work-"}])
def test_ALC_01_02_a_share_needs_no_namespace_in_its_body(ana, namespace, meta):  # noqa: N802
    shared = pod(namespace, annotations={"gpu-fraction": "0.5"})
    shared["metadata"] = {
        "labels": shared["metadata"]["labels"],
        "annotations": shared["metadata"]["annotations"],
        **meta,
    }
    made = ana.post(pods(namespace), shared)
    prefix = made["metadata"]["annotations"]["runai/shared-gpu-configmap"]
    assert prefix.startswith("work-")
    container = made["spec"]["containers"][0]
    keys = {
        entry["name"]: entry["valueFrom"]["configMapKeyRef"]["name"] for entry in container["env"]
    }
    assert keys == dict.fromkeys(
        ("NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"), f"{prefix}-0"
    )
    assert container["envFrom"] == [{"configMapRef": {"name": f"{prefix}-0-evar"}}]
    assert f"{prefix}-0-vol" in [volume["name"] for volume in made["spec"]["volumes"]]
    assert "runtimeClassName" not in made["spec"]


def test_the_runtime_class_comes_with_the_cluster(kai_cluster, ana, namespace):
    kai_cluster.apply(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "shares"},
            "handler": "runc",
        }
    )
    with config(kai_cluster, {"gpuFractionRuntimeClassName": "shares"}):
        wait_until(
            lambda: (
                ana.post(
                    pods(namespace),
                    {
                        **pod(namespace, annotations={"gpu-memory": "100"}),
                        "metadata": shared_meta(),
                    },
                )["spec"].get("runtimeClassName")
                == "shares"
            )
        )


def shared_meta():
    return {
        "generateName": "s-",
        "labels": {"kai.scheduler/queue": "default-queue"},
        "annotations": {"gpu-memory": "100"},
    }


REFUSED = {
    "V2": ({"mps": "true"}, None, "mps is for pods that share a GPU"),
    "V3": ({"gpu-fraction": "0.5"}, {"nvidia.com/gpu": "1"}, "not for both"),
    "V4": ({"gpu-fraction": "0.5", "gpu-memory": "100"}, None, "not by both"),
    "V5": ({"gpu-fraction-num-devices": "2"}, None, "for pods that share a GPU"),
    "V6": ({"gpu-memory": "much"}, None, "whole number of MiB"),
    "V7": ({"gpu-fraction": "1.0"}, None, "above 0 and below 1"),
    "V7-NaN": ({"gpu-fraction": "NaN"}, None, "above 0 and below 1"),
    "V8": ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "x"}, None, "num-devices is 'x'"),
    "V9": ({"gpu-fraction": "0.5", "gpu-fraction-container-name": "x"}, None, "no such container"),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_a_share_that_can_not_be_given_is_refused(ana, namespace, rule):
    annotations, limits, says = REFUSED[rule]
    told = refusal(lambda: ana.create(pod(namespace, annotations=annotations, limits=limits)))
    assert says in told


def test_V1_sharing_is_switched_off_and_on_while_it_runs(kai_cluster, ana, namespace):  # noqa: N802
    shared = pod(namespace, annotations={"gpu-fraction": "0.5"})
    with config(kai_cluster, {"gpuSharing": False}):
        wait_until(lambda: "switched off" in answer(ana, shared))
    wait_until(lambda: answer(ana, shared) == "")


def test_containers_without_a_gpu_see_none_when_that_is_switched_on(kai_cluster, ana, namespace):
    plain = pod(namespace)
    plain["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    taker = pod(namespace, limits={"nvidia.com/gpu": "1"})
    taker["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    assert answer(ana, taker) == ""
    with config(kai_cluster, {"blockNvidiaVisibleDevices": True}):
        wait_until(lambda: "NVIDIA_VISIBLE_DEVICES itself" in answer(ana, taker))
        wait_until(lambda: env_of(ana, plain) == [("NVIDIA_VISIBLE_DEVICES", "void")])
    wait_until(lambda: env_of(ana, plain) == [("NVIDIA_VISIBLE_DEVICES", "all")])


def env_of(hand, obj):
    """Return the environment that its container would get. Nothing is stored."""
    made = hand._request(
        "POST", pods(obj["metadata"]["namespace"]), obj, parameters={"dryRun": "All"}
    )
    return [(each["name"], each["value"]) for each in made["spec"]["containers"][0]["env"]]


class config:  # noqa: N801 - reads like a word
    """kai-config says this of admission for a while."""

    path = "/apis/kai.scheduler/v1/configs/kai-config"

    def __init__(self, cluster, admission_fields):
        self.cluster, self.fields = cluster, admission_fields

    def __enter__(self):
        self.before = self.cluster.admin.get(self.path)["spec"] if self._exists() else None
        if self.before is None:
            self.cluster.apply(
                {
                    "apiVersion": "kai.scheduler/v1",
                    "kind": "Config",
                    "metadata": {"name": "kai-config"},
                    "spec": {},
                }
            )
        self.cluster.admin.patch(self.path, {"spec": {"admission": self.fields}})

    def __exit__(self, *_):
        if self.before is None:
            self.cluster.admin.delete(self.path)
            return
        undone = {key: self.before.get("admission", {}).get(key) for key in self.fields}
        self.cluster.admin.patch(self.path, {"spec": {"admission": undone}})

    def _exists(self):
        return self.cluster.admin.find(self.path) is not None


# -- queues: who may ask -----------------------------------------------------------------------


def test_a_queue_that_does_not_exist_is_said_so_and_one_made_just_now_does(
    kai_cluster, ana, namespace
):
    asking = pod(namespace, queue="brand-new")
    assert "There is no queue 'brand-new'" in refusal(lambda: ana.create(asking))
    kai_cluster.admin.create(queue("brand-new"))
    assert ana.create(asking)["metadata"]["name"] == "work"


def test_subjects_and_namespaces_of_a_queue_hold(kai_cluster, ana, namespace):
    me = user_name(namespace, "ana")
    kai_cluster.apply(
        [
            queue("of-ana", subjects=[f"user:{me}"]),
            queue("of-bob", subjects=["user:bob"]),
            queue("of-us", subjects=[f"group:system:serviceaccounts:{namespace}"]),
            queue("elsewhere", namespaces=["other"]),
            queue("here", namespaces=[namespace]),
        ]
    )
    said = {}
    for name in ("of-ana", "of-bob", "of-us", "elsewhere", "here"):
        wait_until(lambda name=name: kai_cluster.admin.find(f"{QUEUES}/{name}") is not None)
        said[name] = answer(ana, pod(namespace, queue=name))
    assert [said[name] for name in ("of-ana", "of-us", "here")] == ["", "", ""]
    assert "none of its subjects" in said["of-bob"]
    assert f"can not be asked from the namespace '{namespace}'" in said["elsewhere"]


def job(namespace, *, on_template="", on_job=""):
    template = pod(namespace, queue=on_template)
    template["spec"]["restartPolicy"] = "Never"
    del template["metadata"]["name"], template["metadata"]["namespace"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": namespace,
            "labels": {"kai.scheduler/queue": on_job} if on_job else {},
        },
        "spec": {"template": {"metadata": template["metadata"], "spec": template["spec"]}},
    }


@pytest.mark.parametrize("where", ["on_job", "on_template"])
def test_whoever_writes_a_job_must_be_allowed_to_ask_its_queue(kai_cluster, ana, namespace, where):
    kai_cluster.apply([queue("of-bob", subjects=["user:bob"]), queue("open")])
    told = refusal(lambda: ana.create(job(namespace, **{where: "of-bob"})))
    assert "none of its subjects" in told
    ana.create(job(namespace, **{where: "open"}))
    made = kai_cluster.admin.wait_for(pods(namespace), bool, "the controller makes the pod")
    assert len(made) == 1


def test_the_pods_of_a_job_that_was_allowed_are_made_by_the_controller(kai_cluster, ana, namespace):
    me = user_name(namespace, "ana")
    kai_cluster.apply(queue("of-ana", subjects=[f"user:{me}"], namespaces=[namespace]))
    ana.create(job(namespace, on_job="of-ana", on_template="of-ana"))
    kai_cluster.admin.wait_for(pods(namespace), bool, "the controller makes the pod")


def test_a_pod_group_asks_no_foreign_queue(kai_cluster, ana, namespace):
    kai_cluster.apply(queue("of-bob", subjects=["user:bob"]))
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "pg", "namespace": namespace},
        "spec": {"queue": "of-bob", "minMember": 1},
    }
    assert "none of its subjects" in refusal(lambda: ana.create(group))
    group["spec"]["queue"] = "default-queue"
    ana.create(group)
    moved = {"spec": {"queue": "of-bob"}}
    assert "none of its subjects" in refusal(lambda: ana.patch(f"{groups(namespace)}/pg", moved))
    ana.delete(f"{groups(namespace)}/pg")


def test_groups_that_we_make_ourselves_are_judged_by_their_namespace(kai_cluster, ana, namespace):
    """So a queue that an owner of some unknown kind names is judged, too."""
    kai_cluster.apply(
        [queue("elsewhere", namespaces=["other"]), queue("of-bob", subjects=["user:bob"])]
    )
    grouper = Admin(kai_cluster.access("kai-scheduler"))
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "pg", "namespace": namespace},
        "spec": {"queue": "elsewhere", "minMember": 1},
    }
    assert "can not be asked from the namespace" in refusal(lambda: grouper.create(group))
    group["metadata"]["labels"] = {"kai.scheduler/queue": "elsewhere"}
    assert "can not be asked from the namespace" in refusal(lambda: grouper.create(group))
    group["metadata"]["labels"] = {}
    group["spec"]["queue"] = "of-bob"
    grouper.create(group)
    moved = {"spec": {"queue": "elsewhere"}}
    told = refusal(lambda: grouper.patch(f"{groups(namespace)}/pg", moved))
    assert "can not be asked from the namespace" in told


# -- what nobody may claim -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "claim",
    [
        {"annotations": {"kai.scheduler/owner": "bob"}},
        {"annotations": {"received-resource-type": "Fraction"}},
        {"annotations": {"kai.scheduler/gpu-assigned": "[]"}},
        {"labels": {"runai-gpu-group": "g1"}},
        {"labels": {"runai-gpu-group/g1": "g1"}},
    ],
)
def test_what_the_scheduler_decides_is_written_by_it_alone(kai_cluster, ana, namespace, claim):
    forged = pod(namespace)
    for field, values in claim.items():
        forged["metadata"][field].update(values)
    assert "written by the scheduler alone" in refusal(lambda: ana.create(forged))
    ana.create(pod(namespace))
    path = f"{pods(namespace)}/work"
    assert "written by the scheduler alone" in refusal(lambda: ana.patch(path, {"metadata": claim}))
    binder = Admin(kai_cluster.access("kai-binder"))
    binder.patch(path, {"metadata": claim})


def test_a_pod_joins_no_group_of_other_work(kai_cluster, ana, namespace):
    kai_cluster.admin.create(
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {
                "name": "pg-train",
                "namespace": namespace,
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "u-1"}
                ],
            },
            "spec": {"queue": "default-queue", "minMember": 1},
        }
    )
    joining = pod(namespace, annotations={"pod-group-name": "pg-train"})
    told = answer(ana, joining)
    assert (
        "belongs to other work" in told
        or kai_cluster.admin.find(f"{groups(namespace)}/pg-train") is None
    )
    kai_cluster.admin.delete(f"{groups(namespace)}/pg-train")
    assert answer(ana, joining) == ""


def test_a_running_pod_keeps_its_queue_and_its_share(kai_cluster, ana, namespace):
    kai_cluster.nodes.add("node", count=1, gpus=8)
    kai_cluster.apply(queue("other"))
    ana.create(pod(namespace))
    path = f"{pods(namespace)}/work"
    relabelled = {"metadata": {"labels": {"kai.scheduler/queue": "other"}}}
    ana.patch(path, relabelled)
    nodes = kai_cluster.admin.list("/api/v1/nodes")
    kai_cluster.admin.post(
        f"{path}/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "work"},
            "target": {"kind": "Node", "name": nodes[0]["metadata"]["name"]},
        },
    )
    back = {"metadata": {"labels": {"kai.scheduler/queue": "default-queue"}}}
    assert "its queue is charged for it" in refusal(lambda: ana.patch(path, back))
    share = {"metadata": {"annotations": {"gpu-fraction": "0.1"}}}
    assert "can not change after its creation" in refusal(lambda: ana.patch(path, share))
    ana.patch(path, {"metadata": {"labels": {"app": "mine"}}})


def test_gpus_are_not_given_past_the_queues_in_a_managed_namespace(kai_cluster, webhook):
    managed = kai_cluster.new_namespace(**{"kai.scheduler/managed": "true"})
    plain = kai_cluster.new_namespace()
    bob = person(kai_cluster, managed, "bob")
    other = pod(managed, scheduler="default-scheduler", limits={"nvidia.com/gpu": "1"})
    assert "Set spec.schedulerName to kai-scheduler" in answer(bob, other)
    assert answer(bob, pod(managed, scheduler="default-scheduler")) == ""
    eve = person(kai_cluster, plain, "eve")
    free = pod(plain, scheduler="default-scheduler", limits={"nvidia.com/gpu": "1"})
    assert answer(eve, free) == ""
    bypass = pod(managed, limits={"nvidia.com/gpu": "1"}, nodeName="n1")
    assert "spec.nodeName" in answer(bob, bypass)
    kai_cluster.clean()


def test_kube_system_is_never_asked_about(kai_cluster, webhook):
    wrong = pod("kube-system", queue="nowhere", annotations={"gpu-fraction": "NaN"})
    assert answer(kai_cluster.admin, wrong) == ""


# -- queues, groups, topologies as objects ------------------------------------------------------------


def test_a_queue_is_not_above_itself_and_not_deleted_under_its_work(
    kai_cluster, webhook, namespace
):
    admin = kai_cluster.admin
    admin.create(queue("top"))
    admin.create(queue("low", parentQueue="top"))
    told = refusal(lambda: admin.patch(f"{QUEUES}/top", {"spec": {"parentQueue": "low"}}))
    assert "would be above itself" in told
    assert "-5" in refusal(lambda: admin.create(queue("bad", resources={"cpu": {"limit": -5}})))

    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "pg", "namespace": namespace},
        "spec": {"queue": "low", "minMember": 1},
    }
    admin.create(group)
    told = refusal(lambda: admin._request("DELETE", f"{QUEUES}/low"))
    assert f"still has work: {namespace}/pg" in told
    counted = {"status": {"resourcesStatus": {"requested": {"cpu": "0"}}}}
    admin.patch(f"{groups(namespace)}/pg/status", counted)
    admin._request("DELETE", f"{QUEUES}/low")


def test_a_pod_group_that_can_never_be_right_is_refused(ana, namespace):
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "pg", "namespace": namespace},
        "spec": {"minMember": 1, "minSubGroup": 1, "queue": "default-queue"},
    }
    assert "has both" in refusal(lambda: ana.create(group))
    group["spec"] = {
        "queue": "default-queue",
        "subGroups": [{"name": "a", "minMember": 1, "parent": "b"}],
    }
    assert "which does not exist" in refusal(lambda: ana.create(group))


def test_an_alias_of_a_topology_means_one_level(kai_cluster, webhook):
    levels = [{"nodeLabel": "zone", "alias": "x"}, {"nodeLabel": "rack", "alias": "x"}]
    topology = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "doubled"},
        "spec": {"levels": levels},
    }
    assert "stands for 2 levels" in refusal(lambda: kai_cluster.admin.create(topology))
