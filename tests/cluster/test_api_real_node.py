"""From a request over HTTP to a process on a real node and its lines back, with a token of the person's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.cluster.api_bed import Person, ready
from tests.cluster.scheduling import scheduler
from tests.cluster.test_port_contract import furnish
from tests.cluster.testbed import images
from tests.cluster.testbed.cluster import OUR_NAMESPACE, Cluster
from tests.cluster.testbed.real_node import RealNode

SLOW_S = 600
SAY = "for n in 1 2 3; do echo line $n on $NVIDIA_VISIBLE_DEVICES; sleep 1; done; echo gone >&2; exit 3"


@pytest.fixture
def ana(kai_cluster: Cluster, real_node: RealNode, namespace: str) -> Iterator[Person]:
    space = f"lab-{namespace}"
    rules = f'plainImages: ["*"]\ndefaultImage: {images.PYTHON}\nnamespace: {space}'
    kai_cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kai-submit", "namespace": OUR_NAMESPACE},
            "data": {"rules.yaml": rules},
        }
    )
    user = f"system:serviceaccount:{space}:ana"
    furnish(kai_cluster, space, user)
    with scheduler(kai_cluster) as process:
        yield Person(kai_cluster, ready(process), "ana", space)


def submitted(person: Person, **parts: Any) -> Any:
    work = {"command": ["dash", "-c", SAY]}
    body = {"kind": "batch", "name": "say", "work": work, "signature": "s", "gpu": "1", **parts}
    answer = person.ask("POST", "pod-groups", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_request_runs_its_lines_are_read_and_its_end_is_told(ana: Person) -> None:
    view = submitted(ana)
    assert (view["owner"], view["mine"], view["state"]) == (ana.user, True, "Waiting")
    name = view["name"]
    ana.group(
        name, lambda one: one["state"] in {"Running", "Failed"}, "it runs", fail_safe_s=SLOW_S
    )
    url = f"{ana.url}/api/v1/pod-groups/{ana.namespace}/{name}/logs"
    headers = {"Authorization": f"Bearer {ana.token}"}
    lines: list[str] = []
    ends: list[str] = []
    with httpx.stream(
        "GET", url, params={"follow": "1"}, headers=headers, timeout=SLOW_S
    ) as followed:
        for line in followed.iter_lines():
            if line.startswith("event: "):
                ends.append(line)
            elif line.startswith("data: ") and not ends:
                lines.append(json.loads(line.removeprefix("data: "))["text"])
    assert [line.split(" on ")[0] for line in lines] == ["line 1", "line 2", "line 3", "gone"]
    assert all(line.split(" on ")[1] for line in lines[:3])
    assert ends == ["event: end"]
    over = ana.group(name, lambda one: one["state"] == "Failed", "its end is told")
    assert over["pods"][0]["exit_code"] == 3
    assert over["detail"] == "It ended with exit code 3."
    tail = ana.get(f"pod-groups/{ana.namespace}/{name}/logs", tail=1)
    assert [line["text"] for line in tail["lines"]] == ["gone"]


def test_what_the_api_made_is_ended_through_it(ana: Person) -> None:
    view = submitted(ana, name="sleeps", work={"command": ["sleep", "3600"]}, gpu=None)
    name = view["name"]
    ana.group(name, lambda one: one["state"] == "Running", "it runs", fail_safe_s=SLOW_S)
    answer = ana.ask("POST", f"pod-groups/{ana.namespace}/{name}/cancel", json={})
    assert answer.status_code == 200, answer.text
    pods = f"/api/v1/namespaces/{ana.namespace}/pods"
    ana.cluster.admin.wait_for(pods, lambda left: not left, "its pod is gone", fail_safe_s=SLOW_S)
    over = ana.group(name, lambda one: one["state"] == "Cancelled", "it is over")
    assert over["headline"].startswith("Cancelled.")
