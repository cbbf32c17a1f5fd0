"""One stream from the service, shared by every page of this Jupyter server.

Rule: no tornado here. The relay keeps what it last heard: a new page gets a snapshot at once, free of cost.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.errors import KaiJupyterError

Message = dict[str, Any]
Group = dict[str, Any]
Transition = Callable[[Group, str | None], None]

QUEUE_LENGTH = 256
FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 30.0


def now_ms() -> int:
    """Return this machine's clock, ms since the epoch."""
    return int(time.time() * 1000)


def key_of(group: Group) -> str:
    """Return "namespace/name"."""
    return f"{group['namespace']}/{group['name']}"


@dataclass(slots=True)
class Known:
    """What the service last said."""

    rev: int = -1
    now: int = 0
    heard_at: int | None = None
    groups: dict[str, Group] = field(default_factory=dict)
    queues: list[Any] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)

    def snapshot(self) -> Message:
        """Return everything as one message; `now` is the service's clock as of this moment."""
        passed = now_ms() - (self.heard_at or now_ms())
        return {
            "kind": "snapshot",
            "rev": self.rev,
            "now": self.now + passed,
            "groups": list(self.groups.values()),
            "removed": [],
            "queues": self.queues,
            "nodes": self.nodes,
            "notices": [],
        }

    def take(self, message: Message) -> list[tuple[Group, str | None]]:
        """Learn from `message`; return the groups that changed their state, with the state before (None = new here)."""
        is_snapshot = message["kind"] == "snapshot"
        before = self.groups
        self.groups = {} if is_snapshot else dict(before)
        for group in message.get("groups") or ():
            self.groups[key_of(group)] = group
        for key in message.get("removed") or ():
            self.groups.pop(key, None)
        for name in ("queues", "nodes"):
            if message.get(name) is not None:
                setattr(self, name, message[name])
        self.rev, self.now, self.heard_at = message["rev"], message["now"], now_ms()
        return [
            (group, before[key]["state"] if key in before else None)
            for key, group in self.groups.items()
            if key not in before or before[key]["state"] != group["state"]
        ]


class Subscription:
    """What one page still has to be told. Bounded: a page that falls behind gets a snapshot in place of its backlog."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._queue: asyncio.Queue[Message] = asyncio.Queue(QUEUE_LENGTH)
        self._is_paused = False

    def push(self, message: Message) -> None:
        """Add a message, unless the page is hidden."""
        if self._is_paused:
            return
        try:
            self._queue.put_nowait(message)
        except asyncio.QueueFull:
            self._drop_backlog()
            self._queue.put_nowait(self._relay.present())

    def pause(self) -> None:
        """Send nothing: nobody looks."""
        self._is_paused = True
        self._drop_backlog()

    def resume(self) -> None:
        """Go on, from how things stand now."""
        self._is_paused = False
        self._drop_backlog()
        self._queue.put_nowait(self._relay.present())

    async def next(self) -> Message:
        """Wait for the next message."""
        return await self._queue.get()

    def _drop_backlog(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()


class Relay:
    """Listens to the service for as long as the server runs, and tells every page."""

    def __init__(self, client: AsyncKaiClient, *, on_transition: Transition | None = None) -> None:
        self.known = Known()
        self.client = client
        self._on_transition = on_transition
        self._pages: set[Subscription] = set()
        self._offline: Message | None = {
            "kind": "offline",
            "now": now_ms(),
            "since": None,
            "text": "Looking for the queue.",
            "retry_s": 0,
        }
        self._retry_now = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        """Whether the service is being listened to."""
        return self._offline is None

    @property
    def trouble(self) -> str:
        """Why the service is not heard, as a sentence; "" when it is."""
        return "" if self._offline is None else str(self._offline["text"])

    def present(self) -> Message:
        """Return how things stand now: a snapshot, or that the service is away."""
        return self.known.snapshot() if self._offline is None else self._offline

    def subscribe(self) -> Subscription:
        """Return a subscription that starts with how things stand."""
        page = Subscription(self)
        page.push(self.present())
        self._pages.add(page)
        return page

    def unsubscribe(self, page: Subscription) -> None:
        """Forget a page."""
        self._pages.discard(page)

    def tell(self, notice: Message) -> None:
        """Tell every page something that the service does not know of."""
        passed = now_ms() - (self.known.heard_at or now_ms())
        said = {"kind": "update", "rev": self.known.rev, "now": self.known.now + passed}
        nothing: Message = {"groups": [], "removed": [], "queues": None, "nodes": None}
        self._broadcast({**said, **nothing, "notices": [notice]})

    def retry(self) -> None:
        """Try the service now instead of at the next turn."""
        self._retry_now.set()

    async def run(self) -> None:
        """Listen until cancelled; when the service goes away, tell the pages and look for it again."""
        wait_s = FIRST_RETRY_S
        while True:
            heard_before = self.known.heard_at
            trouble = await self._listen()
            if self.known.heard_at != heard_before:
                wait_s = FIRST_RETRY_S
            await self.client.forget()
            self._tell_offline(trouble, wait_s)
            await self._pause(wait_s)
            wait_s = min(LONGEST_RETRY_S, wait_s * 2)

    async def _listen(self) -> str:
        """Listen to one stream until it ends; return why it did."""
        try:
            since = self.known.rev if self.known.rev >= 0 else None
            async for message in self.client.events_json(since=since):
                self._take(message)
        except KaiJupyterError as error:
            return str(error)
        return "The queue closed the connection; it may be restarting."

    def _take(self, message: Message) -> None:
        was_away, self._offline = self._offline is not None, None
        for group, previous in self.known.take(message):
            if self._on_transition is not None:
                self._on_transition(group, previous)
        self._broadcast(self.known.snapshot() if was_away else message)
        if was_away and message.get("notices"):
            self._broadcast({**message, "kind": "update", "groups": [], "removed": []})

    def _tell_offline(self, text: str, wait_s: float) -> None:
        self._offline = {
            "kind": "offline",
            "now": now_ms(),
            "since": self.known.heard_at,
            "text": text,
            "retry_s": round(wait_s),
        }
        self._broadcast(self._offline)

    async def _pause(self, wait_s: float) -> None:
        self._retry_now.clear()
        jittered = wait_s * (0.75 + random.random() / 2)  # noqa: S311 - spreads servers, guards nothing
        try:
            await asyncio.wait_for(self._retry_now.wait(), jittered)
        except TimeoutError:
            return

    def _broadcast(self, message: Message) -> None:
        for page in tuple(self._pages):
            page.push(message)
