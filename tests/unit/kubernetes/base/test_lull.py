"""What no pod waits for is written when nothing urgent is under way, and never much too late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from scheduler_service.backends.kubernetes.controllers.recorder import Recorder
from scheduler_service.backends.kubernetes.controllers.work import Work
from scheduler_service.backends.kubernetes.encode.event import News, On
from scheduler_service.backends.kubernetes.lull import Lull

POD = On("v1", "Pod", "a", "p", "uid")


class Writes:
    def __init__(self, longest_s: float = 3600) -> None:
        self.lull = Lull(longest_s)
        self.written: list[str] = []
        self.changed = asyncio.Event()

    async def later(self, _method: str, _path: str, body: dict[str, Any]) -> None:
        self.written.append(body["note"])
        self.changed.set()

    async def until(self, right: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not right():
                self.changed.clear()
                await self.changed.wait()


async def let_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def told(recorder: Recorder, *notes: str) -> None:
    for note in notes:
        recorder.tell(News(POD, "Normal", note, note, note))


async def recorded(writes: Any, story: Callable[[Recorder], Any]) -> None:
    recorder = Recorder(writes, "test")
    running = asyncio.create_task(recorder.run())
    try:
        await story(recorder)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_news_waits_until_the_last_urgent_write_is_done() -> None:
    async def story(recorder: Recorder) -> None:
        with writes.lull.busy():
            with writes.lull.busy():
                told(recorder, "one", "two")
                await let_run()
            await let_run()
            assert writes.written == []
        await writes.until(lambda: writes.written == ["one", "two"])

    writes = Writes()
    asyncio.run(recorded(writes, story))


def test_news_that_waited_too_long_is_written_in_the_midst_of_it() -> None:
    async def story(recorder: Recorder) -> None:
        with writes.lull.busy():
            told(recorder, "one", "two")
            await writes.until(lambda: writes.written == ["one", "two"])

    writes = Writes(longest_s=0.01)
    asyncio.run(recorded(writes, story))


def test_an_urgent_write_that_fails_keeps_nobody_waiting() -> None:
    async def story() -> None:
        lull = Lull()
        with suppress(OSError), lull.busy():
            raise OSError
        assert lull.is_quiet
        await lull.wait(0.0)

    asyncio.run(story())


def test_what_is_marked_while_it_waits_is_looked_at_once_as_it_is_then() -> None:
    async def story() -> None:
        lull, state, seen = Lull(3600), ["early"], list[str]()
        changed = asyncio.Event()

        async def look(_key: str) -> bool:
            seen.append(state[0])
            changed.set()
            return True

        work = Work(look, workers=3, before=lull.wait)
        running = asyncio.create_task(work.run())
        with lull.busy():
            work.mark("a")
            await let_run()
            state[0] = "late"
            work.mark("a")
            await let_run()
            assert seen == []
        async with asyncio.timeout(30):
            await changed.wait()
        await let_run()
        assert seen == ["late"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())
