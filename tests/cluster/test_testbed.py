"""The test cluster itself: what every other test here relies on."""

from __future__ import annotations

import http.client
import ssl
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cluster.testbed.admin import Admin, ApiError
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.identity import Login

CLAIM: Any = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "kept"},
    "data": {"a": "1"},
}


def pods_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def pod(namespace: str, name: str, node: str | None = None, *, gpus: int = 0, **meta: Any) -> Any:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec = {
        "schedulerName": "nobody",
        "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **meta},
        "spec": spec | ({"nodeName": node} if node else {}),
    }


def bind(admin: Admin, namespace: str, name: str, node: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    admin.post(f"{pods_of(namespace)}/{name}/binding", body)


def is_in(phase: str) -> Any:
    return lambda one: one["status"].get("phase") == phase


def test_a_bound_pod_runs_and_gets_devices_of_its_own(cluster: Cluster, namespace: str) -> None:
    cluster.nodes.add("n", gpus=2)
    for name in ("a", "b"):
        cluster.admin.create(pod(namespace, name, gpus=1))
        bind(cluster.admin, namespace, name, "n")
    paths = [f"{pods_of(namespace)}/{name}" for name in ("a", "b")]
    for path in paths:
        cluster.admin.wait_for_one(path, is_in("Running"), "the pod runs")
    assert sorted(cluster.nodes.devices(paths[0]) + cluster.nodes.devices(paths[1])) == [
        "GPU-fake-n-0000",
        "GPU-fake-n-0001",
    ]


def test_pods_end_fail_and_vanish_on_command(cluster: Cluster, namespace: str) -> None:
    cluster.nodes.add("n", gpus=0)
    for name in ("ends", "fails", "vanishes"):
        cluster.admin.create(pod(namespace, name, "n"))
        cluster.admin.wait_for_one(f"{pods_of(namespace)}/{name}", is_in("Running"), "it runs")
    cluster.nodes.finish(f"{pods_of(namespace)}/ends")
    cluster.nodes.fail(f"{pods_of(namespace)}/fails")
    cluster.nodes.lose(f"{pods_of(namespace)}/vanishes")
    cluster.admin.wait_for_one(f"{pods_of(namespace)}/ends", is_in("Succeeded"), "it ends")
    cluster.admin.wait_for_one(f"{pods_of(namespace)}/fails", is_in("Failed"), "it fails")
    cluster.admin.wait_until_gone(f"{pods_of(namespace)}/vanishes")


def test_a_held_pod_stays_in_its_state_until_it_is_let_go(cluster: Cluster, namespace: str) -> None:
    cluster.nodes.add("n", gpus=0)
    path = f"{pods_of(namespace)}/held"
    cluster.admin.create(pod(namespace, "held", "n"))
    cluster.admin.wait_for_one(path, is_in("Running"), "it runs")
    cluster.nodes.hold_end(path)
    cluster.admin.delete(path)
    leaving = cluster.admin.wait_for_one(
        path, lambda one: "deletionTimestamp" in one["metadata"], "it is asked to leave"
    )
    assert leaving["status"]["phase"] == "Running"
    cluster.nodes.let_go(path)
    cluster.admin.wait_until_gone(path)


def test_a_player_that_is_killed_goes_on_where_it_was(cluster: Cluster, namespace: str) -> None:
    cluster.nodes.add("n", gpus=1)
    first = f"{pods_of(namespace)}/first"
    cluster.admin.create(pod(namespace, "first", "n", gpus=1))
    cluster.admin.wait_for_one(first, is_in("Running"), "it runs")
    cluster.nodes.player.kill()
    cluster.admin.create(pod(namespace, "second", "n", gpus=1))
    cluster.nodes.player.start()
    failed = cluster.admin.wait_for_one(
        f"{pods_of(namespace)}/second", is_in("Failed"), "a device is not given twice"
    )
    assert failed["status"]["reason"] == "UnexpectedAdmissionError"


def test_five_hundred_nodes_and_a_thousand_pods(cluster: Cluster, namespace: str) -> None:
    nodes = cluster.nodes.add("big", count=500, gpus=8)
    places = [(f"p-{number}", nodes[number % 500]) for number in range(1_000)]
    cluster.admin.in_parallel(
        lambda one: cluster.admin.create(pod(namespace, *one, gpus=1)), places
    )
    running = cluster.admin.wait_for(
        pods_of(namespace),
        lambda pods: len(pods) == 1_000 and all(map(is_in("Running"), pods.values())),
        "all pods run",
    )
    given = [one["metadata"]["annotations"]["testbed.kai/devices"] for one in running.values()]
    assert len(set(given)) == 1_000


def test_what_was_written_survives_both_restarts(cluster: Cluster, namespace: str) -> None:
    kept = {**CLAIM, "metadata": {"name": "kept", "namespace": namespace}}
    cluster.admin.create(kept)
    cluster.restart_etcd()
    cluster.restart_api()
    path = f"/api/v1/namespaces/{namespace}/configmaps/kept"
    assert cluster.admin.get(path)["data"] == CLAIM["data"]


def test_an_account_may_do_nothing_that_it_was_not_given(cluster: Cluster, namespace: str) -> None:
    cluster.admin.create(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "guest", "namespace": namespace},
        }
    )
    guest = Admin(cluster.access("guest", namespace))
    with pytest.raises(ApiError) as refused:
        guest.list(pods_of(namespace))
    assert refused.value.status == 403
    assert guest.login.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_what_we_ship_is_installed_and_its_accounts_are_no_administrators(
    kai_cluster: Cluster, namespace: str
) -> None:
    for account in ("kai-scheduler", "kai-binder", "kai-webhook"):
        client = Admin(kai_cluster.access(account))
        with pytest.raises(ApiError) as refused:
            client.list(f"/api/v1/namespaces/{namespace}/secrets")
        assert refused.value.status == 403
    queues = "/apis/scheduling.run.ai/v2/queues"

    def specs() -> dict[str, object]:
        return {one["metadata"]["name"]: one["spec"] for one in kai_cluster.admin.list(queues)}

    before = specs()
    changed = {"spec": {"displayName": "changed by a test"}}
    kai_cluster.admin.patch(f"{queues}/default-queue", changed)
    kai_cluster.admin.create(
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "of-a-test"}}
        | {"spec": {"resources": {"gpu": {"quota": 1, "limit": -1, "overQuotaWeight": 1}}}}
    )
    assert specs() != before
    kai_cluster.clean()
    assert specs() == before


