"""Keeps pods that stand for waiting shares, so that an autoscaler adds the GPUs that are missing.

Rules: 1. Only shares that lack a device count: what a queue's limit or quota holds back needs no node. 2. A pod that
stands for shares goes when it ran (its node is there), or when its origin waits no more. 3. After a node came nothing
is asked for anew for a while: the planner has to see it first. Whole GPUs need none of this: their own pods are told
to be unschedulable.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.bind_worker import Writes
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.controllers import scale_rules as rules
from scheduler_service.backends.kubernetes.controllers.recorder import now_text
from scheduler_service.backends.kubernetes.controllers.work import Work
from scheduler_service.backends.kubernetes.decode import nodes as of_nodes
from scheduler_service.backends.kubernetes.decode.pods import group_key
from scheduler_service.backends.kubernetes.decode.stores import Scope, Stores
from scheduler_service.backends.kubernetes.encode.condition import unschedulable
from scheduler_service.backends.kubernetes.encode.scaling_pod import scaling_name, scaling_pod
from scheduler_service.backends.kubernetes.errors import Conflict, KubeError, NotFound
from scheduler_service.backends.kubernetes.objects import RawPod, decode_pod

log = logging.getLogger("kai.scale_up")
SOON_S = 1.0
COOL_DOWN_S = 60.0
MOST_STANDING = 100
"""So many GPUs are asked for at a time."""
_ALL = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What stands for shares: by which image, for whose pods, and which groups need no node but another queue."""

    image: str
    scope: Callable[[], Scope]
    is_held_by_queue: Callable[[str], bool]


class ScaleUp:
    """`pod_changed` tells it when to look; `run` makes and removes pods in the namespace for them."""

    def __init__(
        self,
        client: KubeClient,
        writes: Writes,
        stores: Stores,
        terms: Terms,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._writes = writes
        self._stores = stores
        self._terms = terms
        self._clock = clock
        self._waiting: set[str] = set()
        self._standing: set[str] = set()
        self._cool_until = 0.0
        self.work = Work(self._look, workers=1)

    def pod_changed(self, old: RawPod | None, new: RawPod | None) -> None:
        """Take note of a share that waits, or of a pod that stands for some."""
        either = new or old
        if either is None:
            return
        key = either.key
        if either.metadata.namespace == names.SCALE_ADJUST_NAMESPACE:
            (self._standing.add if new is not None else self._standing.discard)(key)
            self.work.mark(_ALL, SOON_S)
            return
        waits = new is not None and rules.is_candidate(new, self._terms.scope().scheduler_names)
        if waits != (key in self._waiting):
            (self._waiting.add if waits else self._waiting.discard)(key)
            self.work.mark(_ALL, SOON_S)

    async def run(self) -> None:
        """Work for ever; end it by cancelling the task."""
        await self.work.run()

    async def _look(self, _key: str) -> bool:
        try:
            await self._adjust()
        except KubeError as error:
            log.warning("what stands for waiting shares could not be adjusted: %s", error)
            return False
        return True

    async def _adjust(self) -> None:
        candidates = self._candidates()
        origins = {scaling_name(pod) for pod in candidates}
        standing = [pod for key in sorted(self._standing) if (pod := self._stores.pods.get(key))]
        kept = []
        for pod in standing:
            if pod.is_over:
                self._cool_until = self._clock() + COOL_DOWN_S
            if pod.is_over or pod.metadata.name not in origins:
                await self._remove(pod)
            else:
                kept.append(pod)
        left = self._cool_until - self._clock()
        if left > 0:
            self.work.mark(_ALL, left)
            return
        taken = {pod.metadata.name for pod in standing}
        wanted = rules.missing(rules.bins_of(candidates, self._largest_memory()), kept)
        for each in wanted[: max(0, MOST_STANDING - len(kept))]:
            await self._make(each, taken)

    def _candidates(self) -> list[RawPod]:
        pods = (self._stores.pods.get(key) for key in sorted(self._waiting))
        return [
            pod
            for pod in pods
            if pod is not None and not self._terms.is_held_by_queue(group_key(pod))
        ]

    def _largest_memory(self) -> int | None:
        known = (
            of_nodes.gpu_memory_mib(raw.metadata.labels) for raw in self._stores.nodes.values()
        )
        return max((mib for mib in known if mib), default=None)

    async def _make(self, wanted: rules.Bin, taken: set[str]) -> None:
        origin = next((pod for pod in wanted.origins if scaling_name(pod) not in taken), None)
        if origin is None:
            return
        taken.add(scaling_name(origin))
        body = scaling_pod(
            origin, self._terms.image, devices=wanted.devices, amounts=wanted.amounts
        )
        path = names.PODS.path(names.SCALE_ADJUST_NAMESPACE)
        try:
            made = decode_pod(await self._writes.post(path, body, want_body=True))
        except Conflict:
            return
        text = f"Stands for {len(wanted.origins)} pods that wait for a part of a GPU."
        status = names.PODS.path(names.SCALE_ADJUST_NAMESPACE, made.metadata.name, "status")
        try:
            await self._client.patch(status, unschedulable(made, text, now_text()), "strategic")
        except (Conflict, NotFound):
            return  # its scheduler was quicker

    async def _remove(self, pod: RawPod) -> None:
        try:
            await self._writes.delete(
                names.PODS.path(pod.metadata.namespace, pod.metadata.name),
                {"preconditions": {"uid": pod.metadata.uid}},
            )
        except (NotFound, Conflict):
            return
