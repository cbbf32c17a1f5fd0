"""Cells that a notebook sends to its companion, and the companion's side of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import FileResponse, Response

from scheduler_service.api import bodies, shapes, streams
from scheduler_service.api.answers import answer
from scheduler_service.api.bodies import CellBody, CellReportBody
from scheduler_service.api.guards import OwnIncarnation, Port, Reader, Requester
from scheduler_service.ports import CellLook, OrderLook
from scheduler_service.wire import companion

router = APIRouter(tags=["cells"])

MAX_WAIT_S = 30.0
MAX_SIGNATURE = 200
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT_S)]
HERE = "/pod-groups/{namespace}/{name}/cells"
THERE = "/runner/pods/{incarnation}/cells"


@router.post(
    HERE,
    responses=shapes.gives(companion.CellView),
    openapi_extra=shapes.reads(companion.CellAsk),
)
async def run_cell(
    namespace: str, name: str, caller: Requester, ask: CellBody, port: Port
) -> Response:
    """Run a cell in the companion; the same id again is the same cell."""
    return answer(await port.run_cell(caller, namespace, name, ask))


async def cell_look(
    cell: str, after: Annotated[int, Query(ge=0, le=2**53)] = 0, wait_s: Wait = 0
) -> CellLook:
    """Return what of a cell is looked for."""
    return CellLook(cell=cell, after=after, wait_s=wait_s)


@router.get(f"{HERE}/{{cell}}", responses=shapes.gives(companion.CellView))
async def cell_view(
    request: Request,
    namespace: str,
    name: str,
    caller: Reader,
    port: Port,
    look: Annotated[CellLook, Depends(cell_look)],
) -> Response:
    """Say how a cell stands and what it wrote; waits for news."""
    closing: streams.Closing = request.app.state.closing
    view = await closing.first(port.cell(caller, namespace, name, look))
    if view is None:
        at_once = CellLook(cell=look.cell, after=look.after)
        view = await port.cell(caller, namespace, name, at_once)
    return answer(view)


@router.post(f"{HERE}/{{cell}}/interrupt", responses=shapes.gives(companion.CellView))
async def interrupt_cell(
    namespace: str, name: str, cell: str, caller: Requester, port: Port
) -> Response:
    """Interrupt a cell, as Ctrl-C does."""
    return answer(await port.interrupt_cell(caller, namespace, name, cell))


@router.get(f"{HERE}/{{cell}}/result", response_class=FileResponse, responses=shapes.gives_bytes())
async def cell_result(namespace: str, name: str, cell: str, caller: Reader, port: Port) -> Response:
    """Return the values of a cell as its companion wrote and signed them."""
    path, signature = await port.cell_result(caller, namespace, name, cell)
    headers = {"X-Kai-Signature": signature}
    return FileResponse(path, media_type="application/octet-stream", headers=headers)


async def order_look(
    busy: Annotated[str, Query(max_length=32)] = "",
    interrupts: Annotated[int, Query(ge=0, le=2**53)] = 0,
    wait_s: Wait = 0,
) -> OrderLook:
    """Return what a companion knows already."""
    return OrderLook(busy=busy, interrupts=interrupts, wait_s=wait_s)


@router.get(THERE, responses=shapes.gives(companion.CellOrders))
async def cell_orders(
    request: Request,
    incarnation: OwnIncarnation,
    port: Port,
    look: Annotated[OrderLook, Depends(order_look)],
) -> Response:
    """Give a companion its next cell, or the interrupts of the one that runs."""
    closing: streams.Closing = request.app.state.closing
    found = await closing.first(port.cell_orders(incarnation, look))
    return answer(found or companion.CellOrders(interrupts=look.interrupts))


@router.post(THERE, status_code=204, openapi_extra=shapes.reads(companion.CellReport))
async def report_cell(incarnation: OwnIncarnation, ask: CellReportBody, port: Port) -> Response:
    """Take note of what a companion says of a cell."""
    await port.report_cell(incarnation, ask)
    return Response(status_code=204)


@router.get(
    f"{THERE}/{{cell}}/payload", response_class=FileResponse, responses=shapes.gives_bytes()
)
async def cell_payload(incarnation: OwnIncarnation, cell: str, port: Port) -> Response:
    """Return the payload of a cell."""
    path = await port.cell_payload(incarnation, cell)
    return FileResponse(path, media_type="application/octet-stream")


@router.put(f"{THERE}/{{cell}}/result", status_code=204, openapi_extra=shapes.reads_bytes())
async def store_cell_result(
    request: Request,
    incarnation: OwnIncarnation,
    cell: str,
    port: Port,
    x_kai_signature: Annotated[str, Header(max_length=MAX_SIGNATURE)],
) -> Response:
    """Keep the values of a cell."""
    limit: int = request.app.state.result_limit_bytes
    chunks = bodies.limited(request, limit)
    await port.store_cell_result(incarnation, cell, chunks, signature=x_kai_signature)
    return Response(status_code=204)
