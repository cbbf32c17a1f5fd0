"""Keys to look at, each by one worker at a time; what is asked for meanwhile is looked at once more afterwards.

Rule: a key is never lost: whoever takes one must call `done` or `retry`. Delays grow until `forget`.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Generic, TypeVar

K = TypeVar("K")
LONGEST_S = 60.0


def delay_s(failures: int, *, first_s: float = 1.0, longest_s: float = LONGEST_S) -> float:
    """Return the wait before the next try after `failures` failed ones: doubling, up to `longest_s`."""
    return float(min(longest_s, first_s * 2.0 ** max(0, min(failures, 32) - 1)))


class WorkQueue(Generic[K]):
    """Keys in the order they came, each at most once, none twice at the same time."""

    def __init__(self, *, first_s: float = 0.2, longest_s: float = LONGEST_S) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._ready: deque[K] = deque()
        self._idle: deque[K] = deque()
        self._waiting: set[K] = set()
        self._busy: set[K] = set()
        self._later: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._sleepers: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Return how many keys are waiting, worked on, or due later."""
        return len(self._waiting | self._busy | self._later.keys())

    def add(self, key: K) -> None:
        """Ask for a look at `key` as soon as a worker is free."""
        timer = self._later.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._busy:
            self._ready.append(key)
            self._wake()

    def add_when_idle(self, key: K) -> None:
        """Ask for a look at `key` once nothing else is ready."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._busy:
            self._idle.append(key)
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Ask for a look at `key` later; an earlier wish stands."""
        if key in self._waiting or seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = self._later.get(key)
        if due is not None:
            if due.when() <= loop.time() + seconds:
                return
            due.cancel()
        self._later[key] = loop.call_later(seconds, self._due, key)

    async def get(self) -> K:
        """Return the next key; it is the caller's until `done`."""
        while not (self._ready or self._idle):
            sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._sleepers.append(sleeper)
            try:
                await sleeper
            except asyncio.CancelledError:
                if sleeper.done() and not sleeper.cancelled():
                    self._wake()
                raise
        key = (self._ready or self._idle).popleft()
        self._waiting.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: K) -> None:
        """Give `key` back; if it was asked for meanwhile, it comes again."""
        self._busy.discard(key)
        if key in self._waiting:
            self._ready.append(key)
            self._wake()

    def retry(self, key: K) -> float:
        """Give `key` back after trouble; return in how many seconds it comes again."""
        self._failures[key] = self._failures.get(key, 0) + 1
        longest = delay_s(self._failures[key], first_s=self._first_s, longest_s=self._longest_s)
        wait = longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        self.done(key)
        self.add_after(key, wait)
        return wait

    def forget(self, key: K) -> None:
        """Let the next trouble with `key` start from the shortest wait."""
        self._failures.pop(key, None)

    def _due(self, key: K) -> None:
        self._later.pop(key, None)
        self.add(key)

    def _wake(self) -> None:
        while self._sleepers:
            sleeper = self._sleepers.popleft()
            if not sleeper.done():
                sleeper.set_result(None)
                return
