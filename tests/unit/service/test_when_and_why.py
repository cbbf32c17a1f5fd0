"""Forecasts before asking, times while waiting, and the reasons told."""

from __future__ import annotations

import asyncio
from pathlib import Path

from scheduler_service.ports import ForecastAsk
from scheduler_service.wire.pod_group import Cancel
from tests.fakes.bench_service import ANA, BEN, Stage


def test_now_about_unknown_and_never(tmp_path: Path) -> None:
    async def story() -> list[tuple[str, str]]:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        told = []

        async def look(**fields: object) -> None:
            view = await stage.service.forecast(ANA, ForecastAsk(**fields))  # type: ignore[arg-type]
            told.append((view.verdict, view.text))

        await look(gpu=0.5)
        await stage.ask(kind="lease", gpu=1, name="endless")
        await look(gpu=0.5)
        await look(gpu=2)
        await look(gpu_memory="80GiB")
        await stage.service.cancel(ANA, "ana", "endless", Cancel())
        await stage.turn()
        await stage.ask(gpu=1, name="declared", declared_run_s=600)
        await look(gpu=0.5, kind="batch")
        await look(gpu=0.5, kind="lease")
        waiting = await stage.service.groups(ANA, queue=None, state="Waiting", mine=True)
        assert waiting.items == ()
        return told

    assert asyncio.run(story()) == [
        ("now", "now"),
        ("unknown", "no time known"),
        ("never", "never: largest node has 1 GPU, you asked for 2 on one node"),
        ("never", "never: the largest GPU has 24 GiB, you asked for 80 GiB on one"),
        ("about", "about 9 min (7 to 11)"),
        ("about", "about 6 s (0 to 15): others are asked to make room"),
    ]


def test_a_forecast_says_that_the_gpus_are_simulated(tmp_path: Path) -> None:
    """On a laptop nobody may take the answer for a promise of real devices, not even a "never"."""

    async def story() -> list[bool]:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        asks = (ForecastAsk(gpu=0.5), ForecastAsk(gpu=16))
        return [(await stage.service.forecast(ANA, ask)).simulated for ask in asks]

    assert asyncio.run(story()) == [True, True]


def test_who_waits_for_a_leaving_one_waits_as_long_as_that_one_may_take(tmp_path: Path) -> None:
    """Somebody cancels work that saves a checkpoint for half a minute; the next reads when it starts."""

    async def story() -> str:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(gpu=1, name="saves", kind="batch")
        await stage.start()
        await stage.ask(gpu=1, name="next", kind="batch")
        await stage.service.cancel(ANA, "ana", "saves", Cancel(grace_s=30))
        await stage.turn()
        view = await stage.view(ANA, "next")
        return "" if view.eta is None else view.eta.text

    assert asyncio.run(story()) == "about 12 s (0 to 30)"


def test_a_forecast_leaves_no_trace(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=1)
        before = stage.service.loop.ledger.snapshot(0)
        for gpu in (0.5, 1, 2):
            await stage.service.forecast(BEN, ForecastAsk(gpu=gpu, workers=2))
        assert stage.service.loop.ledger.snapshot(0) == before

    asyncio.run(story())


