"""The binder: follows requests, pods, nodes and reservations, and brings every request to an end.

Rules: 1. State lives in the API alone: after a kill at any point the requests that are not settled are looked at anew,
and every step can be made twice. 2. One worker at a time for each request and for each shared device. 3. What failed
because the API was away is tried again and counts as no try.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Literal

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.binder.carry import Carrier
from scheduler_service.backends.kubernetes.binder.failures import BindFailed, Stale
from scheduler_service.backends.kubernetes.binder.metrics import Metrics
from scheduler_service.backends.kubernetes.binder.options import BinderOptions
from scheduler_service.backends.kubernetes.binder.pods import PodView, pod_of
from scheduler_service.backends.kubernetes.binder.records import Request
from scheduler_service.backends.kubernetes.binder.rules import (
    Leave,
    Settle,
    Withdraw,
    retry_after_s,
    verdict,
)
from scheduler_service.backends.kubernetes.binder.telling import Teller
from scheduler_service.backends.kubernetes.binder.work_queue import WorkQueue, delay_s
from scheduler_service.backends.kubernetes.binder.world import World
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import KubeError, NotFound

log = logging.getLogger("kai.binder")
Key = tuple[Literal["bind", "tell", "group", "claim"], str]
BUSY_S = 1.0


class Binder:
    """Carries out bind requests until it is cancelled."""

    def __init__(
        self, client: KubeClient, options: BinderOptions, metrics: Metrics | None = None
    ) -> None:
        self._client = client
        self._queue: WorkQueue[Key] = WorkQueue()
        self._metrics = metrics or Metrics()
        self.world = World(client, options, self)
        self._teller = Teller(client, self.world.requests.observe)
        self._carrier: Carrier = self.world.carrier()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._withdrawn: dict[str, Request] = {}
        self._doubted: set[str] = set()
        self._bound: dict[str, tuple[Request, str]] = {}
        """What is bound and not said yet, with the pod's UID: pods first, words when there is time."""

    @property
    def is_ready(self) -> bool:
        """Whether it has seen the cluster and works."""
        return self.world.is_synced

    async def run(self) -> None:
        """Work until cancelled."""
        followed = await self.world.open()
        async with asyncio.TaskGroup() as tasks:
            for each in followed:
                tasks.create_task(each.run())
            await self.world.synced()
            self._begin()
            for _ in range(self.world.options().workers):
                tasks.create_task(self._worker())

    def _begin(self) -> None:
        """Ask for a look at everything that may be half done."""
        for request in self.world.requests.items.values():
            if not request.is_settled or request.pod not in self.world.pods.items:
                self._ask(request)
        for group in self.world.book.groups():
            self._queue.add(("group", group))
        for claim, _ in self.world.forgotten():
            self._queue.add(("claim", claim))

    # -- what is seen (world.Listener) ---------------------------------------------------------------
    def request_changed(self, old: Request | None, new: Request | None) -> None:
        """Look at a new decision; take back what a withdrawn one had begun."""
        if old is not None and (new is None or new.uid != old.uid) and not old.is_settled:
            self._withdrawn[old.key] = old
            task = self._running.get(old.key)
            if task is not None:
                task.cancel()
            self._queue.add(("bind", old.key))
        if new is not None and not new.is_settled and (old is None or not _is_same(old, new)):
            self._ask(new)

    def pod_gone(self, key: str) -> None:
        """Look at the requests of a pod that is gone."""
        for request in self.world.requests_of(key):
            self._queue.add(("bind", request))

    def groups_changed(self, groups: set[str]) -> None:
        """Look whether devices are still used, or no longer protected."""
        for group in groups:
            self._queue.add(("group", group))

    def _ask(self, request: Request) -> None:
        if request.phase == names.PHASE_FAILED and not request.is_settled:
            wait = delay_s(request.failed_attempts, first_s=2.0)
            self._queue.add_after(("bind", request.key), wait)
        else:
            self._queue.add(("bind", request.key))

    # -- the work --------------------------------------------------------------------------------------
    async def _worker(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._handle(key)
            except (Stale, BindFailed, KubeError) as error:
                wait = self._queue.retry(key)
                log.info("%s %s: again in %.1f s: %s", *key, wait, error)
            except Exception:
                log.exception("%s %s: an error of ours; it is tried again", *key)
                self._queue.retry(key)
            else:
                self._queue.forget(key)
                self._queue.done(key)

    def _handle(self, key: Key) -> Coroutine[Any, Any, None]:
        kind, name = key
        ways = {
            "bind": self._request,
            "tell": self._tell,
            "group": self._group,
            "claim": self._claim,
        }
        return ways[kind](name)

    async def _tell(self, key: str) -> None:
        """Say that a pod is bound; then look whether another decision came under the same name."""
        if key not in self._bound:
            return
        request, uid = self._bound[key]
        await self._teller.tell(request, uid, "")
        del self._bound[key]
        now = self.world.requests.items.get(key)
        if now is not None and now.uid != request.uid:
            self._queue.add(("bind", key))

    async def _claim(self, key: str) -> None:
        """Free a device claim from pods that wait without a decision."""
        namespace, _, name = key.partition("/")
        for claim, uid in list(self.world.forgotten()):
            if claim == key:
                await self.world.claims.release(namespace, name, uid)

    async def _request(self, key: str) -> None:
        """Bring one request a step further."""
        withdrawn = self._withdrawn.get(key)
        if withdrawn is not None:
            await self._undo(withdrawn)
            self._withdrawn.pop(key, None)
        request = self.world.requests.items.get(key)
        if request is None or key in self._bound:
            return
        pod = await self._pod(request)
        found = verdict(request, pod)
        if isinstance(found, Leave) or pod is None:
            if isinstance(found, Withdraw):
                await self._teller.withdraw(request)
        elif isinstance(found, Withdraw):
            await self._teller.withdraw(request)
        elif isinstance(found, Settle):
            await self._settle(request, pod, found.reason)
        else:
            await self._bind(request, pod)

    async def _pod(self, request: Request) -> PodView | None:
        """Return the pod as it is known; asks the API where it is not known, or was found changed."""
        known = self.world.pods.items.get(request.pod)
        is_other = known is not None and request.pod_uid not in {"", known.uid}
        if known is not None and not is_other and request.key not in self._doubted:
            return known
        path = names.PODS.path(request.namespace, request.pod_name)
        try:
            found = pod_of(await self._client.get(path))
        except NotFound:
            return None
        finally:
            self._doubted.discard(request.key)
        return found

    async def _settle(self, request: Request, pod: PodView, reason: str) -> None:
        if reason and (request.phase, request.reason) == (names.PHASE_FAILED, reason):
            return
        await self._teller.tell(request, pod.uid, reason)
        self._metrics.tried("failed" if reason else "bound")

    async def _bind(self, request: Request, pod: PodView) -> None:
        task = asyncio.ensure_future(self._carrier.bind(request, pod))
        self._running[request.key] = task
        failure = ""
        try:
            with self._metrics.timed():
                await task
        except BindFailed as error:
            failure = str(error)
        except (Stale, KubeError):
            self._doubted.add(request.key)
            raise
        except asyncio.CancelledError:
            if request.key not in self._withdrawn:
                raise
            raise Stale("The decision was withdrawn.") from None
        finally:
            self._running.pop(request.key, None)
            if not task.done():
                task.cancel()
        if failure:
            await self._failed(request, pod, failure)
        else:
            self._metrics.tried("bound")
            self._bound[request.key] = (request, pod.uid)
            self._queue.add_when_idle(("tell", request.key))

    async def _failed(self, request: Request, pod: PodView, failure: str) -> None:
        """Take back, then say why, then try again if the request allows it."""
        await self._undo(request)
        await self._teller.tell(request, pod.uid, failure)
        self._metrics.tried("failed")
        wait = retry_after_s(request)
        if wait is not None:
            self._queue.add_after(("bind", request.key), wait)

    async def _undo(self, request: Request) -> None:
        """Take back what was made ready, then let unused devices go."""
        self.world.room.give_up(request.pod)
        await self._carrier.undo(request)
        self.groups_changed(set(request.groups))

    async def _group(self, group: str) -> None:
        if self.world.reservations_of.is_busy(group):
            self._queue.add_after(("group", group), BUSY_S)
            return
        try:
            await self.world.reservations_of.tend(group)
        except BindFailed as error:
            for pod in self.world.book.running(group):
                await self._teller.warn((pod.uid, pod.key), pod.node, str(error))
            raise


def _is_same(old: Request, new: Request) -> bool:
    """Whether both are the same decision, so that only its status moved."""
    spec = ("uid", "pod", "node", "pod_uid", "received", "groups", "portion", "backoff_limit")
    return all(getattr(old, name) == getattr(new, name) for name in spec)
