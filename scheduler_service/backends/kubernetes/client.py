"""A small client of the Kubernetes API: bytes in, bytes out, nothing modelled. Everything hot decodes with msgspec.

Rules: reads are tried again with jittered back-off; a write is tried again only where it surely did nothing
(429, or no connection was made). Retry-After is honoured. No token ever appears in an error or a log.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal

import aiohttp
import msgspec

from scheduler_service.backends.kubernetes.access import Access
from scheduler_service.backends.kubernetes.errors import (
    Gone,
    KubeError,
    TooMany,
    Unauthorized,
    Unavailable,
    error_of,
)
from scheduler_service.backends.kubernetes.names import Resource
from scheduler_service.backends.kubernetes.tokens import TokenSource

__all__ = ["Access", "KubeClient", "Resource", "Retries"]

Params = Mapping[str, str]
Body = bytes | Mapping[str, Any] | list[Any] | msgspec.Struct
PatchKind = Literal["merge", "json", "strategic", "apply"]
PAGE: Final = 500
JSON: Final = "application/json"
PATCH_TYPES: Final[Mapping[PatchKind, str]] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
CONNECTION_FAULTS = (aiohttp.ClientError, asyncio.TimeoutError, OSError)
SILENCE_S: Final = 150.0
"""A watch that says nothing for so long may be dead, and is begun anew."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how patiently a request is tried again."""

    tries: int = 6
    first_s: float = 0.2
    longest_s: float = 10.0

    def delay(self, failures: int, asked_s: float | None = None) -> float:
        """Return how long to wait after so many failures: doubled, jittered, at least what the server asked."""
        most: float = min(self.first_s * 2 ** max(0, failures - 1), self.longest_s)
        return max(asked_s or 0.0, most * (0.5 + random.random() / 2))  # noqa: S311


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    params: Params | None = None
    body: bytes | None = None
    content_type: str = JSON

    @property
    def is_read(self) -> bool:
        return self.method == "GET"