def test_a_waiting_lease_says_when_and_offers_what_starts_now(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(BEN, kind="lease", gpu=0.5, lease_s=600)
        await stage.start(BEN)
        view = await stage.ask(ANA, kind="lease", gpu=1, name="mine")
        assert view.headline == "Position 1 of 1. About 8 min (7 to 10)."
        assert view.eta is not None
        assert view.eta.latest_at == stage.clock() + 600_000
        smaller = [action for action in view.actions if action.id == "smaller"]
        assert [(a.label, a.eta_text, a.code) for a in smaller] == [
            ("0.5 GPU", "now", "%gpu 0.5"),
            ("0.25 GPU", "now", "%gpu 0.25"),
            ("0.1 GPU", "now", "%gpu 0.1"),
        ]
        assert [action.id for action in view.actions][-2:] == ["why", "cancel"]
        offered = smaller[0].submit
        assert offered is not None
        assert (offered.gpu, offered.kind, offered.process) == ("0.5", "lease", view_process(stage))

    asyncio.run(story())


def test_whose_end_would_help_is_told_without_a_name(tmp_path: Path) -> None:
    """Whoever waits hears how much of which queue has to end and when, not whose it is."""

    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(BEN, kind="lease", gpu=1, lease_s=600, name="secret")
        await stage.start(BEN)
        await stage.ask(ANA, gpu=1, name="mine")
        told = await stage.service.explain(ANA, "ana", "mine")
        helps = [item.text for item in told.items if item.title == "Would help"]
        assert helps == ["Fits if 1 GPU of default ends, about 8 min (7 to 10)."]
        assert "secret" not in " ".join(item.text for item in told.items)

    asyncio.run(story())


def test_the_end_of_either_of_two_alike_is_told_once(tmp_path: Path) -> None:
    """Two leases of the same size hold the GPU; the end of either would do, and the sentence is the same."""

    async def story() -> list[str]:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        for name in ("one", "other"):
            await stage.ask(BEN, kind="lease", gpu=0.5, name=name)
            await stage.start(BEN)
        await stage.ask(ANA, gpu=0.5, name="mine")
        told = await stage.service.explain(ANA, "ana", "mine")
        return [item.text for item in told.items if item.title == "Would help"]

    assert asyncio.run(story()) == ["Fits if 0.5 GPU of default ends, no time known."]


def test_the_waiting_list_is_told_anew_when_a_time_in_it_changes(tmp_path: Path) -> None:
    """A panel shows the request and its row in the queue side by side: both must say the same time."""

    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(gpu=1, name="runs", declared_run_s=600)
        await stage.start()
        await stage.ask(gpu=1, name="waits", declared_run_s=600)
        before = (await stage.view(ANA, "waits")).eta
        rev = stage.service.changes.rev
        for _ in range(10):
            await stage.pass_s(30)
        after = (await stage.view(ANA, "waits")).eta
        (queue,) = await stage.service.queues(ANA)
        news = stage.service.changes.since(rev)
        assert before is not None
        assert after is not None
        assert before.text != after.text == queue.waiting_rows[0].eta_text
        assert news is not None
        assert "queues" in news.parts

    asyncio.run(story())


def view_process(stage: Stage) -> object:
    record = stage.service.records.find("ana/mine")
    assert record is not None
    return record.ask.process


def test_with_many_waiting_the_look_ahead_is_taken_aside(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(gpu=1, name="runs", declared_run_s=600)
        await stage.start()
        for number in range(12):
            await stage.ask(gpu=1, name=f"w{number}", declared_run_s=600)
        assert (await stage.view(ANA, "w11")).eta is None
        before = stage.service.loop.ledger.snapshot(0)
        await stage.pass_s(1)
        assert stage.service.loop.ledger.snapshot(0) == before
        first, last = await stage.view(ANA, "w0"), await stage.view(ANA, "w11")
        assert first.eta is not None
        assert last.eta is not None
        assert (first.eta.text, last.eta.basis) == ("about 9 min (7 to 11)", "declared")
        assert (first.eta.likely_at or 0) < (last.eta.likely_at or 0)
        asked = await stage.service.forecast(ANA, ForecastAsk(gpu=1, kind="batch"))
        assert (asked.verdict, asked.position) == ("about", 13)

    asyncio.run(story())


def test_the_end_of_like_work_supports_a_time(tmp_path: Path) -> None:
    """Nothing was declared; five batches of the same person ran 100 to 500 s."""

    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        for seconds in (100, 200, 300, 400, 500):
            await stage.ask(gpu=1)
            (order,) = await stage.start()
            stage.clock.pass_s(seconds)
            await stage.end(order)
        await stage.ask(gpu=1)
        await stage.start()
        view = await stage.ask(gpu=1, name="next")
        assert view.eta is not None
        assert view.eta.basis == "observed"
        assert (view.eta.earliest_at, view.eta.latest_at) == (
            stage.clock() + 100_000,
            stage.clock() + 500_000,
        )

    asyncio.run(story())


def test_why_tells_reasons_who_is_ahead_what_frees_it_and_what_is_yours(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(ANA, kind="lease", gpu=1, lease_s=600, name="first")
        await stage.ask(BEN, gpu=1, name="ahead")
        await stage.ask(ANA, gpu=1, name="mine")
        told = await stage.service.explain(ANA, "ana", "mine")
        titles = [item.title for item in told.items]
        assert titles[-3:] == ["Ahead of you", "Frees it", "Yours"]
        assert told.position == 2
        assert told.items[-3].text == "1 request before yours in default."
        assert told.items[-2].text.startswith("A lease of 1 GPU in default ends at ")
        assert told.items[-1].text == "first holds 1 GPU."
        assert told.reasons
        assert all(len(item.text) <= 90 for item in told.items)

    asyncio.run(story())


def test_what_is_over_is_explained_with_its_cause(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(kind="batch", gpu=1, name="run")
        (order,) = await stage.start(ANA)
        await stage.end(order, exit_code=3)
        view = await stage.service.group(ANA, "ana", "run")
        assert view.state == "Failed"
        assert view.detail
        told = await stage.service.explain(ANA, "ana", "run")
        assert told.headline == view.sentence
        assert view.detail in told.headline

    asyncio.run(story())
