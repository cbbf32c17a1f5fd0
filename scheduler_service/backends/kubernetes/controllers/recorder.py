"""Tells people news by events: in the background, each once, and never at the cost of scheduling.

Rules: 1. What was said of an object with the same reason and note is not said again until something else is.
2. A long backlog is cut: the oldest news goes first. 3. An event that can not be written is dropped with a log line.
4. While pods are being started news waits a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.bind_worker import Writes
from scheduler_service.backends.kubernetes.encode.event import CLUSTER_WIDE, News, event
from scheduler_service.backends.kubernetes.errors import KubeError

log = logging.getLogger("kai.events")
MOST_WAITING = 20_000
MOST_REMEMBERED = 50_000
AT_ONCE = 4


def now_text() -> str:
    """Return the moment as events have it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Recorder:
    """`tell` takes news at once; `run` writes it."""

    def __init__(self, writes: Writes, reporter: str, now: Callable[[], str] = now_text) -> None:
        self.dropped = 0
        self._writes = writes
        self._reporter = reporter
        self._now = now
        self._waiting: deque[tuple[float, dict[str, Any]]] = deque()
        self._told: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._is_waiting = asyncio.Event()

    def tell(self, news: News) -> None:
        """Have news written soon, unless it is what was told last of this object in this matter."""
        matter = (news.on.uid or news.on.name, news.action)
        said = f"{news.reason}: {news.note}"
        if self._told.get(matter) == said:
            return
        self._told[matter] = said
        self._told.move_to_end(matter)
        if len(self._told) > MOST_REMEMBERED:
            self._told.popitem(last=False)
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        body = event(news, now=self._now(), reporter=self._reporter)
        self._waiting.append((asyncio.get_running_loop().time(), body))
        self._is_waiting.set()

    async def run(self) -> None:
        """Write for ever; end it by cancelling the task."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._is_waiting.clear()
                await self._is_waiting.wait()
            await self._writes.lull.wait(self._waiting[0][0])
            if self._waiting:
                await self._write(self._waiting.popleft()[1])

    async def _write(self, body: dict[str, Any]) -> None:
        namespace = body["metadata"]["namespace"] or CLUSTER_WIDE
        try:
            await self._writes.later("POST", names.EVENTS.path(namespace), body)
        except KubeError as error:
            log.info("an event on %s was not written: %s", body["regarding"].get("name"), error)
