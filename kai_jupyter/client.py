"""The one client of the service: `KaiClient` (blocking) and `AsyncKaiClient`, same methods, same words.

Used by magics, server extension, provisioner, doctor and the command line. A client that was given no endpoint finds
the service again when it moved (it was restarted), because a request that could not connect was not made.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from kai_jupyter import calls
from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.errors import KaiRequestError, ServiceUnreachable
from kai_jupyter.finding import Endpoint, find_service, signing_key
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

__all__ = [
    "AsyncKaiClient",
    "Endpoint",
    "KaiClient",
    "KaiRequestError",
    "ResultBody",
    "ServiceUnreachable",
    "find_service",
    "signing_key",
]

T = TypeVar("T")


class KaiClient:
    """The service, blocking. `KaiClient()` finds (or starts) it; `KaiClient(endpoint)` speaks to that one only."""

    def __init__(self, endpoint: Endpoint | None = None, *, start: bool = True) -> None:
        self._is_pinned = endpoint is not None
        self._start = start
        self._endpoint = endpoint or find_service(start=start)
        self._http = self._opened(self._endpoint)

    @staticmethod
    def _opened(endpoint: Endpoint) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=endpoint.socket) if endpoint.socket else None
        return httpx.Client(transport=transport, **options(endpoint))

    @property
    def endpoint(self) -> Endpoint:
        """Where the service was found."""
        return self._endpoint

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _find_again(self, error: httpx.TransportError) -> None:
        """Look for the service where it is now; raises `ServiceUnreachable` when it is nowhere else."""
        if self._is_pinned:
            raise unreachable(self._endpoint, error) from error
        found = find_service(start=self._start)
        self._http.close()
        self._endpoint = found
        self._http = self._opened(found)

    def _request(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            try:
                return checked(self._http.request(method, path, **more))
            except (httpx.ConnectError, httpx.RemoteProtocolError) as error:
                if isinstance(error, httpx.RemoteProtocolError) and method != "GET":
                    raise
                self._find_again(error)
                return checked(self._http.request(method, path, **more))
        except httpx.TransportError as error:
            raise unreachable(self._endpoint, error) from error

    def send(self, call: calls.Call[T]) -> T:
        """Return the answer to `call`, as wire types."""
        answer = self._request(
            call.method,
            call.path,
            params=call.params,
            json=call.json,
            headers=call.headers,
            timeout=timeout(call.patience_s),
        )
        return call.read(answer.json())

    def submit(self, ask: Submit, *, idempotency_key: str | None = None) -> PodGroupView:
        """Ask for devices. The same key again returns the first group again."""
        ensure_runner(self._endpoint)
        return self.send(calls.submit(ask, idempotency_key or uuid.uuid4().hex))

    def groups(
        self, *, queue: str | None = None, state: str | None = None, mine: bool = False
    ) -> PodGroupList:
        """Return the groups that the caller may see."""
        return self.send(calls.groups(queue=queue, state=state, mine=mine))

    def group(self, namespace: str, name: str) -> PodGroupView:
        """Return one group."""
        return self.send(calls.group(namespace, name))

    def extend(self, namespace: str, name: str, *, by_s: int | None = None) -> PodGroupView:
        """Lengthen a lease by `by_s`; None keeps it until it is released."""
        return self.send(calls.extend(namespace, name, Extend(by_s=by_s)))

    def cancel(
        self, namespace: str, name: str, *, grace_s: int | None = None, reason: str = ""
    ) -> PodGroupView:
        """End or withdraw a group."""
        return self.send(calls.cancel(namespace, name, Cancel(grace_s=grace_s, reason=reason)))

    def move(self, namespace: str, name: str, ask: Move) -> PodGroupView:
        """Carry a lease over to the restarted kernel's process."""
        return self.send(calls.move(namespace, name, ask))

    def logs(
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
        return self.send(call)

    def follow_logs(
        self, namespace: str, name: str, *, rank: int | None = None, after: int = 0
    ) -> Iterator[LogLine]:
        """Yield lines as they come, until the group has ended and all were read."""
        while True:
            page = self.logs(namespace, name, rank=rank, after=after, wait_s=FOLLOW_WAIT_S)
            yield from page.lines
            after = page.next
            if page.ended and not page.lines:
                return

    def explain(self, namespace: str, name: str) -> ExplainView:
        """Return why a group stands as it does."""
        return self.send(calls.explain(namespace, name))

    def forecast(self, **ask: object) -> ForecastView:
        """Return what a request would get if it were made now (fields of the forecast route)."""
        return self.send(calls.forecast(**ask))

    def queues(self) -> tuple[QueueView, ...]:
        """Return the queues, parents before children."""
        return self.send(calls.queues())

    def nodes(self) -> tuple[NodeView, ...]:
        """Return the nodes and their devices."""
        return self.send(calls.nodes())

    def cycles(self, *, last: int = 20) -> tuple[CycleView, ...]:
        """Return the last planning cycles."""
        return self.send(calls.cycles(last))

    def snapshot(self, *, cycle: int | None = None) -> dict[str, Any]:
        """Return the ledger as a snapshot file's content, or one of the last cycles as a capture's."""
        return self.send(calls.snapshot(cycle))

    def health(self) -> Health:
        """Return whether the service lives and is ready."""
        return self.send(calls.health())

    def me(self) -> CallerView:
        """Return who the service takes the caller for."""
        return self.send(calls.me())

    def upload_payload(self, payload: bytes | Iterable[bytes]) -> PayloadStored:
        """Store a payload; the answer has its digest for `Work`."""
        answer = self._request(
            "POST",
            f"{calls.API}/payloads",
            content=payload,
            headers={"Content-Type": "application/octet-stream"},
            timeout=timeout(300.0),
        )
        return calls.payload_stored()(answer.json())

    def result(
        self, namespace: str, name: str, *, rank: int = 0, cell: str | None = None
    ) -> ResultBody:
        """Return the bytes and signature of a worker's values, or of a cell's. Verify before you unpickle."""
        path = calls.result_path(namespace, name, cell)
        answer = self._request("GET", path, params={"rank": str(rank)}, timeout=timeout(300.0))
        return result_of(answer.headers, answer.content)

    @contextmanager
    def _event_lines(self, since: int | None) -> Iterator[Iterator[str]]:
        try:
            with self._http.stream(**stream_request(since)) as answer:
                if not answer.is_success:
                    answer.read()
                checked(answer)
                yield answer.iter_lines()
        except httpx.TransportError as error:
            raise unreachable(self._endpoint, error) from error

    def events(self, *, since: int | None = None) -> Iterator[StreamEvent]:
        """Yield a snapshot (or the updates after `since`), then updates as they come."""
        reader = EventReader()
        with self._event_lines(since) as lines:
            for line in lines:
                event = reader.feed(line)
                if event is not None:
                    yield decode(StreamEvent, json.loads(event.data))
