"""Leases with an end through the API of a cluster: the end comes, and can be moved while it has not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scheduler_service.wire.codec import encode
from tests.cluster.api_bed import Person, ready
from tests.cluster.scheduling import scheduler
from tests.cluster.test_deploy import helm
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.workloads_bed import OPEN, RESTRICTED, ask, opened

SHORT_S = 5


@pytest.fixture(scope="module")
def ana(kai_cluster: Cluster, say: Callable[[str], None]) -> Iterator[Person]:
    kai_cluster.nodes.add("n", count=1, gpus=8)
    space = opened(kai_cluster, str(helm(say)), **OPEN, **RESTRICTED)
    with scheduler(kai_cluster) as process:
        yield Person(kai_cluster, ready(process), "ana", space).may("edit")
    kai_cluster.clean()


def leased(ana: Person, **parts: Any) -> str:
    """Ask for a lease of five seconds; return its name."""
    chosen = {"kind": "lease", "gpu": 1, "preemptible": True, "work": None, "signature": None}
    made = encode(ask(**chosen, lease_s=SHORT_S, cluster={"folder": ""}, **parts))
    answer = ana.ask("POST", "pod-groups", json=made)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["name"])


def test_its_time_is_over_and_it_is_told_so(ana: Person) -> None:
    name = leased(ana)
    pods = f"/api/v1/namespaces/{ana.namespace}/pods"
    view = ana.group(name, lambda one: one["granted_at"] and one["expires_at"], "it is granted")
    assert view["expires_at"] == view["granted_at"] + SHORT_S * 1000
    ana.cluster.admin.wait_until_gone(f"{pods}/{name}")
    over = ana.group(name, lambda one: one["ended_at"], "it is over")
    assert "time" in f"{over['headline']} {over['detail']}".lower(), over


def test_an_end_that_was_moved_stands_on_its_group(ana: Person) -> None:
    name = leased(ana, name="long")
    ana.group(name, lambda one: one["state"] == "Running", "it runs")
    path = f"pod-groups/{ana.namespace}/{name}/extend"
    answer = ana.ask("POST", path, json={"by_s": 3600})
    assert answer.status_code == 200, answer.text
    view = answer.json()
    assert view["expires_at"] == view["granted_at"] + (SHORT_S + 3600) * 1000
    group = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{ana.namespace}/podgroups/{name}"
    notes = ana.cluster.admin.get(group)["metadata"]["annotations"]
    assert notes["kai.scheduler/lease-seconds"] == str(SHORT_S + 3600)
    kept = ana.ask("POST", path, json={}).json()
    assert kept["expires_at"] is None
    later = ana.group(name, lambda one: one["expires_at"] is None, "it is kept")
    assert later["state"] == "Running"
