"""The application: routes, guards and error words around one `SchedulerPort`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fastapi import FastAPI

from scheduler_service.api import problems, schema
from scheduler_service.api.authenticators import Authenticator
from scheduler_service.api.browsers import LOOPBACK_HOSTS, KnownHostsOnly
from scheduler_service.api.guards import SIGN_IN, Activity
from scheduler_service.api.routes import cells, cluster, pod_groups, service, team, work
from scheduler_service.api.streams import Closing
from scheduler_service.ports import SchedulerPort

BASE = "/api/v1"
DEFAULT_PAYLOAD_LIMIT = 64 << 20
DEFAULT_RESULT_LIMIT = 256 << 20


def create_app(
    port: SchedulerPort,
    authenticators: Sequence[Authenticator],
    *,
    hosts: Collection[str] | None = LOOPBACK_HOSTS,
    payload_limit_bytes: int = DEFAULT_PAYLOAD_LIMIT,
    result_limit_bytes: int = DEFAULT_RESULT_LIMIT,
    version: str = "0",
) -> FastAPI:
    """Return the application that serves `port` to whom `authenticators` know, under the names `hosts` (None = any).

    `app.state.closing.begin()` ends its streams and long polls; `app.state.activity` tells how long nobody asked.
    """
    app = FastAPI(
        title="kai",
        version=version,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    app.state.port = port
    app.state.authenticators = tuple(authenticators)
    app.state.sign_in = SIGN_IN
    app.state.payload_limit_bytes = payload_limit_bytes
    app.state.result_limit_bytes = result_limit_bytes
    app.state.closing = Closing()
    app.state.activity = Activity()
    for router in (
        pod_groups.router,
        cells.router,
        cluster.router,
        team.router,
        work.router,
        service.router,
    ):
        app.include_router(router, prefix=BASE)
    app.include_router(service.open_router, prefix=BASE)
    app.add_middleware(KnownHostsOnly, hosts=hosts)
    problems.install(app)
    schema.install(app)
    return app
