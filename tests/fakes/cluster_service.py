"""The door of a cluster whose objects a test puts there itself: no API server, no clock, no thread.

Another scheduler decides in it (`--no-decide`), so nothing is ever written.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.cluster import Options
from scheduler_service.planning.cycle import plan
from scheduler_service.service.cluster_core import ClusterParts
from scheduler_service.service.cluster_door import ClusterService
from scheduler_service.service.in_cluster import InCluster, Manner
from scheduler_service.service.rights import Rights
from scheduler_service.settings.table import Settings
from tests.fakes.kube_server import Answer, KubeServer, client_of, kube_server
from tests.unit.kubernetes.objects import group, node, pod, queue

NOON = 1_767_600_000_000
"""2026-01-05T08:00:00Z, when `tests.unit.kubernetes.objects` are made."""
ONLY_LOOKS = Manner(decides=False)
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class ClusterStage:
    """The door, and shorthands for what happens in its cluster."""

    def __init__(self, server: KubeServer, client: KubeClient, manner: Manner = ONLY_LOOKS) -> None:
        self.server = server
        self.now = NOON
        self.allowed: set[tuple[str, str, str]] = set()
        """(user, verb, resource) that the API server would allow in every namespace."""
        server.judge = self._judge
        scheduler = InCluster(
            client,
            options=Options(worker=False),
            planner=plan,
            manner=manner,
            clock=lambda: self.now,
        )
        self.cluster = scheduler.cluster
        self.loop = scheduler.loop
        stores = self.cluster.stores
        rights = Rights(client, queues=lambda: stores.queues, namespaces=lambda: ["a"])
        parts = ClusterParts(
            scheduler=scheduler,
            rights=rights,
            planner=plan,
            settings=Settings(),
            clock=lambda: self.now,
        )
        self.service = ClusterService(parts)
        self._versions = itertools.count(1)
        self.answers: dict[str, Answer] = {}

    def _judge(self, seen: Any) -> Answer | None:
        if seen.path == ACCESS:
            spec = json.loads(seen.body)["spec"]
            deed = spec["resourceAttributes"]
            mark = (spec["user"], deed["verb"], deed["resource"])
            return Answer({"status": {"allowed": mark in self.allowed}}, 201)
        return self.answers.get(f"{seen.method} {seen.path}", Answer({}, 200))

    def put(self, kind: str, value: dict[str, Any]) -> None:
        """Have an object be there, or be another than it was."""
        value["metadata"]["resourceVersion"] = str(next(self._versions))
        self.cluster.reflectors[kind].observe(json.dumps(value).encode())

    def drop(self, kind: str, key: str) -> None:
        """Have an object be gone."""
        self.cluster.reflectors[kind]._drop(key)

    async def turn(self) -> None:
        """Let the scheduler see what is there."""
        await self.loop.turn()

    async def furnish(self, *, gpus: int = 8) -> ClusterStage:
        """Put a queue and a node there."""
        self.put("queues", queue())
        self.put("nodes", node(gpus=gpus))
        await self.turn()
        return self

    async def ask(self, name: str, *, gpus: int = 1, pods: int = 1, **parts: Any) -> None:
        """Put a group of pods there that wait."""
        annotations = parts.pop("annotations", {})
        self.put("groups", group(name, minMember=pods, annotations=annotations, **parts))
        for number in range(pods):
            self.put("pods", waiting_pod(name, number, gpus))
        await self.turn()

    async def start(self, name: str, *, gpus: int = 1, pods: int = 1, **more: Any) -> None:
        """Have the pods of a group run."""
        for number in range(pods):
            self.put("pods", running_pod(name, number, gpus, **more))
        await self.turn()


def waiting_pod(name: str, number: int, gpus: int, **more: Any) -> dict[str, Any]:
    asked = {"nvidia.com/gpu": str(gpus), "cpu": "1"}
    return pod(f"{name}-{number}", group=name, requests=asked, **more)


def running_pod(name: str, number: int, gpus: int, **more: Any) -> dict[str, Any]:
    at = "2026-01-05T08:05:00Z"
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    status = {"startTime": at, "conditions": [placed], **more.pop("status", {})}
    fields = {"node": "n", "phase": "Running", "status": status, **more}
    return waiting_pod(name, number, gpus, **fields)


@asynccontextmanager
async def cluster_stage(
    *, gpus: int = 8, manner: Manner = ONLY_LOOKS
) -> AsyncIterator[ClusterStage]:
    """Give a furnished stage."""
    async with kube_server() as server, client_of(server) as client:
        yield await ClusterStage(server, client, manner).furnish(gpus=gpus)


def names(views: Sequence[Any]) -> list[str]:
    """Return the names of groups."""
    return [view.name for view in views]
