"""What a team's lead sees and does: the page, its stream, its lists as CSV, changes and what they would do."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from scheduler_service.api import shapes, streams, tables
from scheduler_service.api.answers import answer
from scheduler_service.api.bodies import MAX_SAFE_INTEGER, LeadBody, UndoBody
from scheduler_service.api.guards import Port, Reader
from scheduler_service.wire import team as wire

router = APIRouter(prefix="/team", tags=["team"])
ChangeId = Annotated[int, Path(ge=0, le=MAX_SAFE_INTEGER)]


@router.get("", responses=shapes.gives(wire.TeamView))
async def team(caller: Reader, port: Port) -> Response:
    """Return the page of a lead: the queues they answer for, who waits, who holds, what needs them."""
    return answer(await port.team(caller))


@router.get("/events", responses=shapes.streams(wire.TeamView))
async def team_events(request: Request, caller: Reader, port: Port) -> Response:
    """Stream the page, whole, whenever it reads differently (twice a second at most)."""
    await port.team(caller)  # who leads nothing is told so before the stream
    closing: streams.Closing = request.app.state.closing
    items = closing.items(port.team_events(caller))
    return streams.event_stream(_messages(items), request.app.state.activity)


async def _messages(
    items: AsyncGenerator[wire.TeamView | None, None],
) -> AsyncGenerator[bytes | None, None]:
    try:
        async for item in items:
            yield None if item is None else streams.message(item, message_id=item.rev)
    finally:
        await items.aclose()


@router.get("/csv", response_class=Response)
async def team_csv(caller: Reader, port: Port, table: tables.Table = "waiting") -> Response:
    """Return one list of the page as CSV."""
    text = tables.csv_text(await port.team(caller), table)
    headers = {
        "Cache-Control": "no-store",
        "Content-Disposition": f'attachment; filename="kai-{table}.csv"',
    }
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


@router.post(
    "/what-if",
    responses=shapes.gives(wire.WhatIfView),
    openapi_extra=shapes.reads(wire.LeadAsk),
)
async def what_if(caller: Reader, ask: LeadBody, port: Port) -> Response:
    """Say what a change would do at once; nothing is changed."""
    return answer(await port.what_if(caller, ask))


@router.post(
    "/changes",
    status_code=201,
    responses=shapes.gives(wire.ChangeView, status=201, about="Made"),
    openapi_extra=shapes.reads(wire.LeadAsk),
)
async def change(caller: Reader, ask: LeadBody, port: Port) -> Response:
    """Make a change. Needs the right to lead its queue; those concerned read the reason."""
    return answer(await port.change(caller, ask), status=201)


@router.post(
    "/changes/{number}/undo",
    responses=shapes.gives(wire.ChangeView),
    openapi_extra=shapes.reads(wire.Undo),
)
async def undo(number: ChangeId, caller: Reader, ask: UndoBody, port: Port) -> Response:
    """Take a change back."""
    return answer(await port.undo(caller, number, ask))
