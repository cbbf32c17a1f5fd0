"""The HTTP API on a cluster: real tokens, real rights, objects that people applied with kubectl."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api_bed import Person, address, ask, ready
from tests.cluster.scheduling import KAI, Stage, scheduler, share
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.process import Process, wait_until

VIEW = "kai-jupyter:view"


@pytest.fixture(scope="module")
def running(kai_cluster: Cluster) -> Iterator[Process]:
    with scheduler(kai_cluster) as process:
        yield process


@pytest.fixture(scope="module")
def url(running: Process) -> str:
    return ready(running)


@pytest.fixture
def stage(kai_cluster: Cluster, running: Process, namespace: str) -> Stage:
    return Stage(kai_cluster, namespace)


@pytest.fixture
def ana(kai_cluster: Cluster, url: str, namespace: str) -> Person:
    return Person(kai_cluster, url, "ana", namespace).may(VIEW)


@pytest.fixture
def ben(kai_cluster: Cluster, url: str, ana: Person) -> Person:
    return Person(kai_cluster, url, "ben", kai_cluster.new_namespace()).may(VIEW)


# -- who asks ------------------------------------------------------------------------------------------
def test_two_people_see_their_own_namespaces_and_no_other(
    stage: Stage, ana: Person, ben: Person
) -> None:
    stage.cluster.nodes.add("node", gpus=8)
    stage.alone("train", gpus=1)
    other = Stage(stage.cluster, ben.namespace, has_lookout=False)
    other.alone("sweep", gpus=1)
    seen = ana.group("train", lambda view: view["state"] == "Running", "Ana sees hers running")
    assert (seen["queue"], seen["pods"][0]["name"]) == (stage.default, "train")
    ben.group("sweep", lambda view: view["state"] == "Running", "Ben sees his running")
    assert set(ana.groups()) == {"train"}
    assert set(ben.groups()) == {"sweep"}
    for path in ("", "/explain", "/logs"):
        answer = ben.ask("GET", f"pod-groups/{ana.namespace}/train{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert ana.get("me")["user"] == ana.user
    assert f"namespace:{ana.namespace}" in ana.get("me")["scopes"]


def test_a_stranger_hears_what_to_send(url: str, ana: Person) -> None:
    answer = ask(url, "GET", "queues")
    assert answer.status_code == 401
    assert "--audience kai" in answer.json()["hint"]
    plain = ana.cluster.access(ana.name, ana.namespace).token
    answer = ask(url, "GET", "queues", token=plain)
    assert (answer.status_code, answer.json()["detail"]) == (
        401,
        "Its token is not for the audience 'kai'.",
    )
    answer = ask(url, "GET", "queues", token=_expired(ana))
    assert (answer.status_code, answer.json()["detail"]) == (401, "Its token has expired.")
    answer = ask(url, "GET", "queues", token="nonsense")
    assert (answer.status_code, answer.json()["detail"]) == (
        401,
        "The cluster does not accept its token.",
    )


def test_a_token_of_an_account_that_is_gone_opens_nothing(
    kai_cluster: Cluster, url: str, ana: Person
) -> None:
    eve = Person(kai_cluster, url, "eve", ana.namespace)
    kai_cluster.admin.delete(f"/api/v1/namespaces/{ana.namespace}/serviceaccounts/eve")
    answer = eve.ask("GET", "queues")
    assert (answer.status_code, answer.json()["detail"]) == (
        401,
        "Its token's account, pod or secret is gone.",
    )


def _expired(person: Person) -> str:
    """Return a token of the person's that the API server itself signed (as it would have) and that ended."""
    head, body, _ = person.token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["exp"] = int(time.time()) - 3600
    claims["iat"] = claims["nbf"] = claims["exp"] - 600
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    signed = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", person.cluster.control_plane.pki / "sa.key"],
        input=f"{head}.{payload}".encode(),
        capture_output=True,
        check=True,
    ).stdout
    return f"{head}.{payload}.{base64.urlsafe_b64encode(signed).rstrip(b'=').decode()}"


def test_no_token_is_in_the_log(running: Process, ana: Person) -> None:
    ana.get("queues")
    ask(ana.url, "GET", "queues", token="nonsense-that-is-secret")
    text = running.log.read_text()
    assert ana.token not in text
    assert "nonsense-that-is-secret" not in text


