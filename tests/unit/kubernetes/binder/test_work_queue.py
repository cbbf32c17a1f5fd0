"""Keys to look at: none twice at once, none lost."""

from __future__ import annotations

import asyncio

import pytest

from scheduler_service.backends.kubernetes.binder.work_queue import WorkQueue, delay_s

LONG_S = 30.0


def test_a_key_is_handed_out_once_however_often_it_is_asked_for():
    async def story():
        queue = WorkQueue()
        for key in "abab":
            queue.add(key)
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert len(queue) == 2

    asyncio.run(story())


def test_what_is_asked_for_during_the_work_comes_once_more_afterwards():
    async def story():
        queue = WorkQueue()
        queue.add("a")
        key = await queue.get()
        queue.add("a")
        queue.add("a")
        waiting = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        assert not waiting.done()
        queue.done(key)
        assert await asyncio.wait_for(waiting, LONG_S) == "a"
        queue.done("a")
        assert len(queue) == 0

    asyncio.run(story())


def test_trouble_brings_a_key_back_later_and_success_forgets_it():
    async def story():
        queue = WorkQueue(first_s=0.001, longest_s=0.004)
        queue.add("a")
        waits = [queue.retry(await asyncio.wait_for(queue.get(), LONG_S)) for _ in range(4)]
        assert all(0 < wait <= 0.004 for wait in waits)
        await queue.get()
        queue.forget("a")
        assert queue.retry("a") <= 0.001

    asyncio.run(story())


def test_an_earlier_wish_stands_and_now_goes_before_later():
    async def story():
        queue = WorkQueue()
        queue.add_after("a", 1000)
        queue.add_after("a", 0.001)
        queue.add_after("a", 1000)
        assert await asyncio.wait_for(queue.get(), LONG_S) == "a"
        queue.done("a")
        queue.add_after("b", 1000)
        queue.add("b")
        assert await asyncio.wait_for(queue.get(), LONG_S) == "b"
        queue.done("b")
        assert len(queue) == 0

    asyncio.run(story())


def test_what_can_wait_comes_when_nothing_else_is_ready():
    """A thousand pods are bound before the first is written about."""

    async def story():
        queue = WorkQueue()
        queue.add_when_idle("word")
        queue.add_when_idle("word")
        queue.add("bind 1")
        queue.add("bind 2")
        assert [await queue.get() for _ in range(3)] == ["bind 1", "bind 2", "word"]
        queue.add_when_idle("word")
        queue.done("word")
        assert await asyncio.wait_for(queue.get(), LONG_S) == "word"

    asyncio.run(story())


def test_a_worker_that_is_cancelled_takes_no_key_with_it():
    async def story():
        queue = WorkQueue()
        first = asyncio.ensure_future(queue.get())
        second = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await asyncio.wait_for(second, LONG_S) == "a"

    asyncio.run(story())


@pytest.mark.parametrize(("failures", "wait"), [(0, 1), (1, 1), (2, 2), (5, 16), (7, 60), (99, 60)])
def test_waits_double_up_to_a_minute(failures, wait):
    assert delay_s(failures) == wait
