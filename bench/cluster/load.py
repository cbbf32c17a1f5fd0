"""The load and the stopwatch: makes objects as fast as the API server takes them, and sees when pods are bound.

Moments are seconds of the monotonic clock, as the watch told them to this process.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.cluster.testbed.identity import Login

Object = dict[str, Any]
HANDS = 32
GIVE_UP_S = 600.0


class NotSeen(Exception):
    """What a row waits for did not come; the row is void."""


@dataclass(slots=True)
class Sight:
    """What was seen of a pod, and when."""

    bound_at: float | None = None
    refused_at: float | None = None
    says: str = ""


class Load:
    """A client of the API server, and everything it saw of pods since `watching` began."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._server = server
        self._changed = asyncio.Event()
        self.pods: dict[str, Sight] = {}

    @classmethod
    @asynccontextmanager
    async def of(cls, login: Login) -> AsyncIterator[Load]:
        """Give the client of a login."""
        trust = ssl.create_default_context(cafile=str(login.ca_file))
        async with aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {login.token}", "Content-Type": "application/json"},
            connector=aiohttp.TCPConnector(ssl=trust, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            read_bufsize=1 << 22,
        ) as session:
            yield cls(session, login.server)

    # -- requests --------------------------------------------------------------------------------------
    async def send(self, method: str, path: str, body: Object | None = None) -> Object:
        """Make one request; a server that asks for patience gets it, other refusals raise."""
        data = None if body is None else json.dumps(body)
        while True:
            async with self._session.request(method, self._server + path, data=data) as answer:
                text = await answer.text()
                if answer.status == 429:
                    await asyncio.sleep(float(answer.headers.get("Retry-After", 1)))
                    continue
                if answer.status >= 400:
                    msg = f"{method} {path}: {answer.status} {text[:500]}"
                    raise RuntimeError(msg)
                found: Object = json.loads(text)
                return found

    async def post_all(self, path: str, bodies: Iterable[Object]) -> None:
        """Create objects, in their order, some at a time."""
        await self.side_by_side(lambda body: self.send("POST", path, body), bodies)

    async def side_by_side(self, act: Callable[[Any], Any], items: Iterable[Any]) -> None:
        """Do something with each item, `HANDS` at a time."""
        left = iter(items)

        async def work() -> None:
            for item in left:
                await act(item)

        async with asyncio.TaskGroup() as group:
            for _ in range(HANDS):
                group.create_task(work())

    # -- what is seen ----------------------------------------------------------------------------------
    @asynccontextmanager
    async def watching(self, pods: str) -> AsyncIterator[None]:
        """Note from here on what becomes of the pods of a collection, which is read once before."""
        page = await self.send("GET", f"{pods}?limit=1")
        self.pods = {}
        async with asyncio.TaskGroup() as group:  # a watch that fails ends the row
            following = group.create_task(self._follow(pods, page["metadata"]["resourceVersion"]))
            yield
            following.cancel()

    async def _follow(self, pods: str, since: str) -> None:
        """Watch from a version on; a server that ends a slow watch is asked again from where it was."""
        while True:
            query = {"watch": "1", "resourceVersion": since, "allowWatchBookmarks": "true"}
            async with self._session.get(f"{self._server}{pods}", params=query) as answer:
                answer.raise_for_status()
                async for line in answer.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        since = await self._see_all(pods)
                        break
                    since = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._note(event["object"], time.monotonic())

    async def _see_all(self, pods: str) -> str:
        page = await self.send("GET", pods)
        for one in page["items"]:
            self._note(one, time.monotonic())
        return str(page["metadata"]["resourceVersion"])

    def _note(self, pod: Object, now: float) -> None:
        sight = self.pods.setdefault(pod["metadata"]["name"], Sight())
        if pod["spec"].get("nodeName"):
            sight.bound_at = sight.bound_at or now
        for condition in pod.get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                sight.refused_at = sight.refused_at or now
                sight.says = condition.get("message", "")
        self._changed.set()

    async def bound(self, names: Iterable[str]) -> list[float]:
        """Return when each of these pods was bound, once all are; raises NotSeen."""
        left = list(names)
        moments: list[float] = []
        end = time.monotonic() + GIVE_UP_S
        while left:
            seen = [(name, self.pods[name].bound_at) for name in left if name in self.pods]
            done = {name: moment for name, moment in seen if moment is not None}
            moments += done.values()
            left = [name for name in left if name not in done]
            if left:
                await self._more(end, f"{len(left)} pods were not bound, such as {left[0]}")
        return sorted(moments)

    async def refused(self) -> Sight:
        """Return the first pod that says why it waits; raises NotSeen."""
        end = time.monotonic() + GIVE_UP_S
        while True:
            told = [sight for sight in self.pods.values() if sight.refused_at is not None]
            if told:
                return min(told, key=lambda sight: sight.refused_at or 0.0)
            await self._more(end, "no pod said why it waits")

    async def _more(self, end: float, missing: str) -> None:
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), max(0.0, end - time.monotonic()))
        except TimeoutError:
            raise NotSeen(missing) from None
        await asyncio.sleep(0.02)  # one look at many changes: the look itself costs a core
