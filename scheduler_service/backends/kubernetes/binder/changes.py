"""Waiting for something to become true of an object that a reflector follows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Changes:
    """Whoever follows objects calls `told(key)`; whoever waits looks again each time."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def told(self, key: str) -> None:
        """Wake those who wait for a change of `key`."""
        for each in self._waiting.pop(key, ()):
            if not each.done():
                each.set_result(None)

    async def until(self, key: str, look: Callable[[], T | None], timeout_s: float) -> T:
        """Return what `look` finds, as soon as it is not None; `TimeoutError` after `timeout_s`."""
        async with asyncio.timeout(timeout_s):
            while True:
                found = look()
                if found is not None:
                    return found
                await self._next(key)

    async def _next(self, key: str) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(key, set())
        waiting.add(future)
        try:
            await future
        finally:
            waiting.discard(future)
            if not waiting and self._waiting.get(key) is waiting:
                del self._waiting[key]
