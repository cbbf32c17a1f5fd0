"""A small real HTTP server that answers as told: for faults that a healthy API server never shows. Not a Kubernetes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from scheduler_service.backends.kubernetes.access import Access
from scheduler_service.backends.kubernetes.client import KubeClient, Retries

QUICK = Retries(tries=5, first_s=0.001, longest_s=0.002)


@dataclass
class Answer:
    """One answer: a status with a body, or (with `lines`) a stream that ends, hangs or breaks."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    lines: list[bytes] | None = None
    then: str = "end"
    """After the lines: "end", "hang" or "break" the connection."""


@dataclass
class Seen:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    token: str
    body: bytes


class KubeServer:
    """Answers from scripts: `on(path, answers…)`; the last answer of a script is given for ever."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.url = ""
        self._scripts: dict[tuple[str, bool], deque[Answer]] = {}
        self._arrived = asyncio.Event()
        self.judge: Callable[[Seen], Answer | None] = lambda _: None

    def on(self, path: str, *answers: Answer, watch: bool = False) -> None:
        """Answer requests at a path from this script."""
        self._scripts[path, watch] = deque(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        query = dict(request.query)
        seen = Seen(request.method, request.path, query, token, await request.read())
        self.seen.append(seen)
        self._arrived.set()
        answer = self.judge(seen)
        if answer is None:
            script = self._scripts[request.path, "watch" in query]
            answer = script.popleft() if len(script) > 1 else script[0]
        if answer.lines is None:
            body = (
                answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            )
            return web.Response(body=body, status=answer.status, headers=answer.headers)
        return await self._stream(request, answer)

    async def _stream(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in answer.lines or ():
            await response.write(line)
        if answer.then == "hang":
            await asyncio.Event().wait()
        if answer.then == "break" and request.transport is not None:
            request.transport.abort()
        return response

    async def asked(self, count: int) -> None:
        """Wait until so many requests came in."""
        while len(self.seen) < count:
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), 60)


@contextlib.asynccontextmanager
async def kube_server() -> AsyncIterator[KubeServer]:
    """Serve on loopback until the end of the block."""
    server = KubeServer()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


def client_of(server: KubeServer, **access: Any) -> KubeClient:
    """Return a client of the server that tries again at once."""
    return KubeClient(Access(server.url, **access), retries=QUICK)
