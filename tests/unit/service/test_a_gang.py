"""Gangs: all start or none, the first failure stops the rest and shows first, results come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from scheduler_service.wire.pod_group import Cancel, ResultItem
from scheduler_service.wire.runner import Failure
from tests.fakes.bench_service import ANA, Stage


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def test_waits_until_all_fit_then_all_start(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="lease", gpu=1)
        (lease,) = await stage.start()
        gang = await stage.ask(kind="gang", gpu=0.5, workers=4, name="sweep")
        assert (gang.state, gang.icon) == ("Waiting", "squares")
        assert gang.headline.startswith("2 of 4 workers fit. Starts when all 4 do.")
        assert [pod.fits for pod in gang.pods] == [True, True, False, False]
        assert await stage.claim() == ()
        await stage.service.cancel(ANA, "ana", "lease", Cancel())
        await stage.turn()
        orders = await stage.start()
        assert [order.rank for order in orders] == [0, 1, 2, 3]
        running = await stage.view(ANA, "sweep")
        assert running.state == "Running"
        assert running.headline.startswith("4 of 4 workers run")
        assert lease.incarnation not in {order.incarnation for order in orders}

    asyncio.run(story())


def test_first_failure_stops_the_others_and_is_shown(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="gang", gpu=0.25, workers=3, name="sweep")
        orders = await stage.start()
        failure = Failure(message="ValueError: no", traceback="…", cell_line=6, source="a\nb")
        await stage.end(orders[1], exit_code=1, failure=failure)
        stopping = await stage.view(ANA, "sweep")
        assert stopping.state == "Stopping"
        told = await stage.service.orders(ANA, runner_name="runner-1", wait_s=0)
        assert {stop.incarnation for stop in told.stops} == {
            orders[0].incarnation,
            orders[2].incarnation,
        }
        again = await stage.service.orders(ANA, runner_name="runner-1", wait_s=0)
        assert again.stops == ()
        stage.clock.pass_s(6)
        repeated = await stage.service.orders(ANA, runner_name="runner-1", wait_s=0)
        assert len(repeated.stops) == 2
        for order in (orders[0], orders[2]):
            await stage.end(order, exit_code=None, signal="SIGTERM")
        over = await stage.view(ANA, "sweep")
        assert (over.state, over.word) == ("Failed", "Failed")
        assert over.headline.startswith("Worker 1 failed first, at ")
        assert over.headline.endswith("The other 2 were stopped with it.")
        assert over.detail == "ValueError: no"
        assert over.failure is not None
        assert (over.failure.rank, over.failure.cell_line) == (1, 6)
        assert [pod.state for pod in over.pods] == ["Failed"] * 3
        assert {pod.reason.code for pod in over.pods if pod.reason} == {"failed", "stopped"}

    asyncio.run(story())


def test_results_come_back_also_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="gang", gpu=0.5, workers=2, name="sweep")
        orders = await stage.start()
        await stage.service.store_result(
            orders[0].incarnation, chunks(b"pick", b"led"), signature="signed"
        )
        loss = ResultItem(name="loss", text="0.2143 float", size=24)
        await stage.end(orders[0], results=(loss,))
        await stage.end(orders[1])
        done = await stage.view(ANA, "sweep")
        assert (done.state, done.word, done.results) == ("Succeeded", "Result ready", (loss,))
        assert done.headline.startswith("All 2 workers finished at ")
        assert done.headline.endswith("1 GPU is released.")
        await stage.restart()
        path, signature = await stage.service.result(ANA, "ana", "sweep", rank=0)
        assert (path.read_bytes(), signature) == (b"pickled", "signed")

    asyncio.run(story())


def test_workers_may_end_one_after_the_other(tmp_path: Path) -> None:
    """Rank 0 saves for a long time after the others are done; nobody takes it for a gang that fell apart."""

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="gang", gpu=0.5, workers=2, name="sweep")
        orders = await stage.start()
        await stage.end(orders[1])
        await stage.pass_s(300)
        assert (await stage.view(ANA, "sweep")).state == "Running"
        await stage.end(orders[0])
        assert (await stage.view(ANA, "sweep")).state == "Succeeded"

    asyncio.run(story())


def test_an_elastic_gang_starts_with_its_minimum(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        view = await stage.ask(kind="gang", gpu=1, workers=4, min_members=2, name="sweep")
        assert [pod.state for pod in view.pods].count("Binding") == 2

    asyncio.run(story())


def test_stopping_a_gang_gives_its_places_back_only_when_all_have_ended(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="gang", gpu=1, workers=2, name="sweep")
        orders = await stage.start()
        await stage.ask(gpu=1, name="next")
        await stage.service.cancel(ANA, "ana", "sweep", Cancel())
        await stage.turn()
        assert (await stage.view(ANA, "next")).state == "Waiting"
        await stage.end(orders[0], exit_code=None, signal="SIGTERM")
        assert (await stage.view(ANA, "next")).state == "Starting"
        assert (await stage.view(ANA, "sweep")).state == "Stopping"
        await stage.end(orders[1], exit_code=0)
        assert (await stage.view(ANA, "sweep")).state == "Cancelled"

    asyncio.run(story())
