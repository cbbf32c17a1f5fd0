"""/healthz, /readyz and /metrics of the binder, for the kubelet and for Prometheus. Nothing secret is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from scheduler_service.backends.kubernetes.binder.metrics import Metrics
from scheduler_service.errors import ConfigurationError


@asynccontextmanager
async def served(
    listen: str, is_ready: Callable[[], bool], metrics: Metrics
) -> AsyncIterator[None]:
    """Answer at HOST:PORT as long as the block runs; "" = nowhere."""
    if not listen:
        yield
        return
    host, port = _place(listen)
    app = web.Application()

    async def ready(_request: web.Request) -> web.Response:
        return web.Response(text="ok") if is_ready() else web.Response(status=503, text="not yet")

    async def healthy(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def figures(_request: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), content_type="text/plain")

    app.router.add_get("/healthz", healthy)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", figures)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()


def _place(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 2**16:
        raise ConfigurationError(
            f"--listen {listen!r} is no address.", hint="Write it like 127.0.0.1:8082."
        )
    return host.strip("[]") or "127.0.0.1", int(port)
