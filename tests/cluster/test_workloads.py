"""What the API makes for people, by our own account on a real API server, where the restricted standard holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scheduler_service.ports import Caller
from tests.cluster.admission_bed import admission, person
from tests.cluster.scheduling import scheduler
from tests.cluster.test_deploy import helm
from tests.cluster.testbed.admin import ApiError
from tests.cluster.testbed.cluster import OUR_NAMESPACE, Cluster
from tests.cluster.testbed.operators import apply_crds
from tests.cluster.workloads_bed import (
    IMAGE,
    OPEN,
    RESTRICTED,
    Lab,
    ask,
    may_edit,
    opened,
)


@pytest.fixture
def lab(kai_cluster: Cluster, namespace: str, say: Any) -> Lab:
    return Lab(kai_cluster, opened(kai_cluster, str(helm(say)), **OPEN, **RESTRICTED))


# -- made ------------------------------------------------------------------------------------------------


def test_one_worker_becomes_a_pod_of_the_restricted_standard(lab: Lab) -> None:
    namespace, name, is_new = lab.create(ask(gpu=1, lease_s=600))
    assert (namespace, is_new) == (lab.namespace, True)
    pod = lab.one("pods")
    assert pod["metadata"]["name"] == name
    assert pod["metadata"]["annotations"]["kai.scheduler/owner"] == "ana"
    assert pod["metadata"]["labels"]["kai.scheduler/queue"] == "default-queue"
    assert pod["spec"]["serviceAccountName"] == "kai-work"
    assert pod["spec"]["activeDeadlineSeconds"] == 600
    mounted = {each["mountPath"] for each in pod["spec"]["containers"][0]["volumeMounts"]}
    assert "/var/run/secrets/kubernetes.io/serviceaccount" not in mounted


def test_a_gang_becomes_a_job_that_owns_its_service(lab: Lab) -> None:
    _, name, _ = lab.create(ask(kind="gang", workers=4, gpu=1))
    job, service = lab.one("jobs"), next(s for s in lab.all("services"))
    assert (job["metadata"]["name"], service["metadata"]["name"]) == (name, name)
    assert service["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    pods = f"/api/v1/namespaces/{lab.namespace}/pods"
    found = lab.admin.wait_for(pods, lambda all_: len(all_) == 4, "the Job makes its pods")
    hosts = sorted(
        f"{one['spec']['hostname']}.{one['spec']['subdomain']}:29501" for one in found.values()
    )
    (env,) = {json.dumps(one["spec"]["containers"][0]["env"]) for one in found.values()}
    told = {entry["name"]: entry.get("value") for entry in json.loads(env)}
    assert told["KAI_GANG_HOSTS"] == ",".join(hosts)
    rank = "batch.kubernetes.io/job-completion-index"
    ranks = {one["metadata"]["labels"][rank] for one in found.values()}
    assert ranks == {"0", "1", "2", "3"}


def test_the_same_key_twice_is_one_request(lab: Lab) -> None:
    first = lab.create(ask(kind="gang", workers=2))
    again = lab.create(ask(kind="gang", workers=2))
    assert first[:2] == again[:2]
    assert (first[2], again[2]) == (True, False)
    assert len(lab.all("jobs")) == 1
    other = lab.create(ask(kind="gang", workers=2), key="another")
    assert other[2]
    assert len(lab.all("jobs")) == len(lab.all("services")) == 2


def test_a_key_that_stands_for_a_pod_makes_no_job_beside_it(lab: Lab) -> None:
    first = lab.create(ask())
    again = lab.create(ask(workers=2))
    assert (again[:2], again[2]) == (first[:2], False)
    assert lab.all("jobs") == []


def test_the_same_key_completes_what_was_left_half_made(lab: Lab) -> None:
    _, name, _ = lab.create(ask(kind="gang", workers=2))
    lab.admin.delete(f"/api/v1/namespaces/{lab.namespace}/services/{name}")
    assert lab.create(ask(kind="gang", workers=2))[2] is False
    assert lab.one("services")["metadata"]["name"] == name


def test_the_end_removes_everything(lab: Lab) -> None:
    _, gang, _ = lab.create(ask(kind="gang", workers=3))
    _, alone, _ = lab.create(ask(), key="other")
    pods = f"/api/v1/namespaces/{lab.namespace}/pods"
    lab.admin.wait_for(pods, lambda all_: len(all_) == 4, "all pods are there")
    lab.end(gang)
    lab.end(alone)
    lab.admin.wait_for(pods, lambda all_: not all_, "no pod is left")
    services = f"/api/v1/namespaces/{lab.namespace}/services"
    lab.admin.wait_for(services, lambda all_: not all_, "no Service is left")
    assert lab.all("jobs") == []
    lab.end(gang)
    events = f"/apis/events.k8s.io/v1/namespaces/{lab.namespace}/events"
    told = [one["note"] for one in lab.admin.list(events) if one["reason"] == "EndedByRequest"]
    assert told == ["Ana let it go."] * 2, "each once"


def test_the_end_is_for_what_we_made_alone(lab: Lab) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "theirs", "namespace": lab.namespace},
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "c",
                    "image": IMAGE,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
    lab.admin.create(pod)
    lab.end("theirs")
    assert lab.one("pods")["metadata"]["name"] == "theirs"


def test_a_folder_for_one_node_keeps_the_pod_where_it_is_used(lab: Lab) -> None:
    lab.cluster.nodes.add("here", count=1)
    notebook = ask()
    _, name, _ = lab.create(notebook)
    pods = f"/api/v1/namespaces/{lab.namespace}/pods"
    target = {"apiVersion": "v1", "kind": "Node", "name": "here-0"}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": target,
    }
    lab.admin.post(f"{pods}/{name}/binding", binding)
    _, companion, _ = lab.create(ask(kind="lease", work=None, signature=None), key="c")
    affinity = lab.admin.get(f"{pods}/{companion}")["spec"]["affinity"]["nodeAffinity"]
    assert "here-0" in json.dumps(affinity)


# -- refused -----------------------------------------------------------------------------------------------


def test_who_may_not_make_pods_there_may_not_ask_us_to(lab: Lab) -> None:
    problem = lab.refusal(ask(), Caller("eve", frozenset({"system:authenticated"})))
    assert (problem.status, problem.code) == (403, "pods_not_allowed")
    assert "eve" in problem.detail
    may_edit(lab.cluster, lab.namespace, "eve")
    assert lab.create(ask(), caller=Caller("eve"))[2]


def test_a_namespace_opens_by_its_label(lab: Lab, say: Any) -> None:
    closed = opened(lab.cluster, str(helm(say)), **RESTRICTED)
    problem = lab.refusal(ask())
    assert (problem.status, problem.code) == (403, "namespace_not_open")
    assert f"kubectl label namespace {closed} kai.scheduler/managed=true" in problem.hint
    lab.admin.patch(f"/api/v1/namespaces/{closed}", {"metadata": {"labels": OPEN}})
    assert lab.create(ask())[:1] == (closed,)


def test_a_namespace_that_the_chart_was_not_told_of_is_not_ours_to_write(lab: Lab) -> None:
    other = lab.cluster.new_namespace(**OPEN)
    may_edit(lab.cluster, other, "ana")
    parts = {"kind": "lease", "work": None, "signature": None}
    problem = lab.refusal(ask(cluster={"namespace": other, "folder": ""}, **parts))
    assert problem.code == "refused_by_cluster"
    assert "submit.namespaces" in problem.hint
    assert lab.admin.list(f"/api/v1/namespaces/{other}/pods") == []


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"cluster": {"image": "elsewhere.local/x"}}, "image_not_allowed"),
        ({"cluster": {"folder": "nobodys"}}, "bad_folder"),
        ({"cluster": {"profile": "huge"}}, "unknown_profile"),
        ({"cluster": {"workload": "TrainJob"}}, "kind_not_installed"),
        ({"queue": "nowhere"}, "unknown_queue"),
        ({"kind": "server"}, "not_in_a_cluster"),
    ],
)
def test_what_the_rules_do_not_allow_is_refused_and_leaves_nothing(
    lab: Lab, parts: dict[str, Any], code: str
) -> None:
    assert lab.refusal(ask(**parts)).code == code
    assert lab.all("pods") == lab.all("jobs") == lab.all("services") == []


def test_a_queue_is_asked_in_the_persons_own_name(lab: Lab) -> None:
    """Admission believes our account, so we ask for the person what it would have asked."""
    queue = f"{lab.namespace}-closed"
    body = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": queue},
        "spec": {"subjects": ["group:vision"], "namespaces": [lab.namespace]},
    }
    lab.admin.create(body)
    assert lab.refusal(ask(queue=queue)).code == "not_your_queue"
    member = Caller("ana", frozenset({"vision"}))
    assert lab.create(ask(queue=queue), caller=member)[2]


def test_what_the_restricted_standard_forbids_is_told(lab: Lab) -> None:
    """A quota of the namespace stands for whatever the cluster itself declines."""
    lab.admin.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none", "namespace": lab.namespace},
            "spec": {"hard": {"pods": "0"}},
        }
    )
    lab.admin.wait_for_one(
        f"/api/v1/namespaces/{lab.namespace}/resourcequotas/none",
        lambda one: "hard" in one.get("status", {}),
        "the quota counts",
    )
    problem = lab.refusal(ask())
    assert problem.code == "refused_by_cluster"
    assert "quota" in problem.detail


def test_what_can_not_be_made_whole_is_taken_back(lab: Lab) -> None:
    with lab.cluster.faulty_proxy(lab.login) as proxy:
        proxy.fail("POST", f"/namespaces/{lab.namespace}/services", status=500)
        troubled = Lab(lab.cluster, lab.namespace, proxy.login)
        problem = troubled.refusal(ask(kind="gang", workers=2))
    assert problem.code == "cluster_away"
    jobs = f"/apis/batch/v1/namespaces/{lab.namespace}/jobs"
    lab.admin.wait_for(jobs, lambda all_: not all_, "the Job is taken back")


@pytest.mark.parametrize("key", ["key", None])
def test_an_answer_that_is_lost_makes_nothing_twice(lab: Lab, key: str | None) -> None:
    with lab.cluster.faulty_proxy(lab.login) as proxy:
        proxy.swallow("POST", f"/namespaces/{lab.namespace}/jobs", times=1)
        _, name, is_new = Lab(lab.cluster, lab.namespace, proxy.login).create(
            ask(kind="gang", workers=2), key
        )
    assert is_new
    assert lab.one("jobs")["metadata"]["name"] == name == lab.one("services")["metadata"]["name"]


# -- grouped -----------------------------------------------------------------------------------------------


@contextmanager
def grouped(lab: Lab) -> Iterator[str]:
    with scheduler(lab.cluster):
        yield f"/apis/scheduling.run.ai/v2alpha2/namespaces/{lab.namespace}/podgroups"


def test_a_gang_of_four_is_one_group_of_four_that_says_whose_it_is(lab: Lab) -> None:
    lab.cluster.nodes.add("n", count=2, gpus=2)
    with grouped(lab) as groups:
        plain = {"image": "plain.local/box", "folder": ""}
        _, name, _ = lab.create(ask(kind="gang", workers=4, gpu=1, cluster=plain))
        (group,) = lab.admin.wait_for(groups, bool, "the group is there").values()
        assert group["spec"]["minMember"] == 4
        assert group["spec"]["priorityClassName"] == "train"
        assert group["metadata"]["annotations"]["kai.scheduler/owner"] == "ana"
        assert group["metadata"]["name"] == name, "it is found by the name that Ana was told"
        pods = f"/api/v1/namespaces/{lab.namespace}/pods"
        lab.admin.wait_for(
            pods,
            lambda all_: (
                len(all_) == 4 and all(one["spec"].get("nodeName") for one in all_.values())
            ),
            "all four have a place",
        )
        assert len(lab.admin.list(groups)) == 1


# -- other people's kinds ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def operators(cluster: Cluster) -> None:
    apply_crds(cluster, "kubeflow", "ray")


@pytest.mark.parametrize(
    ("workload", "path"),
    [("PyTorchJob", "/apis/kubeflow.org/v1"), ("RayJob", "/apis/ray.io/v1")],
)
def test_an_installed_kind_is_made_as_its_own_schema_wants_it(
    operators: None, lab: Lab, workload: str, path: str
) -> None:
    _, name, is_new = lab.create(ask(kind="gang", workers=3, gpu=1, cluster={"workload": workload}))
    assert is_new
    found = lab.admin.get(f"{path}/namespaces/{lab.namespace}/{workload.lower()}s/{name}")
    assert found["metadata"]["annotations"]["kai.scheduler/owner"] == "ana"
    assert lab.create(ask(kind="gang", workers=3))[2] is False
    lab.end(name)
    collection = f"{path}/namespaces/{lab.namespace}/{workload.lower()}s"
    lab.admin.wait_for(collection, lambda all_: not all_, "it is gone")


# -- whose it is, in front of admission ------------------------------------------------------------------------


def test_nobody_else_writes_whose_a_workload_is(lab: Lab) -> None:
    with admission(lab.cluster):
        eve = person(lab.cluster, lab.namespace, "eve")
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "forged", "namespace": lab.namespace},
            "spec": {
                "suspend": True,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "c", "image": IMAGE}],
                    }
                },
            },
        }
        forged = {
            **job,
            "metadata": {**job["metadata"], "annotations": {"kai.scheduler/owner": "ana"}},
        }
        with pytest.raises(ApiError, match="written by our API alone"):
            eve.create(forged)
        made = eve.create(job)
        path = eve.path_of(made)
        with pytest.raises(ApiError, match="written by our API alone"):
            eve.patch(path, {"metadata": {"annotations": {"kai.scheduler/asked": "{}"}}})
        _, name, is_new = lab.create(ask(kind="gang", workers=2))
        assert is_new, "our own account may"
        mine = f"/apis/batch/v1/namespaces/{lab.namespace}/jobs/{name}"
        with pytest.raises(ApiError, match="written by our API alone"):
            eve.patch(mine, {"metadata": {"annotations": {"kai.scheduler/owner": "eve"}}})
        eve.patch(mine, {"metadata": {"labels": {"note": "seen"}}})


def test_the_house_of_the_rules_is_ours(kai_cluster: Cluster) -> None:
    found = kai_cluster.admin.find(f"/api/v1/namespaces/{OUR_NAMESPACE}/configmaps/kai-submit")
    assert found is not None
