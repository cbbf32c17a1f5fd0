"""What there is and how it stands: queues, nodes, cycles, forecasts, the snapshot, the event stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from scheduler_service.api import shapes, streams
from scheduler_service.api.answers import answer
from scheduler_service.api.bodies import MAX_SAFE_INTEGER
from scheduler_service.api.guards import Admin, Port, Reader
from scheduler_service.ports import ForecastAsk
from scheduler_service.wire import cluster, events, explain
from scheduler_service.wire.pod_group import Kind

router = APIRouter(tags=["cluster"])

Number = Annotated[int, Query(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]


async def forecast_ask(  # noqa: PLR0913 - one argument a query parameter
    *,
    queue: str | None = None,
    gpu: str | None = None,
    gpu_memory: str | None = None,
    devices: Number = 1,
    cpu: str | None = None,
    memory: str | None = None,
    workers: Number = 1,
    kind: Kind = "lease",
    priority: Number | None = None,
    preemptible: bool | None = None,
) -> ForecastAsk:
    """Return what the query would ask for."""
    return ForecastAsk(
        queue=queue,
        gpu=gpu,
        gpu_memory=gpu_memory,
        devices=devices,
        cpu=cpu,
        memory=memory,
        workers=workers,
        kind=kind,
        priority=priority,
        preemptible=preemptible,
    )


@router.get("/forecast", responses=shapes.gives(explain.ForecastView))
async def forecast(
    caller: Reader, port: Port, ask: Annotated[ForecastAsk, Depends(forecast_ask)]
) -> Response:
    """Say when a request that is not made yet would start: now, about when, or never and why."""
    return answer(await port.forecast(caller, ask))


@router.get("/queues", responses=shapes.gives_many(cluster.QueueView))
async def queues(caller: Reader, port: Port) -> Response:
    """Return the tree of queues, parents first."""
    return answer(await port.queues(caller))


@router.get("/nodes", responses=shapes.gives_many(cluster.NodeView))
async def nodes(caller: Reader, port: Port) -> Response:
    """Return nodes and devices with who holds what."""
    return answer(await port.nodes(caller))


@router.get("/cycles", responses=shapes.gives_many(cluster.CycleView))
async def cycles(
    caller: Reader, port: Port, last: Annotated[int, Query(ge=1, le=10_000)] = 20
) -> Response:
    """Return the last planning cycles, newest first."""
    return answer(await port.cycles(caller, last=last))


@router.get("/snapshot")
async def snapshot(
    caller: Admin, port: Port, cycle: Annotated[int | None, Query(ge=0, le=MAX_SAFE_INTEGER)] = None
) -> Response:
    """Return the ledger as a file for `kai plan` elsewhere, or with `cycle` that decision for `kai replay`."""
    return answer(await port.snapshot(caller, cycle=cycle))


@router.get(
    "/events",
    responses=shapes.streams(events.StreamEvent),
)
async def event_stream(
    request: Request,
    caller: Reader,
    port: Port,
    since: Annotated[int | None, Query(ge=0, le=MAX_SAFE_INTEGER)] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Stream a snapshot and then what changes; `Last-Event-ID` or `since` resumes, and a gap gives a snapshot again."""
    closing: streams.Closing = request.app.state.closing
    resumed = _revision(last_event_id)
    stream = port.events(caller, since=since if resumed is None else resumed)
    return streams.event_stream(
        _messages(closing.items(stream)),
        request.app.state.activity,
    )


def _revision(last_event_id: str | None) -> int | None:
    if last_event_id is None or not (last_event_id.isascii() and last_event_id.isdigit()):
        return None
    revision = int(last_event_id[:17])
    return revision if revision <= MAX_SAFE_INTEGER else None


async def _messages(
    items: AsyncGenerator[events.StreamEvent | None, None],
) -> AsyncGenerator[bytes | None, None]:
    try:
        async for item in items:
            yield None if item is None else streams.message(item, message_id=item.rev)
    finally:
        await items.aclose()
