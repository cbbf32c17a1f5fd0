"""The scheduler among faults, on a real API server: nothing twice, nothing lost, nobody's place taken."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.cluster.scheduling import Stage, scheduler
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.process import Process
from tests.cluster.testbed.proxy import FaultyProxy

BINDING = r"/binding$"
GPUS = 8


@pytest.fixture
def stage(kai_cluster: Cluster, namespace: str) -> Stage:
    return Stage(kai_cluster, namespace)


@contextmanager
def by_proxy(cluster: Cluster, *flags: str) -> Iterator[tuple[FaultyProxy, Process]]:
    """Give a scheduler that reaches the API through a proxy."""
    with ExitStack() as stack:
        proxy = stack.enter_context(cluster.faulty_proxy(cluster.access("kai-scheduler")))
        kubeconfig = str(proxy.login.kubeconfig)
        yield proxy, stack.enter_context(scheduler(cluster, *flags, kubeconfig=kubeconfig))


def check_devices(stage: Stage) -> None:
    """No node holds more GPUs than it has."""
    held: Counter[str] = Counter()
    for pod in stage.admin.list(stage.pods):
        gpus = (
            pod["spec"]["containers"][0]["resources"].get("requests", {}).get("nvidia.com/gpu", 0)
        )
        held[pod["spec"].get("nodeName", "")] += int(gpus)
    del held[""]
    assert max(held.values(), default=0) <= GPUS


def many(stage: Stage, count: int) -> list[str]:
    return [stage.alone(f"p{number}", gpus=1) for number in range(count)]


def test_a_plain_pod_costs_four_writes(stage: Stage) -> None:
    """A bare pod with a queue's name: group, binding (it links both), event, status. No condition twice."""
    stage.cluster.nodes.add("n", gpus=GPUS)
    with by_proxy(stage.cluster, "--no-leader-elect") as (proxy, _):
        names = [
            # With a GPU: the test's kubelet notes its id on the pod, as network plug-ins do their addresses.
            stage.pod(f"p{n}", gpus=1, labels={"kai.scheduler/queue": stage.default})
            for n in range(GPUS)
        ]
        stage.running(*names)
        stage.admin.wait_for(
            stage.groups,
            lambda found: sum(_is_allocated(one) for one in found.values()) == GPUS,
            "the groups say what they hold",
        )
        stage.settled()
        writes = [
            one
            for one in proxy.writes()
            if f"/{stage.namespace}/" in one.path and "lookout" not in one.path
        ]
    kinds = Counter(
        f"{one.method} {re.sub(r'p[0-9].*?(?=/|$|[?])', 'P', one.path)}" for one in writes
    )
    bindings = [one for one in writes if one.path.endswith("/binding")]
    assert len(bindings) == GPUS
    linked = [stage.admin.get(stage.path(name))["metadata"]["annotations"] for name in names]
    assert all(notes["pod-group-name"].startswith("pg-p") for notes in linked)
    # The look-out of `settled` made its own group; its event and status are few and counted along.
    assert len(writes) <= 4 * (GPUS + 1), kinds


def _is_allocated(group: dict) -> bool:
    return bool(group.get("status", {}).get("resourcesStatus", {}).get("allocated"))


@pytest.mark.parametrize(
    "fault", ["429", "500", "swallowed", "cut", "slow watch", "watch gone", "watches cut"]
)
def test_bindings_come_about_whatever_the_api_does(stage: Stage, fault: str) -> None:
    stage.cluster.nodes.add("n", count=2, gpus=GPUS)
    with by_proxy(stage.cluster, "--no-leader-elect") as (proxy, _):
        stage.bound(stage.alone("first", gpus=1))
        if fault == "429":
            proxy.fail("POST", BINDING, status=429, times=5)
        elif fault == "500":
            proxy.fail("POST", BINDING, status=500, times=5)
        elif fault == "swallowed":
            proxy.swallow("POST", BINDING, times=3)
        elif fault == "cut":
            proxy.cut("POST", BINDING, times=3)
        elif fault == "slow watch":
            proxy.slow_watches(2.0)
        names = many(stage, 6)
        if fault == "watch gone":
            proxy.forget_versions()
        elif fault == "watches cut":
            proxy.cut_watches()
        stage.bound(*names, *(stage.alone(f"later{n}", gpus=1) for n in range(3)))
    check_devices(stage)


@pytest.mark.parametrize("what", ["api", "etcd"])
def test_the_control_plane_starts_anew(stage: Stage, what: str) -> None:
    stage.cluster.nodes.add("n", count=2, gpus=GPUS)
    with scheduler(stage.cluster, "--no-leader-elect"):
        stage.bound(stage.alone("before", gpus=1))
        names = many(stage, 5)
        if what == "api":
            stage.cluster.restart_api()
        else:
            stage.cluster.restart_etcd()
        stage.bound(*names, stage.alone("after", gpus=1))
    check_devices(stage)