# -- what is seen --------------------------------------------------------------------------------------
def test_who_waits_is_told_the_place_and_the_reason(stage: Stage, ana: Person) -> None:
    stage.cluster.nodes.add("node", gpus=8)
    small = stage.queue("small", gpu=share(quota=1, limit=1))
    stage.alone("holder", small, gpus=1)
    stage.bound("holder")
    for name in ("first", "second"):
        stage.alone(name, small, gpus=1, group={})
        ana.group(name, lambda view: view["state"] == "Waiting", f"{name} waits")
    view = ana.group("second", lambda one: one["position"] == 2, "it is second")
    assert (view["waiting_in_queue"], view["request"]["text"]) == (2, "1 GPU")
    assert view["reason"]["code"] == "over_limit", view["reason"]
    assert view["headline"].startswith("Position 2 of 2.")
    why = ana.get(f"pod-groups/{ana.namespace}/second/explain")
    assert {"Limit", "Ahead of you"} <= {item["title"] for item in why["items"]}
    rows = _queue(ana, small)["waiting_rows"]
    assert [(row["name"], row["position"]) for row in rows] == [("first", 1), ("second", 2)]


def test_queues_and_nodes_say_what_is_held(
    stage: Stage, ana: Person, ben: Person, kai_cluster: Cluster
) -> None:
    kai_cluster.nodes.add("node", gpus=8)
    queue = stage.queue("share", gpu=share(quota=4))
    stage.alone("train", queue, gpus=2)
    ana.group("train", lambda view: view["state"] == "Running", "it runs")
    view = _queue(ana, queue)
    assert (view["quota"]["milli_gpu"], view["allocated"]["milli_gpu"]) == (4000, 2000)
    assert view["sentence"] == "2 of 4 GPUs held, nobody waits."
    (node,) = [node for node in ana.get("nodes") if node["name"].startswith("node")]
    assert (node["milli_gpu"], node["allocated_milli_gpu"]) == (8000, 2000)
    assert [h["name"] for d in node["devices"] for h in d["holders"]] == ["train", "train"]
    (node,) = [node for node in ben.get("nodes") if node["name"].startswith("node")]
    assert [h["who"] for d in node["devices"] for h in d["holders"]] == ["a colleague"] * 2
    forecast = ana.get("forecast", gpu="1", queue=queue)
    assert forecast["verdict"] == "now"
    assert ana.get("forecast", gpu="64", queue=queue)["verdict"] == "never"


def _queue(person: Person, name: str) -> Any:
    return next(queue for queue in person.get("queues") if queue["name"] == name)


def test_who_may_change_a_queue_leads_it_and_who_may_change_all_is_admin(
    stage: Stage, ana: Person, kai_cluster: Cluster, url: str
) -> None:
    kai_cluster.nodes.add("node", gpus=8)
    stage.alone("train", gpus=1)
    ana.group("train", lambda view: view["state"] == "Running", "it runs")
    lea = Person(kai_cluster, url, "lea", ana.namespace)
    assert lea.groups() == {}
    path = f"/apis/{KAI}/v2/queues/{stage.default}"
    leads = f"user:{lea.user}"
    stage.admin.patch(path, {"metadata": {"annotations": {"kai.scheduler/leads": leads}}})
    ana.group("train", lambda _: "train" in lea.groups(), "Lea leads the queue")
    root = Person(kai_cluster, url, "root", kai_cluster.new_namespace())
    assert root.ask("GET", "snapshot").status_code == 403
    root = Person(kai_cluster, url, "admin", root.namespace).may_everywhere(
        "kai-jupyter:queue-admin"
    )
    assert "train" in root.groups()
    assert any(cycle["lines"] for cycle in root.get("cycles", last=100))
    assert root.get("snapshot")["version"]


def test_the_stream_tells_what_changes_and_only_to_whom_it_concerns(
    stage: Stage, ana: Person, ben: Person
) -> None:
    stage.cluster.nodes.add("node", gpus=8)
    with ana.stream() as hers, ben.stream() as his:
        first = next(hers)
        assert (first["kind"], first["groups"]) == ("snapshot", [])
        assert next(his)["kind"] == "snapshot"
        stage.alone("train", gpus=1)
        heard: list[Any] = []
        while not any(view["state"] == "Running" for view in heard):
            heard += next(hers)["groups"]
        assert {view["name"] for view in heard} == {"train"}
        Stage(stage.cluster, ben.namespace, has_lookout=False).alone("sweep", gpus=1)
        his_groups: list[Any] = []
        while not his_groups:
            message = next(his)
            his_groups += message["groups"]
            for node in message["nodes"] or ():
                names = {h["name"] for d in node["devices"] for h in d["holders"]}
                assert "train" not in names
        assert {view["name"] for view in his_groups} == {"sweep"}
        rev = message["rev"]
    with ben.stream(since=rev) as again:
        stage.admin.delete(f"/api/v1/namespaces/{ben.namespace}/pods/sweep", grace_s=0)
        message = next(again)
        assert message["kind"] == "update"


