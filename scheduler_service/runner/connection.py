"""The runner's HTTP: one method a route, two kinds of trouble (the service is away, or it refuses)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import httpx

from scheduler_service.runner.options import RunnerOptions
from scheduler_service.wire import codec, companion, locate, runner

T = TypeVar("T")
LONG_POLL_S = 20
PATIENCE = httpx.Timeout(30.0, read=LONG_POLL_S + 20)
CHUNK_BYTES = 1024 * 1024
_SIGNATURE = "X-Kai-Signature"
_UNAUTHORISED = 401
_STRANGER = frozenset({_UNAUTHORISED, 404})
"""A pod's own routes answer so for a pod that the service does not know."""
_CLIENT_ERROR = 400
_SERVER_ERROR = 500
_TOO_MANY = 429


class ServiceAway(Exception):
    """The service can not be reached, or is not itself right now: ask again later."""


class ServiceRefused(Exception):
    """The service understood and declined; the same request will be declined again."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        self.sentence = sentence
        super().__init__(f"{sentence} (HTTP {status})")


class Connection:
    """Speaks to the service that the options name, or to the one that took its place in the state directory."""

    def __init__(self, options: RunnerOptions) -> None:
        self._options = options
        self._url = options.url.rstrip("/")
        self._token_file = options.token_file
        self._socket = options.socket
        transport = httpx.AsyncHTTPTransport(uds=str(self._socket)) if self._socket else None
        self._client = httpx.AsyncClient(timeout=PATIENCE, trust_env=False, transport=transport)
        self._disowned: set[str] = set()
        self.lost: set[str] = set()
        """Incarnations that no book of the service tells of; their folders are kept."""
        self.proofs_of: Callable[[str], tuple[runner.Proof, ...]] = lambda _incarnation: ()
        """The proofs of a pod and of the others of its group that this runner has."""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def claim(self, ask: runner.ClaimRequest) -> runner.ClaimAnswer:
        """Return what this runner is to start."""
        answer = await self._own("POST", "/runner/claim", json=codec.encode(ask))
        return codec.decode(runner.ClaimAnswer, answer.json())

    async def vouch(self, incarnation: str) -> bool:
        """Show a service that does not know a pod what it wrote of it; whether it knows the pod now."""
        proofs = self.proofs_of(incarnation)
        if not proofs or incarnation in self._disowned:
            return False
        return incarnation not in await self.prove(proofs)

    async def prove(self, proofs: tuple[runner.Proof, ...]) -> frozenset[str]:
        """Show what the service wrote of these pods; return those that it still does not know."""
        ask = runner.ProofRequest(runner=self._options.name, pods=proofs)
        try:
            response = await self._own("POST", "/runner/prove", json=codec.encode(ask))
        except ServiceRefused:  # an older service, to which nothing can be proven
            return frozenset(proof.incarnation for proof in proofs)
        answer = codec.decode(runner.ProofAnswer, response.json())
        self._disowned.update(answer.unknown)
        self.lost.update(answer.lost)
        return frozenset(answer.unknown)

    async def _known(self, incarnation: str, send: Callable[[], Awaitable[None]]) -> None:
        """Send what is of one pod; where the service lost its books, prove the pod and send it once more."""
        try:
            await send()
        except ServiceRefused as refusal:
            if refusal.status not in _STRANGER or not await self.vouch(incarnation):
                raise
            await send()

    async def orders(self, name: str) -> runner.Orders:
        """Wait for orders, up to `LONG_POLL_S`."""
        query = {"runner": name, "wait_s": str(LONG_POLL_S)}
        answer = await self._own("GET", "/runner/orders", params=query)
        orders = codec.decode(runner.Orders, answer.json())
        if orders.exit and self._socket:
            raise ServiceAway("The shared service ends; its next start finds this runner here.")
        return orders

    async def beat(self, beat: runner.Beat) -> None:
        """Say which pods live."""
        await self._own("POST", "/runner/beat", json=codec.encode(beat))

    async def report(self, report: runner.Report) -> None:
        """Say that a pod started or ended."""

        async def send() -> None:
            await self._own("POST", "/runner/report", json=codec.encode(report))

        await self._known(report.incarnation, send)

    async def payload(self, incarnation: str, token: str, target: Path) -> None:
        """Write the payload of a pod to `target`."""
        await self._known(incarnation, lambda: self._fetch(incarnation, token, target))

    async def _fetch(self, incarnation: str, token: str, target: Path) -> None:
        await self._download(f"/runner/pods/{incarnation}/payload", token, target)

    async def _download(self, path: str, token: str, target: Path) -> None:
        try:
            async with self._client.stream("GET", self._at(path), headers=_bearer(token)) as answer:
                if answer.status_code >= _CLIENT_ERROR:
                    await answer.aread()
                _raise_for(answer)
                with target.open("wb") as file:
                    async for chunk in answer.aiter_bytes(CHUNK_BYTES):
                        file.write(chunk)
        except httpx.TransportError as error:
            raise self._away(error) from error

    async def put_result(self, incarnation: str, token: str, file: Path, signature: str) -> None:
        """Send the result of a pod up."""
        path = f"/runner/pods/{incarnation}/result"
        headers = _bearer(token) | {_SIGNATURE: signature}

        async def send() -> None:
            await self._send("PUT", path, headers=headers, content=_chunks(file))

        await self._known(incarnation, send)

    # -- cells of a companion ------------------------------------------------------------------------
    async def cell_orders(
        self, incarnation: str, token: str, query: dict[str, str]
    ) -> companion.CellOrders:
        """Wait for a cell to run, or an interrupt of the one that runs."""
        path = f"/runner/pods/{incarnation}/cells"
        answer = await self._send("GET", path, headers=_bearer(token), params=query)
        return codec.decode(companion.CellOrders, answer.json())

    async def report_cell(self, incarnation: str, token: str, report: companion.CellReport) -> None:
        """Tell how a cell stands."""
        path = f"/runner/pods/{incarnation}/cells"
        await self._send("POST", path, headers=_bearer(token), json=codec.encode(report))

    async def cell_payload(self, incarnation: str, token: str, cell: str, target: Path) -> None:
        """Write the payload of a cell to `target`."""
        await self._download(f"/runner/pods/{incarnation}/cells/{cell}/payload", token, target)

    async def put_cell_result(
        self, incarnation: str, token: str, cell: str, *, file: Path, signature: str
    ) -> None:
        """Send the values of a cell up."""
        path = f"/runner/pods/{incarnation}/cells/{cell}/result"
        headers = _bearer(token) | {_SIGNATURE: signature}
        await self._send("PUT", path, headers=headers, content=_chunks(file))

    async def logs(self, incarnation: str, token: str, chunk: runner.LogChunk) -> None:
        """Send log lines of a pod up."""
        path = f"/runner/pods/{incarnation}/logs"

        async def send() -> None:
            await self._send("POST", path, headers=_bearer(token), json=codec.encode(chunk))

        await self._known(incarnation, send)

    async def _own(
        self, method: str, path: str, *, json: object = None, params: dict[str, str] | None = None
    ) -> httpx.Response:
        """Ask with the person's own token; after a 401 the service may be a new one with a new token."""
        try:
            headers = self._own_headers()
        except OSError as error:
            raise self._away(error) from error
        try:
            return await self._send(method, path, headers=headers, json=json, params=params)
        except ServiceRefused as refusal:
            if refusal.status == _UNAUTHORISED:
                raise self._away(refusal) from refusal
            raise

    def _own_headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        return _bearer(self._token_file.read_text("ascii").strip())

    async def _send(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str],
        json: object = None,
        params: dict[str, str] | None = None,
        content: AsyncIterator[bytes] | None = None,
    ) -> httpx.Response:
        try:
            answer = await self._client.request(
                method, self._at(path), headers=headers, json=json, params=params, content=content
            )
        except httpx.TransportError as error:
            raise self._away(error) from error
        _raise_for(answer)
        return answer

    def _at(self, path: str) -> str:
        return f"{self._url}/api/v1{path}"

    def _away(self, error: Exception) -> ServiceAway:
        """Look whether another service now serves this state directory, for the next try."""
        if self._socket is not None:
            return ServiceAway(f"The service at {self._socket} does not answer: {error}")
        lock = locate.read_lock(self._options.state_dir)
        if lock is not None:
            self._url, self._token_file = lock.url, Path(lock.token_path)
        return ServiceAway(f"The service at {self._url} does not answer: {error}")


