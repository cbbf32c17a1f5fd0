"""A proxy before the API server that counts what passes and misbehaves on command.

It speaks TLS with the API server's own certificate, so a client needs to know nothing but its
port. Faults are told before the requests that they are meant for; each is used up `times` times.

    with cluster.faulty_proxy(cluster.access("kai-binder")) as proxy:
        proxy.fail("POST", r"/binding$", status=500, times=3)
        proxy.swallow("POST", r"/binding$")   # done by the server, never told to the client
        proxy.slow_watches(2.0)
"""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from tests.cluster.testbed.identity import Login, login

HOP_BY_HOP = {"host", "connection", "transfer-encoding", "content-length", "content-encoding"}
FOR_EVER = 1 << 60
GOODBYE_S = 0.1


@dataclass
class Fault:
    """What to do to requests of one method ("" = any) whose path matches a pattern."""

    method: str
    path: re.Pattern[str]
    action: Callable[[web.Request], Awaitable[web.StreamResponse]]
    left: int

    def takes(self, request: web.Request) -> bool:
        """Tell whether the request is meant, and use the fault up by one."""
        meant = self.left > 0 and self.method in {"", request.method}
        if not meant or not self.path.search(request.path_qs):
            return False
        self.left -= 1
        return True


@dataclass(slots=True)
class Passed:
    """One request that reached the proxy, and what was answered (0 = nothing yet, or nothing at all).

    It is written down when it comes: what it changed may be seen elsewhere before its answer is back.
    """

    method: str
    path: str
    status: int = 0


