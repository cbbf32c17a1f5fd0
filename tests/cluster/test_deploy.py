"""What we ship: the API server takes it, it is upgraded in place, and each account may do its work and no more."""

from __future__ import annotations

import base64
import copy
import functools
import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml

from scheduler_service.backends.kubernetes.admission.certificates import new_authority
from tests.cluster.testbed.admin import Admin, ApiError
from tests.cluster.testbed.binaries import Missing, program
from tests.cluster.testbed.cluster import DEPLOY, OUR_NAMESPACE
from tests.cluster.testbed.process import FAIL_SAFE_S
from tools.manifests import rendered

MANIFESTS = DEPLOY / "manifests"
RUNS = {"Deployment", "DaemonSet"}
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kai-admission"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{OUR_NAMESPACE}/deployments"
MUST_RUN = bool(os.environ.get("CI"))
WATCHED = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}


def shipped():
    return [
        document
        for path in sorted(MANIFESTS.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]


def apply(admin: Admin, document, **parameters):
    return admin._request(
        "PATCH",
        admin.path_of(document),
        document,
        content_type="application/apply-patch+yaml",
        parameters={"fieldManager": "kai-install", "force": "true", **parameters},
    )


@pytest.mark.parametrize(
    "document", shipped(), ids=lambda d: f"{d['kind']}-{d['metadata']['name']}"
)
def test_the_api_server_takes_every_document(kai_cluster, document):
    stored = apply(kai_cluster.admin, document, dryRun="All", fieldValidation="Strict")
    assert stored["metadata"]["name"] == document["metadata"]["name"]


def test_our_pods_meet_the_restricted_standard(kai_cluster, namespace):
    restricted = kai_cluster.new_namespace(**{"pod-security.kubernetes.io/enforce": "restricted"})
    for document in shipped():
        if document["kind"] in RUNS:
            template = document["spec"]["template"]
            spec = {**template["spec"], "serviceAccountName": "default"}
            spec.pop("priorityClassName")
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": document["metadata"]["name"], "namespace": restricted},
                "spec": spec,
            }
            kai_cluster.admin._request(
                "POST",
                f"/api/v1/namespaces/{restricted}/pods",
                pod,
                parameters={"dryRun": "All"},
            )


@pytest.fixture
def installed(kai_cluster, namespace):
    """What runs and who is asked, with nobody in it, and gone afterwards."""
    documents = [d for d in shipped() if d["kind"] in RUNS | WATCHED]
    for document in documents:
        if document["kind"] == "Deployment":
            document["spec"]["replicas"] = 0
        if document["kind"] in WATCHED:
            document["webhooks"] = [hook for hook in document["webhooks"] if is_others(hook)]
    for document in documents:
        apply(kai_cluster.admin, document)
    yield documents
    for document in documents:
        kai_cluster.admin.delete(kai_cluster.admin.path_of(document))


def is_others(hook):
    """The one that stops nobody while it is away; the others would stop the tests' own pods."""
    return hook["name"].startswith(("others.", "pods.mutate"))


def test_an_upgrade_changes_what_is_new_and_keeps_what_was_learnt(kai_cluster, installed):
    """Server-side, as helm and kubectl do it: a new image, and a certificate that stays trusted."""
    admin = kai_cluster.admin
    trust = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle()}]
    admin.patch(HOOKS, trust, kind="json")
    newer = copy.deepcopy(installed)
    running = [document for document in newer if document["kind"] in RUNS]
    for document in running:
        document["spec"]["template"]["spec"]["containers"][0]["image"] = "kai-jupyter:next"
    for document in newer:
        apply(admin, document)
    for document in running:
        stored = admin.get(admin.path_of(document))
        images = [c["image"] for c in stored["spec"]["template"]["spec"]["containers"]]
        assert images == ["kai-jupyter:next"]
    assert admin.get(HOOKS)["webhooks"][0]["clientConfig"]["caBundle"] == bundle()


@functools.cache
def bundle():
    return base64.b64encode(new_authority(datetime.now(UTC)).certificate).decode()


# -- rights ----------------------------------------------------------------------------------------

