"""Keys that wait to be looked at: each once however often it is marked, tried again later and later if it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a key waits after its first failure, and at most."""

    first_s: float = 1.0
    longest_s: float = 60.0

    def delay(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row."""
        return float(min(self.first_s * 2 ** min(failures - 1, 20), self.longest_s))


class Work:
    """Runs `look(key)` for marked keys with some workers; never one key twice at once.

    `before` is waited for with the moment since when a key is due; then the key is looked at as it is then.
    """

    def __init__(
        self,
        look: Callable[[str], Awaitable[bool]],
        *,
        before: Callable[[float], Awaitable[None]] | None = None,
        workers: int = 8,
        patience: Patience | None = None,
    ) -> None:
        self._look = look
        self._workers = workers
        self._patience = patience or Patience()
        self._before = before
        self._marked: dict[str, float] = {}
        self._busy: set[str] = set()
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_marked = asyncio.Event()

    def mark(self, key: str, after_s: float = 0.0) -> None:
        """Have a key looked at: now, or (if nothing comes before) after a while; the earliest of several counts."""
        if after_s > 0:
            if key not in self._marked:
                self._ring_by(key, self._now() + after_s)
            return
        self._cancel(key)
        self._marked.setdefault(key, self._now() if self._before is not None else 0.0)
        self._is_marked.set()

    def forget(self, key: str) -> None:
        """Drop a key with its failures."""
        self._cancel(key)
        self._marked.pop(key, None)
        self._failures.pop(key, None)

    async def run(self) -> None:
        """Work for ever; end it by cancelling the task."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _ring_by(self, key: str, moment: float) -> None:
        timer = self._timers.get(key)
        if timer is None or moment < timer.when():
            self._cancel(key)
            self._timers[key] = asyncio.get_running_loop().call_at(moment, self._ring, key)

    def _ring(self, key: str) -> None:
        self._timers.pop(key, None)
        self.mark(key)

    def _cancel(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def _work(self) -> None:
        while True:
            if self._before is not None and (first := self._first()) is not None:
                await self._before(self._marked[first])
            key = self._next()
            if key is None:
                self._is_marked.clear()
                await self._is_marked.wait()
                continue
            self._busy.add(key)
            try:
                is_done = await self._look(key)
            finally:
                self._busy.discard(key)
            self._after(key, is_done=is_done)
            if self._marked:
                self._is_marked.set()

    def _after(self, key: str, *, is_done: bool) -> None:
        if is_done:
            self._failures.pop(key, None)
            return
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.mark(key, self._patience.delay(failures))

    def _next(self) -> str | None:
        key = self._first()
        if key is not None:
            del self._marked[key]
        return key

    def _first(self) -> str | None:
        return next((key for key in self._marked if key not in self._busy), None)
