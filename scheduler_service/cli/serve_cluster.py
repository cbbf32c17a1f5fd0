"""`kai serve --backend kubernetes`: follow, wait to lead, schedule; end when told or when another leads."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING

import click
from fastapi import FastAPI, Response

from scheduler_service.api import standby
from scheduler_service.api.app import create_app
from scheduler_service.api.browsers import LOOPBACK_HOSTS
from scheduler_service.api.hub import HubAuthenticator, asks_hub
from scheduler_service.api.server import listen, serve
from scheduler_service.cli.output import version
from scheduler_service.errors import BackendError, RequestError
from scheduler_service.settings.table import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler_service.backends.kubernetes.client import KubeClient
    from scheduler_service.backends.kubernetes.cluster import Options
    from scheduler_service.backends.kubernetes.leader import Leader
    from scheduler_service.service.in_cluster import InCluster

log = logging.getLogger("kai.serve")


async def run(settings: Settings) -> None:
    """Serve until a signal; a lost lease or a fault ends it with a sentence."""
    from scheduler_service.backends.kubernetes.client import Access, KubeClient
    from scheduler_service.planning.cycle import plan
    from scheduler_service.service.in_cluster import House, InCluster, Manner

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    listening = listen(settings.port, host=settings.host)
    async with KubeClient(Access.load(settings.kubeconfig)) as client:
        manner = Manner(decides=settings.decide, dry_run=settings.dry_run)
        scheduler = InCluster(
            client,
            options=_options(settings),
            planner=plan,
            manner=manner,
            house=House(namespace=settings.namespace, scaling_image=settings.scaling_image),
        )
        leader = _leader(settings, client)
        app = _application(settings, client, scheduler, leader)
        port = listening.getsockname()[1]
        serving = asyncio.create_task(
            serve(app, listening, stop=stop, on_listening=lambda: _announce(settings, port))
        )
        try:
            await _lead(scheduler, leader, stop)
        finally:
            stop.set()
            await serving


def _application(
    settings: Settings, client: KubeClient, scheduler: InCluster, leader: Leader | None
) -> FastAPI:
    """Return the API over the scheduler, with the pages for probes beside it."""
    from scheduler_service.planning.cycle import plan
    from scheduler_service.service.cluster_door import opened
    from scheduler_service.service.rights import SIGN_IN

    def is_leading() -> bool:
        return leader is None or leader.is_leading

    def not_now() -> RequestError | None:
        return None if scheduler.is_following and is_leading() else _waits(leader)

    port, authenticator = opened(
        client,
        scheduler,
        planner=plan,
        settings=settings,
        version=version(),
        is_leading=is_leading,
    )
    app = create_app(
        port,
        [*_of_hub(settings), authenticator],  # the cluster's refuses whom it does not know
        hosts=LOOPBACK_HOSTS if settings.host in LOOPBACK_HOSTS else None,
        payload_limit_bytes=settings.payload_limit_mib << 20,
        result_limit_bytes=settings.result_limit_mib << 20,
        version=version(),
    )
    app.state.sign_in = SIGN_IN
    standby.install(app, not_now)
    return with_probes(app, scheduler, is_ready=lambda: not_now() is None)


HUB_PREFIX = "jupyterhub:"


def _of_hub(settings: Settings) -> list[HubAuthenticator]:
    """Return what knows people of a hub; prefixed, so that no hub name or group passes for one of the cluster."""
    if not settings.hub_url:
        return []
    return [HubAuthenticator(asks_hub(settings.hub_url), prefix=HUB_PREFIX)]


def _waits(leader: Leader | None) -> RequestError:
    """Return why nothing can be asked of this process."""
    if leader is not None and not leader.is_leading:
        return RequestError(
            "This process waits to lead and answers nothing until then.",
            why="Another one schedules this cluster, and knows what you ask for.",
            hint="Ask through the Service kai-scheduler-default: it leads to the one that schedules.",
            status=503,
            code="not_leading",
        )
    return RequestError(
        "The service is starting: it does not know the cluster yet.",
        hint="Ask again in a moment.",
        status=503,
        code="starting",
    )


def _options(settings: Settings) -> Options:
    from scheduler_service.backends.kubernetes.cluster import Options
    from scheduler_service.backends.kubernetes.decode.stores import Scope

    scope = Scope(scheduler_names=frozenset({settings.scheduler_name}), pool=settings.node_pool)
    return Options(
        scope=scope,
        shard=settings.shard,
        bind_requests="always" if settings.bind_requests == "always" else "needed",
        worker=settings.bind_worker,
    )


def _leader(settings: Settings, client: KubeClient) -> Leader | None:
    from scheduler_service.backends.kubernetes.leader import Leader

    if not settings.leader_elect or settings.dry_run or not settings.decide:
        return None
    pool = f"-{settings.node_pool}" if settings.node_pool else ""
    return Leader(client, f"{settings.scheduler_name}{pool}", namespace=settings.namespace)


async def _lead(scheduler: InCluster, leader: Leader | None, stop: asyncio.Event) -> None:
    """Follow; once leading, schedule; until `stop`, a fault, or the lease is lost."""
    parts = [asyncio.create_task(_schedule(scheduler, leader)), asyncio.create_task(_until(stop))]
    try:
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in parts:
            task.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        await scheduler.stop()
        if leader is not None:
            await leader.release()


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()
    log.info("ending")


async def _schedule(scheduler: InCluster, leader: Leader | None) -> None:
    await scheduler.follow()
    if leader is None:
        await scheduler.run()
        return
    await leader.acquire()
    running = asyncio.create_task(scheduler.run())
    keeping = asyncio.create_task(leader.keep())
    try:
        await asyncio.wait({running, keeping}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        raise BackendError(
            "This process leads no more.",
            why="Its lease could not be renewed, or another process took it.",
            hint="It ends, so that nobody decides twice; start it again.",
        )
    finally:
        for task in (running, keeping):
            task.cancel()
        await asyncio.gather(running, keeping, return_exceptions=True)


def with_probes(app: FastAPI, scheduler: InCluster, *, is_ready: Callable[[], bool]) -> FastAPI:
    """Return `app` with the pages for the kubelet and Prometheus: alive, ready (leading), figures."""

    @app.get("/healthz")
    async def healthy() -> Response:
        return Response("ok", media_type="text/plain")

    @app.get("/readyz")
    async def ready() -> Response:
        if is_ready():
            return Response("ok", media_type="text/plain")
        return Response("waits to lead", status_code=503, media_type="text/plain")

    @app.get("/metrics")
    async def figures() -> Response:
        found = b"" if scheduler.controllers is None else scheduler.controllers.metrics.text()
        return Response(found, media_type="text/plain; version=0.0.4")

    @app.get("/shadow")
    async def shadow() -> dict[str, object]:
        if scheduler.shadow is None:
            return {"counts": {}, "differences": [], "waiting": 0}
        found = [
            {"pod": item.pod, "ours": item.ours, "theirs": item.theirs, "kind": item.kind}
            for item in scheduler.shadow.differences
        ]
        return {
            "counts": dict(scheduler.shadow.counts),
            "differences": found,
            "waiting": scheduler.shadow.waiting,
        }

    return app


def _announce(settings: Settings, port: int) -> None:
    click.echo(
        f"kai schedules for {settings.scheduler_name}; API and health on {settings.host}:{port}"
    )