ACCOUNTS = {
    "kai-scheduler": OUR_NAMESPACE,
    "kai-binder": OUR_NAMESPACE,
    "kai-webhook": OUR_NAMESPACE,
    "kai-agent": OUR_NAMESPACE,
    "kai-resource-reservation": "kai-resource-reservation",
    "kai-scaling-pod": "kai-scale-adjust",
}
# account: what it must be able to do. "verb group/resource[/sub] [@namespace]"
MUST = {
    "kai-scheduler": """
        watch /pods; watch /nodes; watch /namespaces; patch /pods; patch /pods/status
        create /pods/binding; create /pods/eviction; watch scheduling.run.ai/queues
        watch scheduling.run.ai/podgroups; create scheduling.run.ai/podgroups
        patch scheduling.run.ai/podgroups/status; patch scheduling.run.ai/queues/status
        create scheduling.run.ai/bindrequests; delete scheduling.run.ai/bindrequests
        watch kai.scheduler/topologies; watch kai.scheduler/schedulingshards
        watch kai.scheduler/configs; create events.k8s.io/events; watch /persistentvolumeclaims
        watch resource.k8s.io/resourceslices; get batch/jobs; get apps/replicasets
        get ray.io/rayclusters; get kubeflow.org/pytorchjobs; get jobset.x-k8s.io/jobsets
        get leaderworkerset.x-k8s.io/leaderworkersets; create authentication.k8s.io/tokenreviews
        create authorization.k8s.io/subjectaccessreviews
        update coordination.k8s.io/leases @kai-scheduler; create /configmaps @kai-scheduler
        create /pods @kai-scale-adjust; delete /pods @kai-scale-adjust""",
    "kai-binder": """
        watch /pods; patch /pods; create /pods/binding; patch /pods/status; watch /nodes
        watch scheduling.run.ai/bindrequests; patch scheduling.run.ai/bindrequests/status
        delete scheduling.run.ai/bindrequests; create /configmaps; delete /configmaps
        patch /persistentvolumeclaims; patch /persistentvolumes; get storage.k8s.io/storageclasses
        update resource.k8s.io/resourceclaims/status; create resource.k8s.io/resourceclaims
        create /pods @kai-resource-reservation; delete /pods @kai-resource-reservation
        patch /pods @kai-resource-reservation; update coordination.k8s.io/leases @kai-scheduler""",
    "kai-webhook": """
        watch scheduling.run.ai/queues; get scheduling.run.ai/podgroups; get node.k8s.io/runtimeclasses
        patch admissionregistration.k8s.io/validatingwebhookconfigurations=kai-admission
        patch admissionregistration.k8s.io/mutatingwebhookconfigurations=kai-admission
        update /secrets=kai-admission-authority @kai-scheduler""",
    "kai-agent": "get /nodes; patch /nodes",
    "kai-resource-reservation": "get /pods @kai-resource-reservation; patch /pods @kai-resource-reservation",
    "kai-scaling-pod": "",
}
NOBODY = """
    get /secrets; list /secrets; create /secrets; delete /nodes; update /nodes/status
    create /serviceaccounts/token; create rbac.authorization.k8s.io/clusterrolebindings
    impersonate /users; create /pods/exec; get /pods/log; update apps/deployments; delete /namespaces
    delete /pods @default; create /pods @default; delete scheduling.run.ai/queues
    create apiextensions.k8s.io/customresourcedefinitions; get /secrets @kube-system"""
MUST_NOT = {
    "kai-scheduler": """
        delete /pods; create /pods; update /pods; create /services @default; create batch/jobs @default
        create /configmaps @default; list /configmaps; patch /nodes; update scheduling.run.ai/queues
        update coordination.k8s.io/leases @kube-system""",
    "kai-binder": """
        create /pods/eviction; delete /pods; list /configmaps; list /secrets
        patch scheduling.run.ai/podgroups; patch scheduling.run.ai/queues; patch /nodes""",
    "kai-webhook": """
        list /pods; patch /pods; list /secrets @kai-scheduler; get /secrets=other @kai-scheduler
        patch admissionregistration.k8s.io/validatingwebhookconfigurations=other
        list /configmaps; patch scheduling.run.ai/queues; patch scheduling.run.ai/podgroups""",
    "kai-agent": "list /nodes; list /pods; get /configmaps; get /pods",
    "kai-resource-reservation": """
        list /pods @kai-resource-reservation; delete /pods @kai-resource-reservation
        get /pods @default; get /nodes""",
    "kai-scaling-pod": "get /pods @kai-scale-adjust; get /nodes",
}


