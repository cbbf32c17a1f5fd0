"""Long answers: server-sent events and long polls, which all end at once when the service closes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any, TypeVar

from starlette.responses import StreamingResponse

from scheduler_service.api.answers import to_json
from scheduler_service.api.guards import Activity

T = TypeVar("T")

HEARTBEAT_S = 15.0
"""A comment so often keeps proxies from cutting a quiet stream, and finds readers that went away."""
RETRY_MS = 1000


class Closing:
    """The moment from which nobody waits any more."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def begin(self) -> None:
        """End every stream and long poll."""
        self._event.set()

    @property
    def begun(self) -> bool:
        """Whether the service closes."""
        return self._event.is_set()

    async def first(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return what `work` returns, or None if the service closes before."""
        task = asyncio.ensure_future(work)
        closed = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, closed}, return_when=asyncio.FIRST_COMPLETED)
            return await task if task.done() else None
        finally:
            await _end(task, closed)

    async def items(
        self, stream: AsyncIterator[T], *, heartbeat_s: float = HEARTBEAT_S
    ) -> AsyncGenerator[T | None, None]:
        """Yield the items of `stream` until it or the service ends, None whenever nothing came for `heartbeat_s`."""
        closed = asyncio.ensure_future(self._event.wait())
        following: asyncio.Future[T] | None = None
        try:
            while not closed.done():
                following = following or asyncio.ensure_future(anext(stream))
                waited: set[asyncio.Future[Any]] = {following, closed}
                await asyncio.wait(waited, timeout=heartbeat_s, return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    if not closed.done():
                        yield None
                    continue
                item = following.result()
                following = None
                yield item
        except StopAsyncIteration:
            return
        finally:
            await _end(closed, *([following] if following else []))
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()


async def _end(*futures: asyncio.Future[Any]) -> None:
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)


def message(value: object, *, message_id: int | None = None, event: str | None = None) -> bytes:
    """Return one server-sent event."""
    head = b""
    if message_id is not None:
        head += b"id: %d\n" % message_id
    if event is not None:
        head += b"event: %s\n" % event.encode()
    return head + b"data: " + to_json(value) + b"\n\n"


def event_stream(messages: AsyncIterator[bytes | None], activity: Activity) -> StreamingResponse:
    """Return the answer that sends `messages`; None is sent as a heartbeat. Counts as an open stream while it lasts."""
    return StreamingResponse(
        _with_heartbeats(messages, activity),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _with_heartbeats(
    messages: AsyncIterator[bytes | None], activity: Activity
) -> AsyncIterator[bytes]:
    activity.open_streams += 1
    try:
        yield b"retry: %d\n\n" % RETRY_MS
        async for item in messages:
            yield b": still here\n\n" if item is None else item
    finally:
        activity.open_streams -= 1
        activity.touch()
        if isinstance(messages, AsyncGenerator):
            await messages.aclose()
