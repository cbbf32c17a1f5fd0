"""A real Kubernetes for every test in this folder, in one network namespace of the tests' own.

How to use it (everything is synchronous; tests of asynchronous code run `asyncio.run` inside):

    def test_a_pod_runs(cluster, namespace):          # both clean when the test ends
        cluster.nodes.add("node", count=4, gpus=8)
        cluster.admin.create({... a Pod with namespace=namespace ...})
        cluster.admin.wait_for_one(path, lambda pod: pod["status"]["phase"] == "Running", "it runs")

- `cluster` (session): etcd, kube-apiserver (RBAC, webhooks by URL or Service), controllers, and a
  player that stands for the kubelets of fake nodes. No CRDs of ours in it, nothing of ours runs.
- `kai_cluster` (session): the same with our CRDs, accounts, roles, classes and default queues.
- `namespace` (test): a fresh namespace; when the test ends all namespaces, queues and fake nodes
  that tests made are removed. `cluster.new_namespace()` makes more of them. Processes of ours,
  webhook configurations and leases end with the module at the latest.
- `cluster.admin`: `get find list post create put patch delete apply wait_for wait_for_one
  wait_until_gone in_parallel` (testbed/admin.py), paths as in the API's documentation.
- `cluster.access("kai-binder")`: a token and a 0600 kubeconfig of that service account;
  `cluster.kai("binder", "--kubeconfig", str(login.kubeconfig))` starts our command line.
- `cluster.nodes`: `add change offer not_ready vanish remove`, and for pods by their path
  `hold_start hold_end let_go finish fail lose devices` (testbed/fake_nodes.py).
- `real_node` (session, root): the node `real-0` with kubelet, containerd and four fake GPUs;
  `real_node.pod(name, namespace, command, gpus=…)` is a manifest for it, `cluster.admin.text(path +
  "/log")` what it printed; `offer signal` break its devices and programs (testbed/real_node.py).
- `testbed/operators.py`: CRDs of Kubeflow, JobSet, LeaderWorkerSet, Ray; KubeRay's operator.
- `cluster.restart_api()`, `cluster.restart_etcd()`, `cluster.faulty_proxy(login)` (testbed/proxy.py).

`tmp_path`-like output of everything lies in `cluster.folder`. Without root there is no namespace:
the cluster takes free ports of the loopback. Nothing survives the run, not even when it is killed.

With `--numprocesses=2`, as in CI, each process has a namespace and a cluster of its own: tests wait more than they
compute, and two clusters share a machine well. What takes long is named in `testbed/spread.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.testbed import spread
from tests.cluster.testbed.binaries import Missing
from tests.cluster.testbed.cluster import DEPLOY, Cluster
from tests.cluster.testbed.control_plane import API_ADDRESS
from tests.cluster.testbed.namespace import NetworkNamespace, possible
from tests.cluster.testbed.real_node import RealNode, why_not

HERE = Path(__file__).resolve().parent
MANIFESTS = DEPLOY / "manifests"
MUST_RUN = bool(os.environ.get("CI"))
SPACE = pytest.StashKey[NetworkNamespace | None]()
NODE = pytest.StashKey[RealNode]()
RUNNING = pytest.StashKey[Cluster]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark everything here, so that `-m cluster` chooses; what needs the real node comes last.

    Once that node is up it is a place for pods, and tests of others count their places. One of several processes
    takes these tests first (`testbed/spread.py`), and lets the node go after them.
    """
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)
        if _needs_real_node(item) and spread.place_of(item.nodeid) != spread.REAL_NODE:
            raise pytest.UsageError(f"{item.path.name} has the real node: name it in spread.py.")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: spread.rank(item.nodeid))
    else:
        items.sort(key=_needs_real_node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Spread the tests over processes as they can bear it, where only these tests run."""
    return spread.scheduling(config, log)


def _needs_real_node(item: pytest.Item) -> bool:
    return item.path.is_relative_to(HERE) and "real_node" in getattr(item, "fixturenames", ())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run each test of this folder, with its fixtures, inside the namespace."""
    if not item.path.is_relative_to(HERE):
        return (yield)
    stash = item.config.stash
    if SPACE not in stash:
        stash[SPACE] = space = NetworkNamespace() if possible() else None
        if space is not None:
            space.add_address(API_ADDRESS, alias=0)
    space = stash[SPACE]
    with space.entered() if space else nullcontext():
        if spread.place_of(item.nodeid) != spread.REAL_NODE:
            _let_node_go(item.config)
        return (yield)


def _let_node_go(config: pytest.Config) -> None:
    """End the real node, if there is one, so that it is no place for the pods of tests to come."""
    node = config.stash.get(NODE, None)
    if node is not None:
        del config.stash[NODE]
        node.stop()
        node.forget()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let the namespace go."""
    space = config.stash.get(SPACE, None)
    if space is not None:
        space.close()


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Print at once, past pytest's capturing: for what takes long."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def print_now(line: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            sys.stdout.write(f"  [test cluster] {line}\n")
            sys.stdout.flush()

    return print_now


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    say: Callable[[str], None],
) -> Iterator[Cluster]:
    """Give the running cluster; skip with the reason where its programs cannot be had."""
    space = request.config.stash[SPACE]
    folder = tmp_path_factory.mktemp("cluster")
    try:
        with Cluster.started(folder, own_namespace=space is not None, say=say) as running:
            request.config.stash[RUNNING] = running
            yield running
    except Missing as missing:
        if MUST_RUN:
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="module", autouse=True)
def nothing_outlives_its_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """End our processes when a module ends, and what speaks for them: webhooks, leases."""
    yield
    running = request.config.stash.get(RUNNING, None)
    if running is not None:
        running.end_processes()


@pytest.fixture(scope="session")
def kai_cluster(cluster: Cluster) -> Cluster:
    """Give the cluster with what we ship in it, but no process of ours."""
    cluster.install(MANIFESTS)
    return cluster


@pytest.fixture(scope="session")
def real_node(
    request: pytest.FixtureRequest, cluster: Cluster, say: Callable[[str], None]
) -> Iterator[RealNode]:
    """Give the real node, Ready with four fake GPUs; skip with the reason where it cannot be."""
    reason = why_not()
    if reason is not None:
        if MUST_RUN:
            pytest.fail(reason)
        pytest.skip(reason)
    node = request.config.stash[NODE] = RealNode(cluster, say)
    try:
        node.start()
        yield node
    finally:
        _let_node_go(request.config)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Give a fresh namespace, and remove what tests made when the test ends."""
    yield cluster.new_namespace()
    cluster.clean()