def questions(text):
    return [part.strip() for line in text.splitlines() for part in line.split(";") if part.strip()]


def may(hand: Admin, question):
    action, _, space = question.partition(" @")
    verb, _, what = action.partition(" ")
    group, _, resource = what.partition("/")
    resource, _, name = resource.partition("=")
    resource, _, sub = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": resource}
    asked |= {"subresource": sub} if sub else {}
    asked |= {"name": name} if name else {}
    asked |= {"namespace": space} if space else {}
    answer = hand.post(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        },
    )
    return answer["status"]["allowed"]


@pytest.mark.parametrize("account", ACCOUNTS)
def test_each_account_may_do_its_work_and_no_more(kai_cluster, account):
    hand = Admin(kai_cluster.access(account, ACCOUNTS[account]))
    must = questions(MUST[account])
    lacking = [question for question in must if not may(hand, question)]
    refused = [q for q in questions(NOBODY) + questions(MUST_NOT[account]) if q not in must]
    excessive = [question for question in refused if may(hand, question)]
    assert (lacking, excessive) == ([], [])


TIGHT = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def bound_token(cluster, account, namespace, node):
    """The token that a pod of this account has on a node, as its kubelet asks for it."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{account}-there", "namespace": namespace},
        "spec": {
            "serviceAccountName": account,
            "nodeName": node,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {"name": "main", "image": "example.local/box", "securityContext": TIGHT}
            ],
        },
    }
    made = cluster.admin.create(pod)
    meta = made["metadata"]
    reference = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    asked = {"expirationSeconds": 3600, "boundObjectRef": reference}
    answer = cluster.admin.post(
        path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": asked}
    )
    login = replace(cluster.access(account, namespace), token=answer["status"]["token"])
    return meta["name"], Admin(login)


@pytest.fixture
def confined(kai_cluster, namespace):
    documents = list(yaml.safe_load_all((MANIFESTS / "confine.yaml").read_text()))
    kai_cluster.nodes.add("node", count=2, gpus=1)
    kai_cluster.apply(documents)
    yield kai_cluster
    for document in documents:
        kai_cluster.admin.delete(kai_cluster.admin.path_of(document))
    for account, space in ACCOUNTS.items():
        kai_cluster.admin.delete(f"/api/v1/namespaces/{space}/pods/{account}-there", grace_s=0)


NOTE = {"metadata": {"annotations": {"kai.scheduler/gpu-devices": "[]"}}}


def test_an_agent_writes_about_its_own_node_only(confined):
    here, there = (
        f"/api/v1/nodes/{node['metadata']['name']}" for node in confined.admin.list("/api/v1/nodes")
    )
    _, agent = bound_token(confined, "kai-agent", OUR_NAMESPACE, here.rpartition("/")[2])
    until_refused(agent, there, NOTE, "its own node only")
    agent.patch(here, NOTE)
    with pytest.raises(ApiError, match="annotations only"):
        agent.patch(here, {"metadata": {"labels": {"x": "y"}}})
    loose = Admin(confined.access("kai-agent"))
    with pytest.raises(ApiError, match="its own node only"):
        loose.patch(here, NOTE)


def test_a_reservation_writes_about_itself_only(confined):
    space = "kai-resource-reservation"
    (node, *_) = (node["metadata"]["name"] for node in confined.admin.list("/api/v1/nodes"))
    own, hand = bound_token(confined, "kai-resource-reservation", space, node)
    other = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other-there", "namespace": space},
        "spec": {"containers": [{"name": "main", "image": "example.local/box"}]},
    }
    confined.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": space},
        }
    )
    confined.admin.create(other)
    try:
        told = {"metadata": {"annotations": {"run.ai/reserve_for_gpu_index": "GPU-1"}}}
        pods = f"/api/v1/namespaces/{space}/pods"
        until_refused(hand, f"{pods}/other-there", told, "itself only")
        hand.patch(f"{pods}/{own}", told)
    finally:
        confined.admin.delete(f"/api/v1/namespaces/{space}/pods/other-there", grace_s=0)


def until_refused(hand, path, body, says):
    """A policy holds a moment after it was written."""
    end = time.monotonic() + FAIL_SAFE_S
    told = ""
    while not told and time.monotonic() < end:
        try:
            hand.patch(path, body)
        except ApiError as error:
            told = error.message
        time.sleep(0.1)
    assert says in told


# -- chart and manifests -------------------------------------------------------------------------------


def test_chart_and_manifests_say_the_same(say):
    """The same check that writes them, with helm itself."""
    result = subprocess.run(
        [sys.executable, "-m", "tools.manifests", "--check"],
        cwd=DEPLOY.parent,
        env={**os.environ, "HELM": str(helm(say))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("choices", "lacks"),
    [
        (["admission.enabled=false"], "WebhookConfiguration"),
        (["agent.enabled=false"], "kind: DaemonSet"),
        (["defaultQueues.create=false"], "kind: Queue"),
        (["defaultPriorityClasses.create=false"], "kind: PriorityClass"),
        (["config.create=false", "defaultShard.create=false"], "apiVersion: kai.scheduler/v1"),
        (["networkPolicies.enabled=false"], "NetworkPolicy"),
        (["confine.enabled=false"], "ValidatingAdmissionPolicy"),
        (["podDisruptionBudgets.enabled=false"], "PodDisruptionBudget"),
        (["binder.replicas=1", "admission.replicas=1"], "PodDisruptionBudget"),
    ],
    ids=str,
)
def test_what_is_switched_off_is_not_there(say, choices, lacks):
    text = rendered(str(helm(say)), *choices)
    assert list(yaml.safe_load_all(text))
    assert lacks not in text


READS = {"get", "list", "watch"}
ASKS = {"tokenreviews", "subjectaccessreviews"}


@pytest.mark.parametrize("decide", ["off", "shadow"])
def test_who_only_looks_on_may_write_nothing(say, decide):
    choices = [f"scheduler.decide={decide}", "binder.enabled=false", "admission.enabled=false"]
    documents = [d for d in yaml.safe_load_all(rendered(str(helm(say)), *choices)) if d]
    (role,) = (
        d for d in documents if d["metadata"]["name"] == "kai-jupyter:scheduler" and "rules" in d
    )
    for rule in role["rules"]:
        assert set(rule["verbs"]) <= READS or set(rule["resources"]) <= ASKS
    accounts = {d["metadata"]["name"] for d in documents if d["kind"] == "ServiceAccount"}
    assert not {"kai-binder", "kai-webhook"} & accounts


def test_a_value_that_is_misspelt_is_refused(say):
    with pytest.raises(SystemExit, match="repositry"):
        rendered(str(helm(say)), "image.repositry=x")


def helm(say):
    try:
        return program("helm", say)
    except Missing as missing:
        if MUST_RUN:
            raise
        pytest.skip(str(missing))


def test_helm_installs_upgrades_and_leaves_what_others_need(kai_cluster, namespace, say):
    """By helm itself, over what is there: queues are made although no webhook answers yet, and stay afterwards."""
    chart = str(DEPLOY / "chart" / "kai-jupyter")
    nobody = [
        "scheduler.replicas=0",
        "binder.replicas=0",
        "admission.replicas=0",
        "agent.enabled=false",
    ]
    asked = [part for choice in nobody for part in ("--set", choice)]
    admin = kai_cluster.admin
    try:
        run_helm(kai_cluster, say, "install", "kai", chart, "--take-ownership", *asked)
        assert admin.get(f"{DEPLOYMENTS}/admission")["spec"]["replicas"] == 0
        newer = ["--set", "image.tag=next", "--set", "admission.trusted={someone}"]
        run_helm(kai_cluster, say, "upgrade", "kai", chart, *asked, *newer)
        (container,) = admin.get(f"{DEPLOYMENTS}/admission")["spec"]["template"]["spec"][
            "containers"
        ]
        assert container["image"] == "kai-jupyter:next"
        assert "--trusted=someone" in container["args"]
    finally:
        run_helm(kai_cluster, say, "uninstall", "kai", "--ignore-not-found")
        kai_cluster.install(MANIFESTS)
    assert admin.find(HOOKS) is None
    assert admin.find("/apis/scheduling.run.ai/v2/queues/default-queue") is not None


def run_helm(cluster, say, *arguments):
    home = cluster.folder / "helm"
    result = subprocess.run(
        [str(helm(say)), "--namespace", OUR_NAMESPACE, *arguments],
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "KUBECONFIG": str(cluster.admin.login.kubeconfig),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