def test_a_killed_leader_is_followed_and_nothing_is_bound_twice(stage: Stage) -> None:
    stage.cluster.nodes.add("n", count=4, gpus=GPUS)
    with scheduler(stage.cluster) as first, scheduler(stage.cluster) as second:
        stage.bound(stage.alone("before", gpus=1))
        processes = {"first": first, "second": second}
        leader = next(
            name for name, one in processes.items() if "leading as" in one.log.read_text()
        )
        names = many(stage, 20)
        processes[leader].signal(signal.SIGKILL)
        stage.bound(*names, stage.alone("after", gpus=1))
        check_devices(stage)


def test_a_leader_that_is_told_to_end_hands_over_at_once(stage: Stage) -> None:
    stage.cluster.nodes.add("n", gpus=GPUS)
    with scheduler(stage.cluster) as first:
        stage.bound(stage.alone("a", gpus=1))
        first.stop()
        assert first.exit_code == 0
        lease = stage.admin.get(
            "/apis/coordination.k8s.io/v1/namespaces/kai-scheduler/leases/kai-scheduler"
        )
        assert not lease["spec"].get("holderIdentity")
    with scheduler(stage.cluster):
        stage.bound(stage.alone("b", gpus=1))


def test_two_schedulers_by_name(stage: Stage) -> None:
    stage.cluster.nodes.add("n", count=2, gpus=1)
    with scheduler(stage.cluster), scheduler(stage.cluster, "--scheduler-name", "other"):
        stage.alone("mine", gpus=1)
        stage.alone("theirs", gpus=1, schedulerName="other")
        assert sorted(stage.bound("mine", "theirs")) == ["n-0", "n-1"]
        stage.alone("late", gpus=1, schedulerName="other")
        assert sorted(stage.settled()) == ["mine", "theirs"]


def test_what_a_stranger_takes_is_not_given_away(stage: Stage) -> None:
    """A pod of no scheduler of ours takes the node between the decision and the binding."""
    stage.cluster.nodes.add("n", gpus=2)
    with by_proxy(stage.cluster, "--no-leader-elect") as (proxy, _):
        stage.bound(stage.alone("first", cpu="1"))
        proxy.slow_watches(2.0)
        stage.pod("stranger", gpus=2, schedulerName="nobody", nodeName="n")
        stage.alone("mine", gpus=1)
        proxy.slow_watches(0.0)
        stage.cluster.nodes.add("m", gpus=1)
        stage.bound("mine")
    check_devices(stage)


def test_a_bind_request_that_failed_is_removed_and_decided_anew(stage: Stage) -> None:
    stage.cluster.nodes.add("n", gpus=1)
    with scheduler(stage.cluster, "--no-leader-elect"):
        stage.alone("p", annotations={"gpu-fraction": "0.5"})
        stage.request("p")
        path = f"{stage.requests}/p"
        first = stage.admin.get(path)["metadata"]["uid"]
        failed = {"phase": "Failed", "reason": "no luck", "failedAttempts": 1}
        stage.admin.patch(f"{path}/status", {"status": failed})
        stage.admin.wait_for_one(path, lambda one: one["metadata"]["uid"] != first, "a new request")


def test_a_node_that_vanishes_takes_its_bind_requests_along(stage: Stage) -> None:
    stage.cluster.nodes.add("n", gpus=1)
    with scheduler(stage.cluster, "--no-leader-elect"):
        stage.alone("p", annotations={"gpu-fraction": "0.5"})
        assert stage.request("p")["selectedNode"] == "n"
        stage.cluster.nodes.vanish("n")
        stage.cluster.nodes.add("m", gpus=1)
        stage.admin.wait_for_one(
            f"{stage.requests}/p", lambda one: one["spec"]["selectedNode"] == "m", "it goes to m"
        )


def test_a_dry_run_changes_nothing_and_says_what_it_would_do(stage: Stage) -> None:
    """KAI is played by hand: the pod is put on the other node."""
    stage.cluster.nodes.add("n", count=2, gpus=1)
    with by_proxy(stage.cluster, "--dry-run") as (proxy, process):
        stage.alone("p", gpus=1)
        pod = stage.admin.get(stage.path("p"))
        process.wait_until(lambda: "health on" in process.log.read_text(), "it listens")
        where = process.log.read_text().partition("health on ")[2].split()[0]
        process.wait_until(lambda: decided(where) == 1, "it decided")
        target = {"apiVersion": "v1", "kind": "Node", "name": "n-1"}
        meta = {"name": "p", "uid": pod["metadata"]["uid"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        stage.admin.post(f"{stage.path('p')}/binding", body)
        process.wait_until(lambda: bool(shadow(where)["counts"]), "it compared")
        found = shadow(where)
        assert found["counts"] == {"other_node": 1}
        assert found["differences"][0] == {
            "pod": f"{stage.namespace}/p",
            "ours": "n-0",
            "theirs": "n-1",
            "kind": "other_node",
        }
        assert proxy.writes() == []


def shadow(where: str) -> dict:
    with urllib.request.urlopen(f"http://{where}/shadow") as answer:
        return json.loads(answer.read())


def decided(where: str) -> int:
    return int(shadow(where)["waiting"])
