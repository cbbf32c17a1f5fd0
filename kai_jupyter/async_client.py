"""The asynchronous client of the service, for servers and provisioners. See `client` for the blocking one."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from kai_jupyter import calls
from kai_jupyter.errors import ServiceUnreachable
from kai_jupyter.finding import Endpoint, find_service
from kai_jupyter.own_runner import ensure_runner
from kai_jupyter.sse import EventReader
from kai_jupyter.transport import (
    FOLLOW_WAIT_S,
    ResultBody,
    checked,
    options,
    result_of,
    stream_request,
    timeout,
    unreachable,
)
from scheduler_service.wire.cluster import CallerView, CycleView, Health, NodeView, QueueView
from scheduler_service.wire.codec import decode
from scheduler_service.wire.events import StreamEvent
from scheduler_service.wire.explain import ExplainView, ForecastView
from scheduler_service.wire.pod_group import (
    Cancel,
    Extend,
    Move,
    PayloadStored,
    PodGroupList,
    PodGroupView,
    Submit,
)
from scheduler_service.wire.runner import LogLine, LogPage

T = TypeVar("T")


class AsyncKaiClient:
    """The service, asynchronous. The endpoint is looked for at the first request, in a thread."""

    def __init__(self, endpoint: Endpoint | None = None, *, start: bool = True) -> None:
        self._is_pinned = endpoint is not None
        self._start = start
        self._endpoint = endpoint
        self._http: httpx.AsyncClient | None = None
        self._finding = asyncio.Lock()

    @property
    def endpoint(self) -> Endpoint | None:
        """Where the service was found; None before the first request."""
        return self._endpoint

    async def connect(self) -> httpx.AsyncClient:
        """Return the HTTP client, the service having been found (or started)."""
        async with self._finding:
            if self._endpoint is None:
                self._endpoint = await asyncio.to_thread(find_service, start=self._start)
            if self._http is None:
                socket = self._endpoint.socket
                transport = httpx.AsyncHTTPTransport(uds=socket) if socket else None
                self._http = httpx.AsyncClient(transport=transport, **options(self._endpoint))
            return self._http

    async def forget(self) -> None:
        """Drop the connections, so that the next request looks for the service anew."""
        http, self._http = self._http, None
        if not self._is_pinned:
            self._endpoint = None
        if http is not None:
            await http.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self.forget()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _lost(self, error: httpx.TransportError) -> ServiceUnreachable:
        return unreachable(self._endpoint or Endpoint(url="nowhere"), error)

    async def raw(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Return the answer as it is, good or bad; raises `ServiceUnreachable` when there is none."""
        http = await self.connect()
        try:
            return await http.request(method, path, **more)
        except httpx.ConnectError as error:
            if self._is_pinned:
                raise self._lost(error) from error
        except httpx.TransportError as error:
            raise self._lost(error) from error
        await self.forget()
        http = await self.connect()
        try:
            return await http.request(method, path, **more)
        except httpx.TransportError as error:
            raise self._lost(error) from error

    async def send(self, call: calls.Call[T]) -> T:
        """Return the answer to `call`, as wire types."""
        answer = await self.raw(
            call.method,
            call.path,
            params=call.params,
            json=call.json,
            headers=call.headers,
            timeout=timeout(call.patience_s),
        )
        return call.read(checked(answer).json())

    async def submit(self, ask: Submit, *, idempotency_key: str | None = None) -> PodGroupView:
        """Ask for devices. The same key again returns the first group again."""
        await self.ensure_runner()
        return await self.send(calls.submit(ask, idempotency_key or uuid.uuid4().hex))

    async def ensure_runner(self) -> None:
        """See to it that this person's runner is there, where the service is the machine's shared one."""
        await self.connect()
        if self._endpoint is not None and self._endpoint.socket:
            await asyncio.to_thread(ensure_runner, self._endpoint)

    async def groups(
        self, *, queue: str | None = None, state: str | None = None, mine: bool = False
    ) -> PodGroupList:
        """Return the groups that the caller may see."""
        return await self.send(calls.groups(queue=queue, state=state, mine=mine))

    async def group(self, namespace: str, name: str) -> PodGroupView:
        """Return one group."""
        return await self.send(calls.group(namespace, name))

    async def extend(self, namespace: str, name: str, *, by_s: int | None = None) -> PodGroupView:
        """Lengthen a lease by `by_s`; None keeps it until it is released."""
        return await self.send(calls.extend(namespace, name, Extend(by_s=by_s)))

    async def cancel(
        self, namespace: str, name: str, *, grace_s: int | None = None, reason: str = ""
    ) -> PodGroupView:
        """End or withdraw a group."""
        return await self.send(
            calls.cancel(namespace, name, Cancel(grace_s=grace_s, reason=reason))
        )

    async def move(self, namespace: str, name: str, ask: Move) -> PodGroupView:
        """Carry a lease over to the restarted kernel's process."""
        return await self.send(calls.move(namespace, name, ask))

    async def logs(
        self,
        namespace: str,
        name: str,
        *,
        rank: int | None = None,
        after: int = 0,
        tail: int | None = None,
        wait_s: float = 0,
    ) -> LogPage:
        """Return a page of a group's output."""
        call = calls.logs(namespace, name, rank=rank, after=after, tail=tail, wait_s=wait_s)
        return await self.send(call)

    async def follow_logs(
        self, namespace: str, name: str, *, rank: int | None = None, after: int = 0
    ) -> AsyncIterator[LogLine]:
        """Yield lines as they come, until the group has ended and all were read."""
        while True:
            page = await self.logs(namespace, name, rank=rank, after=after, wait_s=FOLLOW_WAIT_S)
            for line in page.lines:
                yield line
            after = page.next
            if page.ended and not page.lines:
                return

    async def explain(self, namespace: str, name: str) -> ExplainView:
        """Return why a group stands as it does."""
        return await self.send(calls.explain(namespace, name))

    async def forecast(self, **ask: object) -> ForecastView:
        """Return what a request would get if it were made now (fields of the forecast route)."""
        return await self.send(calls.forecast(**ask))

    async def queues(self) -> tuple[QueueView, ...]:
        """Return the queues, parents before children."""
        return await self.send(calls.queues())

    async def nodes(self) -> tuple[NodeView, ...]:
        """Return the nodes and their devices."""
        return await self.send(calls.nodes())

    async def cycles(self, *, last: int = 20) -> tuple[CycleView, ...]:
        """Return the last planning cycles."""
        return await self.send(calls.cycles(last))

    async def snapshot(self, *, cycle: int | None = None) -> dict[str, Any]:
        """Return the ledger as a snapshot file's content, or one of the last cycles as a capture's."""
        return await self.send(calls.snapshot(cycle))

    async def health(self) -> Health:
        """Return whether the service lives and is ready."""
        return await self.send(calls.health())

    async def me(self) -> CallerView:
        """Return who the service takes the caller for."""
        return await self.send(calls.me())

    async def upload_payload(self, payload: bytes | AsyncIterator[bytes]) -> PayloadStored:
        """Store a payload; the answer has its digest for `Work`."""
        answer = await self.raw(
            "POST",
            f"{calls.API}/payloads",
            content=payload,
            headers={"Content-Type": "application/octet-stream"},
            timeout=timeout(300.0),
        )
        return calls.payload_stored()(checked(answer).json())

    async def result(
        self, namespace: str, name: str, *, rank: int = 0, cell: str | None = None
    ) -> ResultBody:
        """Return the bytes and signature of a worker's values, or of a cell's. Verify before you unpickle."""
        path = calls.result_path(namespace, name, cell)
        answer = await self.raw("GET", path, params={"rank": str(rank)}, timeout=timeout(300.0))
        return result_of(checked(answer).headers, answer.content)

    @asynccontextmanager
    async def _lines(self, request: dict[str, Any]) -> AsyncIterator[AsyncIterator[str]]:
        http = await self.connect()
        try:
            async with http.stream(**request) as answer:
                if not answer.is_success:
                    await answer.aread()
                checked(answer)
                yield answer.aiter_lines()
        except httpx.TransportError as error:
            raise self._lost(error) from error

    async def events_json(self, *, since: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages of `events` as they travel, for those who pass them on."""
        async for message in self._messages(stream_request(since)):
            yield message

    async def team_pages(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the page of a lead as it travels, and again whenever it reads differently."""
        request = {**stream_request(None), "url": f"{calls.API}/team/events"}
        async for message in self._messages(request):
            yield message

    async def _messages(self, request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        reader = EventReader()
        async with self._lines(request) as lines:
            async for line in lines:
                event = reader.feed(line)
                if event is not None:
                    yield json.loads(event.data)

    async def events(self, *, since: int | None = None) -> AsyncIterator[StreamEvent]:
        """Yield a snapshot (or the updates after `since`), then updates as they come."""
        async for message in self.events_json(since=since):
            yield decode(StreamEvent, message)