@dataclass(eq=False)
class _Watch:
    """An open watch; once `ended` is set it ends with `last`, or is cut when that is empty."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    last: bytes = b""


@dataclass
class _State:
    faults: list[Fault] = field(default_factory=list)
    event_delay_s: float = 0.0
    watches: set[_Watch] = field(default_factory=set)
    requests: list[Passed] = field(default_factory=list)


class FaultyProxy:
    """The proxy, in a thread of its own; use it as a context manager."""

    def __init__(self, pki: Path, of: Login, folder: Path) -> None:
        self._pki, self._of, self._folder = pki, of, folder
        self._state = _State()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty-proxy")
        self.login = of

    def __enter__(self) -> FaultyProxy:
        self._thread.start()
        port = self._do(self._open())
        file = self._folder / f"{self._of.kubeconfig.name}-by-way-of-{port}"
        server = f"https://127.0.0.1:{port}"
        self.login = login(server, self._of.ca_file, self._of.token, file)
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def requests(self) -> list[Passed]:
        """What reached the proxy so far, oldest first."""
        return list(self._state.requests)

    def writes(self, pattern: str = "") -> list[Passed]:
        """Return the requests that change something whose path matches `pattern`."""
        reads = {"GET", "HEAD", "OPTIONS"}
        return [
            one for one in self.requests if one.method not in reads and re.search(pattern, one.path)
        ]

    def forget(self) -> None:
        """Empty `requests`, and drop every fault that is left."""
        self._state.requests.clear()
        self.behave()

    def behave(self) -> None:
        """Drop every fault that is left."""
        self._state.faults.clear()
        self._state.event_delay_s = 0.0

    def fail(
        self,
        method: str = "",
        path: str = "",
        *,
        status: int = 500,
        times: int = FOR_EVER,
        retry_after_s: int | None = None,
    ) -> None:
        """Answer with a status instead of asking the server."""
        headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}

        async def answer(_: web.Request) -> web.StreamResponse:
            return web.json_response(_status(status), status=status, headers=headers)

        self._add(method, path, answer, times)

    def swallow(self, method: str = "", path: str = "", *, times: int = 1) -> None:
        """Let the server do it and cut the connection instead of telling the answer."""

        async def answer(request: web.Request) -> web.StreamResponse:
            await self._ask(request, await request.read())
            return _cut(request)

        self._add(method, path, answer, times)

    def cut(self, method: str = "", path: str = "", *, times: int = FOR_EVER) -> None:
        """Cut the connection without asking the server."""

        async def answer(request: web.Request) -> web.StreamResponse:
            return _cut(request)

        self._add(method, path, answer, times)

    def hang(self, method: str = "", path: str = "", *, times: int = FOR_EVER) -> None:
        """Never answer; the client's own time-out must end it."""

        async def answer(_: web.Request) -> web.StreamResponse:
            return await asyncio.Event().wait() or web.Response()

        self._add(method, path, answer, times)

    def slow_watches(self, seconds: float) -> None:
        """Tell each event of a watch so much later."""
        self._state.event_delay_s = seconds

    def cut_watches(self) -> int:
        """Cut all open watches mid-stream; returns how many there were."""
        return self._do(self._end_watches(b""))

    def forget_versions(self) -> int:
        """Tell all open watches 410 Gone; returns how many there were."""
        gone = b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",'
        gone += b'"code":410,"reason":"Expired","message":"too old resource version"}}\n'
        return self._do(self._end_watches(gone))

    def _add(self, method: str, path: str, action: Any, times: int) -> None:
        self._state.faults.append(Fault(method, re.compile(path), action, times))

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self) -> int:
        trust = ssl.create_default_context(cafile=str(self._of.ca_file))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            read_bufsize=1 << 22,
        )
        self._server = web.Server(self._serve, access_log=None)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=0.1)
        await self._runner.setup()
        own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        own.load_cert_chain(self._pki / "apiserver.crt", self._pki / "apiserver.key")
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=own)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def _close(self) -> None:
        for one in self._server.connections:
            if one.transport is not None:
                one.transport.abort()  # a TLS goodbye would wait for the other side
        await self._runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:  # watches that were open to the last
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._session.close()
        await asyncio.sleep(GOODBYE_S)  # TLS connections are closed some turns of the loop later

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.BaseRequest)
        passed = Passed(request.method, request.path_qs)
        self._state.requests.append(passed)
        try:
            answer = await self._answer(request)  # type: ignore[arg-type]
        except (aiohttp.ClientError, ConnectionError):
            return _cut(request)
        passed.status = answer.status
        return answer

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        for fault in self._state.faults:
            if fault.takes(request):
                return await fault.action(request)
        if "watch" in request.query:
            return await self._pass_watch(request)
        status, headers, body = await self._ask(request, await request.read())
        return web.Response(status=status, headers=headers, body=body)

    async def _ask(self, request: web.Request, body: bytes) -> tuple[int, dict[str, str], bytes]:
        async with self._session.request(
            request.method, self._of.server + request.path_qs, headers=_kept(request), data=body
        ) as answer:
            return answer.status, _kept(answer), await answer.read()

    async def _pass_watch(self, request: web.Request) -> web.StreamResponse:
        address = self._of.server + request.path_qs
        async with self._session.get(address, headers=_kept(request)) as answer:
            response = web.StreamResponse(status=answer.status, headers=_kept(answer))
            await response.prepare(request)
            watch = _Watch()
            self._state.watches.add(watch)
            passing = asyncio.create_task(self._pass_lines(answer, response))
            ending = asyncio.create_task(watch.ended.wait())
            try:
                await asyncio.wait({passing, ending}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._state.watches.discard(watch)
                passing.cancel()
                ending.cancel()
            if watch.last:
                await response.write(watch.last)
            elif watch.ended.is_set():
                _cut(request)
            return response

    async def _pass_lines(
        self, answer: aiohttp.ClientResponse, response: web.StreamResponse
    ) -> None:
        with suppress(aiohttp.ClientError, ConnectionError):  # either side went away
            async for line in answer.content:
                if self._state.event_delay_s:
                    await asyncio.sleep(self._state.event_delay_s)
                await response.write(line)

    async def _end_watches(self, last: bytes) -> int:
        watches = list(self._state.watches)
        for one in watches:
            one.last = last
            one.ended.set()
        return len(watches)


def _cut(request: web.BaseRequest) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def _kept(message: Any) -> dict[str, str]:
    return {
        name: value for name, value in message.headers.items() if name.lower() not in HOP_BY_HOP
    }


def _status(code: int) -> dict[str, Any]:
    reasons = {429: "TooManyRequests", 409: "Conflict", 503: "ServiceUnavailable"}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reasons.get(code, "InternalError"),
        "message": "a fault that a test asked for",
    }
