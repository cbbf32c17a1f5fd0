"""What every `SchedulerPort` promises the API, kept by the door of a real cluster: the suite of tests/contracts.

Left out is what a cluster does not do: the runner's routes, since kubelets run the pods.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scheduler_service.backends.kubernetes.access import Access
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.cluster import Options
from scheduler_service.planning.cycle import plan
from scheduler_service.ports import SchedulerPort
from scheduler_service.service.cluster_door import ClusterService, opened
from scheduler_service.service.in_cluster import InCluster
from scheduler_service.settings.table import Settings
from tests.cluster.testbed.cluster import OUR_NAMESPACE, TEST_LABEL, Cluster
from tests.contracts import test_port as suite
from tests.contracts.test_port import METHODS, Opened

RBAC = "rbac.authorization.k8s.io"
LEFT_OUT = {
    "test_from_grant_to_end_over_the_runners_routes",
    "test_every_method_is_there_with_the_same_parameters",
}


@pytest.fixture
def open_port(kai_cluster: Cluster, namespace: str) -> Callable[[], Awaitable[Opened]]:
    kai_cluster.nodes.add("contract", gpus=2)
    for user in ("ana", "ben"):
        furnish(kai_cluster, f"{user}-{namespace}", user)
    rules = (
        f'namespace: "{{user}}-{namespace}"\nplainImages: ["*"]\ndefaultImage: example.local/box'
    )
    kai_cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kai-submit", "namespace": OUR_NAMESPACE},
            "data": {"rules.yaml": rules},
        }
    )
    access = Access.load(kai_cluster.access("kai-scheduler").kubeconfig)
    return lambda: _opened(access)


def furnish(cluster: Cluster, space: str, user: str) -> None:
    """Make a namespace in which a user may make pods, and our account for them."""
    labels = {TEST_LABEL: "true", "kai.scheduler/managed": "true"}
    cluster.admin.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "labels": labels}}
    )
    meta = {"name": "kai-work", "namespace": space}
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    ours = {"kind": "ServiceAccount", "name": "kai-scheduler", "namespace": OUR_NAMESPACE}
    theirs = {"kind": "User", "name": user, "apiGroup": RBAC}
    for role, subject in (("kai-jupyter:submit", ours), ("edit", theirs)):
        cluster.apply(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": role.replace(":", "-"), "namespace": space},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
                "subjects": [subject],
            }
        )


async def _opened(access: Access) -> Opened:
    """Return the door of a scheduler that lives until the event loop ends."""
    found: asyncio.Future[ClusterService] = asyncio.get_running_loop().create_future()
    living = asyncio.create_task(_live(access, found))
    await asyncio.wait({found, living}, return_when=asyncio.FIRST_COMPLETED)
    if living.done():
        living.result()
    service = found.result()
    decided = asyncio.Event()
    service.scheduler.on_cycle.append(lambda _cycle: decided.set())

    async def turn() -> None:
        """Wait until what was asked is followed and was decided upon."""
        while service.records.awaited or not service.scheduler.cycles:
            decided.clear()
            await decided.wait()

    KEPT.append(living)
    return service, turn


KEPT: list[Any] = []


async def _live(access: Access, found: asyncio.Future[ClusterService]) -> None:
    async with KubeClient(access) as client:
        scheduler = InCluster(client, options=Options(worker=False), planner=plan)
        service, _ = opened(
            client,
            scheduler,
            planner=plan,
            settings=Settings(),
            version="0",
            is_leading=lambda: True,
        )
        await scheduler.follow()
        running = asyncio.create_task(scheduler.run())
        found.set_result(service)
        try:
            await asyncio.Event().wait()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await scheduler.stop()


PROMISES = {
    name: check
    for name, check in vars(suite).items()
    if name.startswith("test_") and name not in LEFT_OUT
}
globals().update(PROMISES)


@pytest.mark.parametrize("name", METHODS)
def test_the_door_of_a_cluster_has_every_method(name: str) -> None:
    promised = inspect.signature(getattr(SchedulerPort, name)).parameters
    kept = inspect.signature(getattr(ClusterService, name)).parameters
    assert [one.lstrip("_") for one in kept] == list(promised)
    assert [one.kind for one in kept.values()] == [one.kind for one in promised.values()]


def test_the_suite_is_the_whole_suite() -> None:
    assert len(PROMISES) >= 5
