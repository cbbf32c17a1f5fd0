"""The service itself: health and readiness (open to all, no secrets), who the caller is, metrics, OpenAPI."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from scheduler_service.api import shapes
from scheduler_service.api.answers import answer
from scheduler_service.api.guards import Port, Reader
from scheduler_service.wire import cluster

router = APIRouter(tags=["service"])
open_router = APIRouter(tags=["service"])

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@open_router.get("/health", responses=shapes.gives(cluster.Health))
async def health(port: Port) -> Response:
    """Say whether the service lives, and what it is."""
    return answer(await port.health())


@open_router.get("/ready", responses=shapes.gives(cluster.Health))
async def ready(port: Port) -> Response:
    """Say whether the service takes requests: 200, else 503."""
    state = await port.health()
    return answer(state, status=200 if state.ready else 503)


@router.get("/me", responses=shapes.gives(cluster.CallerView))
async def me(caller: Reader) -> Response:
    """Return whom the service takes the caller for."""
    view = cluster.CallerView(
        user=caller.user, groups=tuple(sorted(caller.groups)), scopes=tuple(sorted(caller.scopes))
    )
    return answer(view)


@router.get("/metrics", response_class=Response)
async def metrics(_caller: Reader, port: Port) -> Response:
    """Return the metrics in Prometheus' text format."""
    return Response(port.metrics_text(), media_type=METRICS_TYPE)


@router.get("/openapi.json")
async def openapi(request: Request, _caller: Reader) -> Response:
    """Return this API in OpenAPI's format."""
    return answer(request.app.openapi())
