"""The binder when the API misbehaves: nothing bound twice, nothing lost, and no try counted that was none."""

from __future__ import annotations

import re

import pytest

from tests.cluster.binding import OUR_NAMESPACE, Bench

COUNT = 40


@pytest.fixture
def bench(kai_cluster, namespace):
    return Bench(kai_cluster, namespace)


@pytest.fixture
def proxy(kai_cluster):
    with kai_cluster.faulty_proxy(kai_cluster.access("kai-binder", OUR_NAMESPACE)) as found:
        yield found


def all_are_bound(bench, count=COUNT):
    """Return once every request is carried out; none of them may have failed a try."""
    found = bench.admin.wait_for(
        bench.requests,
        lambda all_: (
            len(all_) == count
            and all(one.get("status", {}).get("phase") == "Succeeded" for one in all_.values())
        ),
        "every request is carried out",
    )
    assert {one["status"]["failedAttempts"] for one in found.values()} == {0}
    pods = bench.admin.list(bench.pods)
    assert {one["spec"].get("nodeName") for one in pods} == {"n"}
    for pod in pods:
        conditions = [one for one in pod["status"]["conditions"] if one["type"] == "PodBound"]
        assert [one["status"] for one in conditions] == ["True"]


FAULTS = {
    "errors": lambda proxy: proxy.fail("POST", r"/binding$", status=500, times=30),
    "too many": lambda proxy: proxy.fail(
        "", r"(binding|status)$", status=429, times=30, retry_after_s=1
    ),
    "never told": lambda proxy: proxy.swallow("POST", r"/binding$", times=20),
    "status never told": lambda proxy: proxy.swallow("PATCH", r"/status$", times=20),
    "cut": lambda proxy: proxy.cut("", r"(binding|status|events)$", times=30),
    "conflicts": lambda proxy: proxy.fail("POST", r"/binding$", status=409, times=30),
    "slow watches": lambda proxy: proxy.slow_watches(2.0),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_misbehaving_api_costs_neither_pods_nor_tries(bench, proxy, fault):
    bench.cluster.nodes.add("n", gpus=0, pods=500)
    pods = bench.admin.in_parallel(lambda number: bench.pod(f"p-{number}"), range(COUNT))
    FAULTS[fault](proxy)
    with bench.binder(kubeconfig=str(proxy.login.kubeconfig)):
        bench.admin.in_parallel(lambda pod: bench.request(pod, "n"), pods)
        all_are_bound(bench)


def test_a_plain_bind_costs_four_writes(bench, proxy):
    """The binding, the pod's condition, its event, the request's status; nothing is said twice."""
    bench.cluster.nodes.add("n", gpus=0)
    with bench.binder(kubeconfig=str(proxy.login.kubeconfig)):
        bench.request(bench.pod("p"), "n")
        bench.bound("p")
    written = [
        re.sub(r".*/(\w+/)?([\w.-]+)$", r"\2", one.path.partition("?")[0]) for one in proxy.writes()
    ]
    assert sorted(written) == ["binding", "events", "status", "status"]


def test_a_store_that_is_killed_loses_nothing(bench):
    bench.cluster.nodes.add("n", gpus=0, pods=500)
    pods = bench.admin.in_parallel(lambda number: bench.pod(f"p-{number}"), range(COUNT))
    with bench.binder():
        for number, pod in enumerate(pods):
            bench.request(pod, "n")
            if number == COUNT // 2:
                bench.cluster.restart_etcd()
        all_are_bound(bench)


def test_writers_that_cross_in_a_device_claim_are_read_again(bench, proxy):
    bench.cluster.nodes.add("n", gpus=0)
    claims = f"/apis/resource.k8s.io/v1/namespaces/{bench.namespace}/resourceclaims"
    request = {"name": "one", "exactly": {"deviceClassName": "gpu", "count": 1}}
    bench.admin.post(
        claims,
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "gpu", "namespace": bench.namespace},
            "spec": {"devices": {"requests": [request]}},
        },
    )
    result = {"request": "one", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
    grant = {"name": "gpu", "allocation": {"devices": {"results": [result]}}}
    pod = bench.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    proxy.fail("PUT", r"resourceclaims/gpu/status$", status=409, times=4)
    with bench.binder(kubeconfig=str(proxy.login.kubeconfig)):
        bench.request(pod, "n", resourceClaimAllocations=[grant])
        bench.bound("p")
    status = bench.admin.get(f"{claims}/gpu")["status"]
    assert [user["uid"] for user in status["reservedFor"]] == [pod["metadata"]["uid"]]


def test_two_binders_do_not_work_at_the_same_time(bench):
    """The second waits for the Lease; when the first is told to end, it goes on at once."""
    bench.cluster.nodes.add("n", gpus=0)
    first = bench.start("--lease", "--lease-namespace", OUR_NAMESPACE)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{OUR_NAMESPACE}/leases/kai-binder"
    holder = bench.admin.wait_for_one(
        lease, lambda one: bool(one["spec"].get("holderIdentity")), "the first leads"
    )["spec"]["holderIdentity"]
    second = bench.start("--lease", "--lease-namespace", OUR_NAMESPACE)
    try:
        second.wait_until(lambda: "leads; waiting" in second.tail(), "the second waits")
        bench.request(bench.pod("a"), "n")
        bench.bound("a")
        first.stop()
        assert first.exit_code == 0
        bench.admin.wait_for_one(
            lease,
            lambda one: one["spec"].get("holderIdentity") not in {"", None, holder},
            "the second leads",
        )
        bench.request(bench.pod("b"), "n")
        bench.bound("b")
    finally:
        first.kill()
        second.kill()
        bench.admin.delete(lease)
