"""Payloads and results through the API of a cluster: uploaded by a person, fetched and brought back by their pods."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_service.runner.termination import fitted
from scheduler_service.wire.codec import encode
from scheduler_service.wire.pod_group import ResultItem, Work
from scheduler_service.wire.runner import Failure, Report
from tests.cluster.api_bed import Person, ready
from tests.cluster.scheduling import scheduler
from tests.cluster.test_deploy import helm
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.workloads_bed import OPEN, RESTRICTED, ask, opened

BODY = b"a payload"
DIGEST = hashlib.sha256(BODY).hexdigest()


class Service:
    """A running service with a place for files, and people in an open namespace."""

    def __init__(self, cluster: Cluster, url: str, namespace: str) -> None:
        self.cluster, self.url, self.namespace = cluster, url, namespace
        self.ana = self.person("ana")

    def person(self, name: str) -> Person:
        return Person(self.cluster, self.url, name, self.namespace).may("edit")

    def submit(self, **parts: Any) -> str:
        """Submit signed work of Ana's as her notebook would; return the group's name."""
        work = Work(payload_sha256=DIGEST)
        made = encode(ask(work=work, **parts))
        answer = self.ana.ask("POST", "pod-groups", json=made)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["name"])

    def pod(self, name: str) -> dict[str, Any]:
        return self.cluster.admin.get(f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    def seen(self, name: str) -> None:
        """Return once the service follows the pod itself, not only what it had made."""

        def is_seen(view: Any) -> bool:
            return any(pod["incarnation"] for pod in view["pods"])

        self.ana.group(name, is_seen, "its pod is seen")

    def started(self, name: str) -> str:
        """Have a pod run on the node, whatever the scheduler waits for; return its path."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        self.cluster.admin.post(
            f"{path}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "n-0"},
            },
        )
        running = lambda one: one["status"].get("phase") == "Running"  # noqa: E731
        self.cluster.admin.wait_for_one(path, running, "it runs")
        return path

    def token_of(self, pod: dict[str, Any], audience: str = "kai") -> str:
        """Return the token that the kubelet would mount."""
        meta = pod["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/kai-work/token"
        spec = {"audiences": [audience], "expirationSeconds": 3600, "boundObjectRef": bound}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.cluster.admin.post(account, body)["status"]["token"])

    def as_pod(self, token: str, method: str, uid: str, what: str, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
        url = f"{self.url}/api/v1/runner/pods/{uid}/{what}"
        return httpx.request(method, url, headers=headers, timeout=60, **more)


@pytest.fixture
def service(
    kai_cluster: Cluster, namespace: str, say: Callable[[str], None], tmp_path: Path
) -> Iterator[Service]:
    kai_cluster.nodes.add("n", count=1)
    space = opened(kai_cluster, str(helm(say)), **OPEN, **RESTRICTED)
    with scheduler(kai_cluster, "--files-url", f"file://{tmp_path}/files") as process:
        yield Service(kai_cluster, ready(process), space)


def test_a_payload_goes_to_the_pods_of_its_owner_and_a_result_comes_back(service: Service) -> None:
    stored = service.ana.ask("POST", "payloads", content=BODY)
    assert (stored.status_code, stored.json()["sha256"]) == (201, DIGEST), stored.text
    name = service.submit()
    service.seen(name)
    pod = service.pod(name)
    uid = pod["metadata"]["uid"]
    token = service.token_of(pod)

    fetched = service.as_pod(token, "GET", uid, "payload")
    assert (fetched.status_code, fetched.content) == (200, BODY), fetched.text
    headers = {"X-Kai-Signature": "sealed"}
    kept = service.as_pod(token, "PUT", uid, "result", content=b"values", headers=headers)
    assert kept.status_code == 204, kept.text
    found = service.ana.ask("GET", f"pod-groups/{service.namespace}/{name}/result")
    assert (found.content, found.headers["X-Kai-Signature"]) == (b"values", "sealed")
    assert found.headers["X-Kai-Incarnation"] == uid


def test_no_other_token_opens_the_routes_of_a_pod(service: Service) -> None:
    service.ana.ask("POST", "payloads", content=BODY)
    mine, other = service.submit(), service.submit(name="other")
    for name in (mine, other):
        service.seen(name)
    uid = service.pod(mine)["metadata"]["uid"]
    strangers = {
        service.ana.token: 401,
        service.token_of(service.pod(mine), "https://kubernetes.default.svc"): 401,
        service.token_of(service.pod(other)): 404,
        service.cluster.access("kai-work", service.namespace, audience="kai").token: 401,
    }
    for token, status in strangers.items():
        answer = service.as_pod(token, "GET", uid, "payload")
        assert answer.status_code == status, answer.text


def test_a_pod_that_the_api_did_not_make_gets_nothing(service: Service) -> None:
    """It may run under our account, and even say whose it is where no admission stands in front."""
    admin = service.cluster.admin
    service.ana.ask("POST", "payloads", content=BODY)
    name = service.submit()
    service.seen(name)
    body = service.pod(name)
    copy = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "copy", "namespace": service.namespace},
        "spec": {**body["spec"], "nodeName": None},
    }
    made = admin.create(copy)
    answer = service.as_pod(service.token_of(made), "GET", made["metadata"]["uid"], "payload")
    assert answer.status_code == 401, answer.text


def test_the_word_of_the_work_on_its_end_is_shown(service: Service) -> None:
    """The termination message, as the entry point leaves it and a kubelet tells it."""
    service.ana.ask("POST", "payloads", content=BODY)
    name = service.submit()
    service.seen(name)
    message = fitted(
        Report(
            incarnation="u",
            kind="ended",
            at=1,
            exit_code=1,
            failure=Failure(message="ValueError: no", traceback="…", cell_line=3),
            results=(ResultItem(name="y", text="int 21", size=5),),
        )
    ).decode()
    ended = {
        "name": "main",
        "image": "x",
        "imageID": "x",
        "ready": False,
        "restartCount": 0,
        "state": {
            "terminated": {"exitCode": 1, "message": message, "finishedAt": "2026-01-05T08:05:00Z"}
        },
    }
    path = service.started(name)
    status = {"status": {"phase": "Failed", "containerStatuses": [ended]}}
    service.cluster.admin.patch(f"{path}/status", status)
    view = service.ana.group(name, lambda view: view["failure"], "its failure is shown")
    assert (view["failure"]["message"], view["failure"]["cell_line"]) == ("ValueError: no", 3)
    assert view["state"] == "Failed"


def test_without_a_place_for_files_nothing_is_taken(
    kai_cluster: Cluster, namespace: str, say: Callable[[str], None]
) -> None:
    space = opened(kai_cluster, str(helm(say)), **OPEN)
    with scheduler(kai_cluster) as process:
        service = Service(kai_cluster, ready(process), space)
        answer = service.ana.ask("POST", "payloads", content=BODY)
        assert (answer.status_code, answer.json()["code"]) == (501, "not_here")
        assert "--files-url" in answer.json()["hint"]