# -- what is changed -----------------------------------------------------------------------------------
def test_who_may_delete_pods_cancels_and_who_may_look_does_not(
    stage: Stage, ana: Person, kai_cluster: Cluster, url: str
) -> None:
    kai_cluster.nodes.add("node", gpus=8)
    stage.pod("train", gpus=1, labels={"kai.scheduler/queue": stage.default})
    name = _group_of(stage, "train")
    ana.group(name, lambda view: view["state"] == "Running", "it runs")
    path = f"pod-groups/{ana.namespace}/{name}/cancel"
    refused = ana.ask("POST", path, json={})
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    eve = Person(kai_cluster, url, "editor", ana.namespace).may("edit").may(VIEW)
    view = eve.ask("POST", path, json={"reason": "No longer needed."}).json()
    assert view["state"] in {"Stopping", "Cancelled"}
    stage.gone("train")
    over = ana.group(name, lambda one: one["state"] == "Cancelled", "it is over")
    assert over["word"] == "Cancelled"


def test_what_a_job_makes_is_ended_where_it_was_made(
    stage: Stage, ana: Person, kai_cluster: Cluster, url: str
) -> None:
    kai_cluster.nodes.add("node", gpus=8)
    template = {
        "metadata": {"labels": {"kai.scheduler/queue": stage.default}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.local/box:test"}],
        },
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}
    stage.admin.create({**job, "metadata": {"name": "sweep", "namespace": ana.namespace}})
    groups = stage.admin.wait_for(stage.groups, bool, "its group is made")
    (name,) = groups
    editor = Person(kai_cluster, url, "editor", ana.namespace).may("edit").may(VIEW)
    editor.group(name, lambda view: view["pods"], "its pod is seen")
    answer = editor.ask("POST", f"pod-groups/{ana.namespace}/{name}/cancel", json={})
    assert answer.status_code == 409
    assert answer.json()["hint"] == f"Delete that: kubectl delete job sweep -n {ana.namespace}"


def _group_of(stage: Stage, pod: str) -> str:
    found = stage.admin.wait_for_one(
        stage.path(pod),
        lambda one: one["metadata"].get("annotations", {}).get("pod-group-name"),
        "it has a group",
    )
    return str(found["metadata"]["annotations"]["pod-group-name"])


# -- who answers ---------------------------------------------------------------------------------------
def test_who_waits_to_lead_answers_with_a_sentence(kai_cluster: Cluster, ana: Person) -> None:
    with scheduler(kai_cluster) as second:
        url = address(second)
        answer = ask(url, "GET", "queues", token=ana.token)
        assert answer.status_code == 503
        assert answer.json()["code"] in {"not_leading", "starting"}
        assert answer.json()["hint"]
        assert ask(url, "GET", "health").json()["ready"] is False


def test_beside_another_scheduler_its_words_are_told(kai_cluster: Cluster, namespace: str) -> None:
    """`--no-decide`: who decides is played by the test, which writes what KAI writes."""
    with scheduler(kai_cluster, "--no-decide", "--scheduler-name", "other") as looking:
        url = ready(looking)
        ana = Person(kai_cluster, url, "ana", namespace).may(VIEW)
        stage = Stage(kai_cluster, namespace)
        kai_cluster.nodes.add("node", gpus=8)
        stage.group("train")
        stage.pod("train", "train", gpus=8, schedulerName="other")
        condition = {
            "type": "UnschedulableOnNodePool",
            "nodePool": "default",
            "status": "True",
            "reason": "Unschedulable",
            "message": "No node has 8 GPUs free.",
            "transitionID": "1",
            "lastTransitionTime": "2026-01-05T08:00:00Z",
        }
        stage.admin.patch(
            f"{stage.groups}/train/status", {"status": {"schedulingConditions": [condition]}}
        )
        view = ana.group("train", lambda one: one["detail"], "its words are told")
        assert (view["position"], view["detail"]) == (1, "No node has 8 GPUs free.")
        assert "Another scheduler decides here" in ask(url, "GET", "health").json()["notes"][0]
        why = ana.get(f"pod-groups/{namespace}/train/explain")
        assert why["items"][0] == {**why["items"][0], "title": "Scheduler"}


def test_the_command_line_asks_a_cluster_with_a_token_file(
    stage: Stage, ana: Person, tmp_path: Path
) -> None:
    stage.cluster.nodes.add("node", gpus=8)
    stage.alone("train", gpus=1)
    ana.group("train", lambda view: view["state"] == "Running", "it runs")
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(ana.token)
    asked = {"KAI_SERVICE_URL": ana.url, "KAI_TOKEN_FILE": str(token)}
    told = stage.cluster.kai("status", "--all", "--json", environment=asked)
    wait_until(lambda: not told.alive, "it has answered")
    assert told.exit_code == 0
    assert "train" in told.log.read_text()
