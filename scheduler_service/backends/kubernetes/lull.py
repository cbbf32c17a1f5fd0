"""What can wait waits while pods are being started: the API server's time goes to them first.

Rules: 1. While a write is under way that a pod waits for, no write is begun that none waits for. 2. None waits longer
than `LONGEST_S`, counted from when it was due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONGEST_S = 30.0


class Lull:
    """`busy` counts what is urgent; `wait` returns when there is none of it, or when waiting took too long."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._longest_s = longest_s
        self._under_way = 0
        self._is_quiet = asyncio.Event()
        self._is_quiet.set()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing urgent is under way."""
        return not self._under_way

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Have others wait for the length of the block."""
        self._under_way += 1
        self._is_quiet.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._is_quiet.set()

    async def wait(self, since: float) -> None:
        """Return when it is quiet, or so long after `since` (a moment of the event loop's clock)."""
        end = since + self._longest_s
        clock: Callable[[], float] = asyncio.get_running_loop().time
        while not self.is_quiet and clock() < end:
            try:
                async with asyncio.timeout_at(end):
                    await self._is_quiet.wait()
            except TimeoutError:
                return
