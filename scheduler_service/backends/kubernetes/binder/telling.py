"""What the binder says of a try: on the pod (condition, event), and last on the request.

So a request is settled only when all is said, and a crash in between says it again.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.binder.records import Request
from scheduler_service.backends.kubernetes.binder.rules import status_after
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.encode.bound import bound_condition, bound_event
from scheduler_service.backends.kubernetes.errors import Conflict, Forbidden, Invalid, NotFound


def _now() -> str:
    return (
        datetime.datetime.now(datetime.UTC)
        .isoformat(timespec="microseconds")
        .replace("+00:00", "Z")
    )


class Teller:
    """Writes how a try went. What is gone meanwhile needs no word."""

    def __init__(
        self,
        client: KubeClient,
        observe_request: Callable[[bytes], None],
        now: Callable[[], str] = _now,
    ) -> None:
        self._client = client
        self._observe_request = observe_request
        self._now = now

    async def tell(self, request: Request, uid: str, failure: str) -> None:
        """Say how a try went; `failure` is empty for a success."""
        now = self._now()
        path = names.PODS.path(request.namespace, request.pod_name, "status")
        with contextlib.suppress(NotFound, Conflict):
            await self._client.patch(path, bound_condition(uid, failure, now), "strategic")
        await self._event(bound_event(request.pod, uid, request.node, failure, now))
        await self._settle(request, failure)

    async def warn(self, user: tuple[str, str], node: str, text: str) -> None:
        """Say something on a pod (UID, key) that has its device already."""
        uid, key = user
        await self._event(bound_event(key, uid, node, text, self._now()))

    async def withdraw(self, request: Request) -> None:
        """Delete a request that can not be carried out by anybody."""
        body = {"preconditions": {"uid": request.uid}}
        path = names.BIND_REQUESTS.path(request.namespace, request.name)
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(path, body)

    async def _event(self, body: dict[str, object]) -> None:
        meta = body["metadata"]
        namespace = meta["namespace"] if isinstance(meta, dict) else ""
        with contextlib.suppress(NotFound, Conflict, Forbidden, Invalid):
            await self._client.post(names.EVENTS.path(namespace), body)

    async def _settle(self, request: Request, failure: str) -> None:
        status = status_after(request, failure)
        path = names.BIND_REQUESTS.path(request.namespace, request.name, "status")
        with contextlib.suppress(NotFound, Conflict):
            body = {"metadata": {"uid": request.uid}, "status": status}
            self._observe_request(await self._client.patch(path, body))