def test_nothing_is_left_after_cleaning(cluster: Cluster, namespace: str) -> None:
    cluster.nodes.add("n", count=3)
    for number in range(3):
        cluster.admin.create(pod(namespace, f"p-{number}", f"n-{number}"))
    cluster.clean()
    assert cluster.admin.list(pods_of(namespace)) == []
    assert cluster.admin.list("/api/v1/nodes", labelSelector="testbed.kai/fake") == []


class TestProxy:
    def test_it_lets_everything_through_and_remembers_it(
        self, cluster: Cluster, namespace: str
    ) -> None:
        with cluster.faulty_proxy(cluster.admin.login) as proxy:
            Admin(proxy.login).create({**CLAIM, "metadata": {"name": "x", "namespace": namespace}})
            collection = f"/api/v1/namespaces/{namespace}/configmaps"
            assert [(one.path, one.status) for one in proxy.writes()] == [(collection, 201)]

    def test_a_fault_is_used_up(self, cluster: Cluster) -> None:
        with cluster.faulty_proxy(cluster.admin.login) as proxy:
            proxy.fail("GET", "/nodes", status=500, times=1)
            client = Admin(proxy.login)
            with pytest.raises(ApiError) as failed:
                client.list("/api/v1/nodes")
            assert failed.value.status == 500
            assert client.list("/api/v1/nodes") == []

    def test_what_is_swallowed_was_done(self, cluster: Cluster, namespace: str) -> None:
        """The worst fault: the binding is made, and nobody is told."""
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        with cluster.faulty_proxy(cluster.admin.login) as proxy:
            proxy.swallow("POST", "/configmaps$")
            link = connect(proxy.login)
            link.request(
                "POST",
                path,
                '{"metadata": {"name": "x"}}',
                {"Authorization": f"Bearer {proxy.login.token}"},
            )
            with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
                link.getresponse()
        assert cluster.admin.get(f"{path}/x")["metadata"]["name"] == "x"

    def test_watches_are_told_that_their_version_is_gone(
        self, cluster: Cluster, namespace: str
    ) -> None:
        with cluster.faulty_proxy(cluster.admin.login) as proxy:
            client = Admin(proxy.login)
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            events = client.watch(path, since="0")
            assert next(events)[0] == "ADDED"  # kube-root-ca.crt, which the controllers make
            assert proxy.forget_versions() == 1
            assert [one["code"] for kind, one in events if kind == "ERROR"] == [410]


def connect(login: Login) -> http.client.HTTPSConnection:
    server = urlsplit(login.server)
    trust = ssl.create_default_context(cafile=str(login.ca_file))
    return http.client.HTTPSConnection(server.hostname or "", server.port, context=trust)
