"""When the embedded service goes home: nobody asked for long enough, and nothing is live."""

from __future__ import annotations

import asyncio

from scheduler_service.api.guards import Activity
from scheduler_service.cli.serving import end_when_idle
from scheduler_service.wire import pod_group
from tests.fakes.api_server import ANA
from tests.fakes.scheduler import FakeScheduler

IDLE_S = 600.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class WatchedScheduler(FakeScheduler):
    """Tells when it is asked for what is live."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def groups(self, caller, **filters):
        found = await super().groups(caller, **filters)
        self.asked.set()
        return found


async def watch(
    scheduler: WatchedScheduler, activity: Activity, stop: asyncio.Event, check_s=0.001
):
    """Watch with real checks that come fast, and idle time that only the test's clock lets pass."""
    await end_when_idle(scheduler, activity, IDLE_S, stop=stop, check_s=check_s)


def test_it_ends_when_nobody_asked_and_nothing_is_live():
    async def life() -> bool:
        clock, stop, scheduler = Clock(), asyncio.Event(), WatchedScheduler()
        activity = Activity(clock)
        clock.now = IDLE_S
        await asyncio.wait_for(watch(scheduler, activity, stop), 30)
        return stop.is_set()

    assert asyncio.run(life())


def test_a_live_request_keeps_it():
    """When a gang trains over night and everybody closed their notebooks."""

    async def life() -> bool:
        clock, stop, scheduler = Clock(), asyncio.Event(), WatchedScheduler()
        activity = Activity(clock)
        view, _ = await scheduler.submit(ANA, pod_group.Submit(gpu="1"), idempotency_key=None)
        clock.now = IDLE_S
        watching = asyncio.create_task(watch(scheduler, activity, stop))
        for _ in range(2):
            scheduler.asked.clear()
            await asyncio.wait_for(scheduler.asked.wait(), 30)
        was_kept = not stop.is_set()
        await scheduler.cancel(ANA, view.namespace, view.name, pod_group.Cancel())
        await asyncio.wait_for(watching, 30)
        return was_kept and stop.is_set()

    assert asyncio.run(life())


def test_an_open_stream_is_a_client_and_asking_starts_the_time_anew():
    clock = Clock()
    activity = Activity(clock)
    clock.now = 100
    assert activity.idle_s() == 100
    activity.open_streams = 1
    assert activity.idle_s() == 0
    activity.open_streams = 0
    activity.touch()
    clock.now = 130
    assert activity.idle_s() == 30
