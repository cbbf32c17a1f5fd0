"""What travels for the work itself: payloads up, and the runner's protocol."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import FileResponse, Response

from scheduler_service.api import bodies, shapes, streams
from scheduler_service.api.answers import answer
from scheduler_service.api.bodies import BeatBody, ClaimBody, LogChunkBody, ProofBody, ReportBody
from scheduler_service.api.guards import OwnIncarnation, Port, Requester, RunnerOwner
from scheduler_service.wire import pod_group, runner

router = APIRouter(tags=["work"])

MAX_WAIT_S = 30.0
MAX_SIGNATURE = 200


@router.post(
    "/payloads",
    status_code=201,
    responses=shapes.gives(pod_group.PayloadStored, status=201),
    openapi_extra=shapes.reads_bytes(),
)
async def store_payload(request: Request, caller: Requester, port: Port) -> Response:
    """Keep a payload until a group of the caller's runs it."""
    limit: int = request.app.state.payload_limit_bytes
    stored = await port.store_payload(caller, bodies.limited(request, limit), limit=limit)
    return answer(stored, status=201)


@router.post(
    "/runner/claim",
    responses=shapes.gives(runner.ClaimAnswer),
    openapi_extra=shapes.reads(runner.ClaimRequest),
)
async def claim(caller: RunnerOwner, ask: ClaimBody, port: Port) -> Response:
    """Give a runner what was granted and nobody runs yet."""
    return answer(await port.claim(caller, ask))


@router.post(
    "/runner/prove",
    responses=shapes.gives(runner.ProofAnswer),
    openapi_extra=shapes.reads(runner.ProofRequest),
)
async def prove(caller: RunnerOwner, ask: ProofBody, port: Port) -> Response:
    """Enter what a runner holds into books that were lost."""
    return answer(await port.prove(caller, ask))


@router.get("/runner/orders", responses=shapes.gives(runner.Orders))
async def orders(
    request: Request,
    caller: RunnerOwner,
    port: Port,
    *,
    name: Annotated[str, Query(alias="runner", min_length=1, max_length=200)],
    wait_s: Annotated[float, Query(ge=0, le=MAX_WAIT_S)] = 0,
) -> Response:
    """Wait for something to do. `exit` when the service closes."""
    closing: streams.Closing = request.app.state.closing
    if closing.begun:
        return answer(runner.Orders(exit=True))
    given = await closing.first(port.orders(caller, runner_name=name, wait_s=wait_s))
    return answer(given or runner.Orders(exit=True))


@router.post("/runner/beat", status_code=204, openapi_extra=shapes.reads(runner.Beat))
async def beat(caller: RunnerOwner, ask: BeatBody, port: Port) -> Response:
    """Note that a runner and its pods live."""
    await port.beat(caller, ask)
    return Response(status_code=204)


@router.post("/runner/report", status_code=204, openapi_extra=shapes.reads(runner.Report))
async def report(caller: RunnerOwner, ask: ReportBody, port: Port) -> Response:
    """Note that a pod started or ended."""
    await port.report(caller, ask)
    return Response(status_code=204)


@router.get(
    "/runner/pods/{incarnation}/payload",
    response_class=FileResponse,
    responses=shapes.gives_bytes(),
)
async def payload(incarnation: OwnIncarnation, port: Port) -> Response:
    """Return the payload that this pod runs."""
    return FileResponse(await port.payload_of(incarnation), media_type="application/octet-stream")


@router.put(
    "/runner/pods/{incarnation}/result", status_code=204, openapi_extra=shapes.reads_bytes()
)
async def store_result(
    request: Request,
    incarnation: OwnIncarnation,
    port: Port,
    x_kai_signature: Annotated[str, Header(max_length=MAX_SIGNATURE)],
) -> Response:
    """Keep what this pod's worker wrote and signed."""
    limit: int = request.app.state.result_limit_bytes
    await port.store_result(incarnation, bodies.limited(request, limit), signature=x_kai_signature)
    return Response(status_code=204)


@router.post(
    "/runner/pods/{incarnation}/logs",
    status_code=204,
    openapi_extra=shapes.reads(runner.LogChunk),
)
async def append_logs(incarnation: OwnIncarnation, chunk: LogChunkBody, port: Port) -> Response:
    """Keep log lines of this pod."""
    await port.append_logs(incarnation, chunk)
    return Response(status_code=204)