class KubeClient:
    """One session to one API server; use it as an async context manager, from one event loop."""

    def __init__(
        self,
        access: Access,
        *,
        retries: Retries | None = None,
        timeout_s: float = 30.0,
        connections: int = 64,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.access = access
        self.retries = retries or Retries()
        self._silence_s = silence_s
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._connections = connections
        self._tokens = TokenSource(access.token, access.token_file)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> KubeClient:
        context = self.access.ssl_context()
        connector = aiohttp.TCPConnector(
            limit=self._connections, ssl=True if context is None else context
        )
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=self._timeout, headers={"User-Agent": "kai-jupyter"}
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            if isinstance(session.connector, aiohttp.TCPConnector):
                await session.connector.close(
                    abort_ssl=True
                )  # no goodbye: watches would wait for one
            await session.close()
            for _ in range(3):  # what was aborted is closed in the loop's next turns
                await asyncio.sleep(0)

    # -- one object ------------------------------------------------------------------------------
    async def get(self, path: str, params: Params | None = None) -> bytes:
        """Return what the API says at `path`."""
        return await self._ask(_Request("GET", path, params))

    async def post(self, path: str, body: Body, params: Params | None = None) -> bytes:
        """Create an object (or a sub-resource's) and return it as it is now."""
        return await self._ask(_Request("POST", path, params, _encoded(body)))

    async def put(self, path: str, body: Body, params: Params | None = None) -> bytes:
        """Replace an object and return it as it is now."""
        return await self._ask(_Request("PUT", path, params, _encoded(body)))

    async def patch(
        self,
        path: str,
        body: Body,
        kind: PatchKind = "merge",
        field_manager: str | None = None,
        *,
        force: bool = False,
    ) -> bytes:
        """Change an object and return it as it is now. `force` takes fields over, for kind "apply" alone."""
        params = {} if field_manager is None else {"fieldManager": field_manager}
        if force:
            params["force"] = "true"
        request = _Request("PATCH", path, params, _encoded(body), PATCH_TYPES[kind])
        return await self._ask(request)

    async def delete(self, path: str, body: Body | None = None) -> bytes:
        """Delete an object; `body` = DeleteOptions."""
        encoded = None if body is None else _encoded(body)
        return await self._ask(_Request("DELETE", path, None, encoded))

    # -- many --------------------------------------------------------------------------------------
    async def list_pages(
        self, resource: Resource, namespace: str | None = None, params: Params | None = None
    ) -> AsyncIterator[bytes]:
        """Yield a list page by page. `Gone` in the midst: forget what came and begin anew (`items` does)."""
        asked = {"limit": str(PAGE), **(params or {})}
        while True:
            page = await self.get(resource.path(namespace), asked)
            following = _decode_page_head(page).metadata.continue_
            yield page
            if not following:
                return
            asked["continue"] = following

    async def items(
        self, resource: Resource, namespace: str | None = None, params: Params | None = None
    ) -> list[bytes]:
        """Return every object of a list, each as its own bytes; begins anew where a page is gone."""
        for failures in range(1, self.retries.tries + 1):
            found: list[bytes] = []
            try:
                async for page in self.list_pages(resource, namespace, params):
                    found += [bytes(item) for item in decode_page(page).items]
            except Gone:
                await asyncio.sleep(self.retries.delay(failures))
                continue
            return found
        raise Gone(
            410, "Expired", f"The list of {resource.plural} kept changing while it was read."
        )

    async def watch(
        self, resource: Resource, params: Params | None = None, namespace: str | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield one JSON line an event until the server ends the watch; faults raise `KubeError`."""
        asked = {"watch": "1", "allowWatchBookmarks": "true", **(params or {})}
        url = self._url(resource.path(namespace))
        timeout = aiohttp.ClientTimeout(total=None, sock_read=self._silence_s)
        token = self._tokens.current()
        try:
            async with self._live.get(
                url, params=asked, headers=_headers(token, JSON), timeout=timeout
            ) as response:
                if response.status >= 300:  # noqa: PLR2004
                    if response.status == 401:  # noqa: PLR2004
                        self._tokens.rejected(token)
                    raise error_of(response.status, await response.read(), response.headers)
                self._tokens.accepted(token)
                try:
                    async for line in _lines(response.content):
                        yield line
                except aiohttp.ServerTimeoutError:
                    return  # quiet or dead, nobody can tell: the caller goes on from where it was
                finally:
                    _hang_up(response)
        except CONNECTION_FAULTS as error:
            raise _unreachable(error) from error

    # -- the machinery -------------------------------------------------------------------------------
    @property
    def _live(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise Unavailable(0, "Closed", "The connection to the Kubernetes API is closed.")
        return self._session

    def _url(self, path: str) -> str:
        return f"{self.access.server}{path}"

    async def _ask(self, request: _Request) -> bytes:
        """Send until it succeeds, fails for good, or was tried often enough."""
        failures = 0
        while True:
            try:
                return await self._authenticated(request)
            except (TooMany, Unavailable) as error:
                failures += 1
                if failures >= self.retries.tries or not _may_repeat(request, error):
                    raise
                await asyncio.sleep(self.retries.delay(failures, error.retry_after_s))

    async def _authenticated(self, request: _Request) -> bytes:
        """Send it; a refused token is replaced once by a fresher one, or by the last that worked."""
        token = self._tokens.current()
        try:
            answer = await self._send(request, token)
        except Unauthorized:
            token, refused = self._tokens.rejected(token), token
            if token is None or token == refused:
                raise
            answer = await self._send(request, token)
        self._tokens.accepted(token)
        return answer

    async def _send(self, request: _Request, token: str | None) -> bytes:
        headers = _headers(token, request.content_type)
        try:
            async with self._live.request(
                request.method,
                self._url(request.path),
                params=request.params,
                data=request.body,
                headers=headers,
            ) as response:
                body = await response.read()
                if response.status >= 300:  # noqa: PLR2004
                    raise error_of(response.status, body, response.headers)
                return body
        except CONNECTION_FAULTS as error:
            raise _unreachable(error) from error


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """End a watch without a goodbye: the server may never answer one, and the socket would wait for it."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _may_repeat(request: _Request, error: KubeError) -> bool:
    if isinstance(error, TooMany):
        return error.retry_after_s is not None or request.is_read
    return request.is_read or isinstance(error.__cause__, aiohttp.ClientConnectorError)


def _unreachable(error: BaseException) -> Unavailable:
    text = str(error) or type(error).__name__
    return Unavailable(0, "Unreachable", f"The Kubernetes API could not be reached: {text}.")


def _headers(token: str | None, content_type: str) -> dict[str, str]:
    headers = {"Accept": JSON, "Content-Type": content_type}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return headers


_encode = msgspec.json.Encoder().encode


def _encoded(body: Body) -> bytes:
    return body if isinstance(body, bytes) else _encode(body)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length (an object may be larger than the reader's own limit)."""
    pending: list[bytes] = []
    async for chunk in content.iter_any():
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            line = b"".join((*pending, part))
            pending.clear()
            if line:
                yield line
        if rest:
            pending.append(rest)


# -- lists ---------------------------------------------------------------------------------------------


class ListMeta(
    msgspec.Struct,
    gc=False,
    rename={"resource_version": "resourceVersion", "continue_": "continue"},
):
    """The head of a list: its version, and the token of its next page ("" = none)."""

    resource_version: str = ""
    continue_: str = ""


class _PageHead(msgspec.Struct, gc=False):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class Page(msgspec.Struct, gc=False):
    """A page of a list; each item is a view into the page, to be decoded or copied at once."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] = msgspec.field(default_factory=list)


_decode_page_head = msgspec.json.Decoder(_PageHead).decode
decode_page = msgspec.json.Decoder(Page).decode
