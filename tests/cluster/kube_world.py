"""The backend contract's world in a real cluster: a group is asked for by its objects, a pod starts as a kubelet tells.

The backend runs in a thread with an event loop of its own, so that what a test does in between is followed meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from scheduler_service.backends.kubernetes.access import Access
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.cluster import KubernetesCluster, Options
from scheduler_service.ledger.events import Event
from scheduler_service.model.gpu import GpuShare
from scheduler_service.model.plan import Statement
from scheduler_service.ports import Accepted, Refused
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.player import HOLD

KAI = "/apis/scheduling.run.ai"
MEMORY_MIB = 24_500
FAIL_SAFE_S = 60


class Apart:
    """A `ports.Backend` whose cluster lives in another thread; before each look it has seen all that was done."""

    name = "kubernetes"

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.client: KubeClient | None = None
        self.cluster: KubernetesCluster | None = None

    def call(self, story: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(story, self._loop).result(FAIL_SAFE_S)

    async def _start(self) -> None:
        self.client = await KubeClient(Access.load(self._kubeconfig)).__aenter__()
        options = Options(worker=False)
        self.cluster = KubernetesCluster(self.client, clock=lambda: 0, options=options)
        await self.cluster.start()

    @property
    def live(self) -> KubernetesCluster:
        assert self.cluster is not None
        return self.cluster

    async def start(self) -> None:
        self.call(self._start())

    def observed(self) -> Sequence[Event]:
        async def look() -> Sequence[Event]:
            return self.live.observed()

        found: Sequence[Event] = self.call(look())
        return found

    async def wait_observed(self, timeout_s: float) -> bool:
        return bool(self.call(self.live.wait_observed(timeout_s)))

    async def apply(self, statement: Statement, now: int) -> Accepted | Refused:
        answer: Accepted | Refused = self.call(self.live.apply(statement, now))
        return answer

    async def stop(self) -> None:
        self.close()

    def close(self) -> None:
        if self.cluster is None:
            return
        cluster, self.cluster = self.cluster, None

        async def end() -> None:
            await cluster.stop()
            assert self.client is not None
            await self.client.__aexit__(None, None, None)
            # Connections that were just being made are closed by the loop itself, in its next turns.
            await asyncio.sleep(0.2)

        self.call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(FAIL_SAFE_S)
        self._loop.close()

    def sees(self, is_so: Callable[[KubernetesCluster], bool]) -> None:
        """Wait until what the backend follows shows it; before it was started there is nothing to wait for."""
        if self.cluster is None:
            return
        end = time.monotonic() + FAIL_SAFE_S
        while not is_so(self.cluster):
            assert time.monotonic() < end, "the backend did not see it"
            time.sleep(0.01)


class KubernetesWorld:
    """One node with two GPUs that pods share; each group's pods ask for a whole GPU as a share."""

    node = "contract"

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster_, self.admin, self.namespace = cluster, cluster.admin, namespace
        self.backend: Any = Apart(cluster.access("kai-scheduler").kubeconfig)
        self._all: list[KubernetesWorld] = [self]

    def close(self) -> None:
        for world in self._all:
            world.backend.close()

    def again(self) -> KubernetesWorld:
        fresh = KubernetesWorld(self.cluster_, self.namespace)
        self._all.append(fresh)
        return fresh

    def ask(self, name: str, *, workers: int = 1) -> None:
        group = {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"queue": "default-queue", "minMember": workers},
        }
        self.admin.create(group)
        for rank in range(workers):
            self._pod(f"{name}-{rank}", name)
        keys = [self.pod(name, rank) for rank in range(workers)]
        self.backend.sees(
            lambda seen: (
                f"{self.namespace}/{name}" in seen.stores.groups
                and all(key in seen.stores.pods for key in keys)
            )
        )

    def _pod(self, name: str, group: str) -> None:
        notes = {"pod-group-name": group, "gpu-fraction": "1", HOLD: "end"}
        container = {"name": "c", "image": "example.local/box:test"}
        self.admin.post(
            f"/api/v1/namespaces/{self.namespace}/pods",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "annotations": notes},
                "spec": {
                    "schedulerName": "kai-scheduler",
                    "containers": [container],
                    "terminationGracePeriodSeconds": 600,
                },
            },
        )

    def share(self, number: int) -> GpuShare:
        return GpuShare(str(uuid.uuid5(uuid.NAMESPACE_DNS, f"gpu-{number}")), 1000, MEMORY_MIB)

    def pod(self, name: str, rank: int = 0) -> str:
        return f"{self.namespace}/{name}-{rank}"

    def starts(self, name: str, rank: int = 0) -> None:
        """Bind as the binder does, and report as a kubelet."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}-{rank}"
        request = self.admin.get(
            f"{KAI}/v1alpha2/namespaces/{self.namespace}/bindrequests/{name}-{rank}"
        )
        (group,) = request["spec"]["selectedGPUGroups"]
        self.admin.patch(path, {"metadata": {"labels": {"runai-gpu-group": group}}})
        pod = self.admin.get(path)
        self.admin.post(
            f"{path}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": f"{name}-{rank}", "uid": pod["metadata"]["uid"]},
                "target": {"kind": "Node", "name": self.node},
            },
        )
        self.admin.patch(f"{path}/status", {"status": {"phase": "Running"}})
        key = self.pod(name, rank)
        self.backend.sees(lambda seen: seen.stores.pods[key].status.phase == "Running")

    def ends(self, name: str, rank: int = 0) -> None:
        """Let a pod vanish, as one that ended and was cleared away."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}-{rank}"
        if self.admin.find(path) is not None:
            self.admin.delete(path, grace_s=0)
        self.admin.wait_until_gone(path)
        key = self.pod(name, rank)
        self.backend.sees(lambda seen: key not in seen.stores.pods)