async def until_answered(send: Callable[[], Awaitable[None]]) -> ServiceRefused | None:
    """Repeat `send` until the service took it (None) or refused it, for as long as it is away."""
    for delay in backoff():
        try:
            await send()
        except ServiceAway:
            await asyncio.sleep(delay)
        except ServiceRefused as refusal:
            return refusal
        else:
            return None
    raise AssertionError("a back-off has no end")


def backoff(first_s: float = 0.1, most_s: float = 5.0) -> Iterator[float]:
    """Yield growing delays without end, spread so that many runners do not come back at once."""
    delay = first_s
    while True:
        yield delay * random.uniform(0.5, 1.0)  # noqa: S311 - not for secrets
        delay = min(delay * 2, most_s)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _raise_for(answer: httpx.Response) -> None:
    status = answer.status_code
    if status >= _SERVER_ERROR or status == _TOO_MANY:
        raise ServiceAway(f"The service answered HTTP {status}.")
    if status >= _CLIENT_ERROR:
        raise ServiceRefused(status, _sentence(answer))


def _sentence(answer: httpx.Response) -> str:
    try:
        problem = answer.json()
    except ValueError:
        return answer.text[:200]
    return (
        str(problem.get("detail") or problem.get("title") or problem)
        if isinstance(problem, dict)
        else str(problem)
    )


async def _chunks(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK_BYTES):
            yield chunk
