"""Pod groups: leases, gangs, kernels, servers and batch work under one set of paths."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import FileResponse, Response

from scheduler_service.api import shapes, streams
from scheduler_service.api.answers import answer
from scheduler_service.api.bodies import (
    CancelBody,
    ExtendBody,
    MoveBody,
    SubmitBody,
)
from scheduler_service.api.guards import Port, Reader, Requester
from scheduler_service.ports import Caller, LogAsk, SchedulerPort
from scheduler_service.wire import explain, pod_group, runner
from scheduler_service.wire.pod_group import GroupState

router = APIRouter(tags=["pod groups"])

MAX_WAIT_S = 30.0
MAX_KEY = 200
Counter = Annotated[int, Query(ge=0, le=2**53)]


@router.post(
    "/pod-groups",
    status_code=201,
    responses=shapes.gives(pod_group.PodGroupView, status=201, about="New")
    | shapes.gives(pod_group.PodGroupView, about="The same key came before"),
    openapi_extra=shapes.reads(pod_group.Submit),
)
async def submit(
    caller: Requester,
    ask: SubmitBody,
    port: Port,
    idempotency_key: Annotated[str | None, Header(max_length=MAX_KEY)] = None,
) -> Response:
    """Ask for devices. The same Idempotency-Key returns the first group again."""
    view, is_new = await port.submit(caller, ask, idempotency_key=idempotency_key)
    return answer(view, status=201 if is_new else 200)


@router.get("/pod-groups", responses=shapes.gives(pod_group.PodGroupList))
async def groups(
    caller: Reader,
    port: Port,
    *,
    queue: str | None = None,
    state: GroupState | None = None,
    mine: bool = False,
) -> Response:
    """List the groups that the caller may see, newest first."""
    return answer(await port.groups(caller, queue=queue, state=state, mine=mine))


@router.get("/pod-groups/{namespace}/{name}", responses=shapes.gives(pod_group.PodGroupView))
async def group(namespace: str, name: str, caller: Reader, port: Port) -> Response:
    """Return one group."""
    return answer(await port.group(caller, namespace, name))


@router.post(
    "/pod-groups/{namespace}/{name}/extend",
    responses=shapes.gives(pod_group.PodGroupView),
    openapi_extra=shapes.reads(pod_group.Extend),
)
async def extend(
    namespace: str, name: str, caller: Requester, ask: ExtendBody, port: Port
) -> Response:
    """Lengthen a lease, or keep it until it is released."""
    return answer(await port.extend(caller, namespace, name, ask))


@router.post(
    "/pod-groups/{namespace}/{name}/cancel",
    responses=shapes.gives(pod_group.PodGroupView),
    openapi_extra=shapes.reads(pod_group.Cancel),
)
async def cancel(
    namespace: str, name: str, caller: Requester, ask: CancelBody, port: Port
) -> Response:
    """End or withdraw a group."""
    return answer(await port.cancel(caller, namespace, name, ask))


@router.post(
    "/pod-groups/{namespace}/{name}/move",
    responses=shapes.gives(pod_group.PodGroupView),
    openapi_extra=shapes.reads(pod_group.Move),
)
async def move(namespace: str, name: str, caller: Requester, ask: MoveBody, port: Port) -> Response:
    """Carry a lease over to the new process of the same kernel."""
    return answer(await port.move(caller, namespace, name, ask))


async def log_ask(
    *,
    rank: Counter | None = None,
    after: Counter = 0,
    tail: Annotated[int | None, Query(ge=1, le=100_000)] = None,
    wait_s: Annotated[float, Query(ge=0, le=MAX_WAIT_S)] = 0,
) -> LogAsk:
    """Return which lines the query asks for."""
    return LogAsk(rank=rank, after=after, tail=tail, wait_s=wait_s)


@router.get(
    "/pod-groups/{namespace}/{name}/logs",
    responses=shapes.gives_or_streams(runner.LogPage, runner.LogLine),
)
async def logs(  # noqa: PLR0913 - the path, the query and the guards
    request: Request,
    namespace: str,
    name: str,
    caller: Reader,
    port: Port,
    ask: Annotated[LogAsk, Depends(log_ask)],
    *,
    follow: bool = False,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Return a page of log lines; with `follow=1` a stream of events, one a line, and `end` at the end."""
    closing: streams.Closing = request.app.state.closing
    if follow:
        first = _resumed(ask, last_event_id)
        page = await port.logs(
            caller, namespace, name, first
        )  # unknown names fail before the stream
        lines = _followed(port, caller, (namespace, name), ask=first, page=page)
        return streams.event_stream(closing.items(lines), request.app.state.activity)
    page_or_none = await closing.first(port.logs(caller, namespace, name, ask))
    if page_or_none is None:
        unhurried = LogAsk(rank=ask.rank, after=ask.after, tail=ask.tail)
        page_or_none = await port.logs(caller, namespace, name, unhurried)
    return answer(page_or_none)


def _resumed(ask: LogAsk, last_event_id: str | None) -> LogAsk:
    if last_event_id and last_event_id.isdigit() and len(last_event_id) < 17:  # noqa: PLR2004 - digits of 2**53
        return LogAsk(rank=ask.rank, after=int(last_event_id))
    return LogAsk(rank=ask.rank, after=ask.after, tail=ask.tail)


async def _followed(
    port: SchedulerPort,
    caller: Caller,
    key: tuple[str, str],
    *,
    ask: LogAsk,
    page: runner.LogPage,
) -> AsyncIterator[bytes]:
    """Yield the lines as they come. The last line of a page carries the id to resume from."""
    while True:
        for line in page.lines[:-1]:
            yield streams.message(line)
        for line in page.lines[-1:]:
            yield streams.message(line, message_id=page.next)
        if page.ended and not page.lines:
            yield streams.message({"dropped": page.dropped}, message_id=page.next, event="end")
            return
        following = LogAsk(rank=ask.rank, after=page.next, wait_s=0 if page.ended else MAX_WAIT_S)
        page = await port.logs(caller, *key, following)


@router.get("/pod-groups/{namespace}/{name}/explain", responses=shapes.gives(explain.ExplainView))
async def explain_group(namespace: str, name: str, caller: Reader, port: Port) -> Response:
    """Say why a group stands as it does, and what would help."""
    return answer(await port.explain(caller, namespace, name))


@router.get(
    "/pod-groups/{namespace}/{name}/result",
    response_class=FileResponse,
    responses=shapes.gives_bytes(),
)
async def result(
    namespace: str, name: str, caller: Reader, port: Port, rank: Counter = 0
) -> Response:
    """Return the result of a rank as its worker wrote and signed it."""
    path, signature = await port.result(caller, namespace, name, rank=rank)
    view = await port.group(caller, namespace, name)
    incarnation = next((pod.incarnation for pod in view.pods if pod.rank == rank), None)
    headers = {"X-Kai-Signature": signature, "X-Kai-Incarnation": incarnation or ""}
    return FileResponse(path, media_type="application/octet-stream", headers=headers)
