"""The life of a lease: asked, granted, extended, moved to a restarted kernel, over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler_service.ports import RefusedRequest
from scheduler_service.wire.pod_group import Cancel, Extend, Move, Origin, Process
from scheduler_service.wire.runner import Beat, PodBeat, Progress
from tests.fakes.bench_service import ANA, ROOT, Stage
from tests.fakes.machine import own_process

KERNEL = Origin(notebook="train.ipynb", kernel_id="k-1")


def test_from_asking_to_release(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        asked = await stage.ask(kind="lease", gpu=0.5, lease_s=7200, origin=KERNEL)
        assert (asked.state, asked.word, asked.name) == ("Starting", "Starting", "lease")
        (order,) = await stage.start()
        granted = await stage.view(ANA, "lease")
        assert (granted.state, granted.word, granted.tone, granted.icon) == (
            "Running",
            "Granted",
            "ok",
            "tick",
        )
        assert granted.headline.startswith("0.5 GPU on node-0 until ")
        assert granted.headline.endswith("(12 GiB)")
        assert "simulated" in granted.notes
        assert granted.expires_at == stage.clock() + 7_200_000
        assert [share.milli for share in order.devices] == [500]
        stage.clock.pass_s(3600)
        over = await stage.service.cancel(ANA, "ana", "lease", Cancel())
        assert (over.state, over.word) == ("Succeeded", "Released")
        assert over.headline == "Released. 0.5 GPU-hours used."
        assert over.gpu_seconds == 1800
        again = await stage.service.cancel(ANA, "ana", "lease", Cancel())
        assert again.ended_at == over.ended_at

    asyncio.run(story())


def test_withdrawn_before_it_was_granted(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(kind="lease", gpu=1)
        await stage.ask(kind="lease", gpu=1, name="second")
        gone = await stage.service.cancel(ANA, "ana", "second", Cancel())
        assert (gone.state, gone.headline) == ("Cancelled", "Cancelled. It held no GPU.")

    asyncio.run(story())


def test_only_what_has_an_end_can_be_extended(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="lease", gpu=0.5, lease_s=600, name="timed")
        await stage.ask(kind="lease", gpu=0.5, name="endless")
        await stage.start()
        timed, endless = await stage.view(ANA, "timed"), await stage.view(ANA, "endless")
        assert [action.id for action in timed.actions] == ["release", "extend"]
        assert [action.id for action in endless.actions] == ["release"]
        with pytest.raises(RefusedRequest) as told:
            await stage.service.extend(ANA, "ana", "endless", Extend(by_s=600))
        assert told.value.problem.code == "no_end"
        assert told.value.problem.detail == "This lease has no end."
        kept = await stage.service.extend(ANA, "ana", "endless", Extend())
        assert (kept.state, kept.expires_at) == ("Running", None)

    asyncio.run(story())


def test_one_that_waits_for_a_lease_with_an_end_gets_a_longer_one(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(kind="lease", gpu=1, name="first")
        await stage.ask(kind="lease", gpu=1, lease_s=600, name="second")
        await stage.service.extend(ANA, "ana", "second", Extend(by_s=600))
        await stage.service.cancel(ANA, "ana", "first", Cancel())
        await stage.turn()
        await stage.start()
        granted = await stage.view(ANA, "second")
        assert granted.expires_at == (granted.granted_at or 0) + 1_200_000

    asyncio.run(story())


def test_its_time_is_told_before_and_ends_it(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="lease", gpu=1, lease_s=600)
        await stage.start()
        rev = stage.service.changes.rev
        await stage.pass_s(310)
        news = stage.service.changes.since(rev)
        assert news is not None
        assert [item.notice.kind for item in news.notices] == ["ending"]
        await stage.pass_s(300)
        over = await stage.view(ANA, "lease")
        assert over.state == "Succeeded"
        assert over.headline.startswith("Its time was over at ")

    asyncio.run(story())


def test_extended_in_time(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="lease", gpu=1, lease_s=600)
        await stage.start()
        longer = await stage.service.extend(ANA, "ana", "lease", Extend(by_s=3600))
        await stage.pass_s(700)
        assert (await stage.view(ANA, "lease")).state == "Running"
        kept = await stage.service.extend(ANA, "ana", "lease", Extend())
        assert (longer.expires_at, kept.expires_at) == (stage.clock() - 700_000 + 4_200_000, None)
        await stage.service.cancel(ANA, "ana", "lease", Cancel())
        with pytest.raises(RefusedRequest) as refused:
            await stage.service.extend(ANA, "ana", "lease", Extend(by_s=60))
        assert refused.value.problem.code == "is_over"

    asyncio.run(story())


def test_a_wait_that_is_too_long_is_withdrawn(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(kind="lease", gpu=1)
        await stage.ask(kind="lease", gpu=1, name="second", max_wait_s=60)
        await stage.pass_s(59)
        assert (await stage.view(ANA, "second")).state == "Waiting"
        await stage.pass_s(2)
        gone = await stage.view(ANA, "second")
        assert (gone.state, gone.word) == ("Cancelled", "Withdrawn")
        assert gone.headline == "Not granted within 60 s; the request was withdrawn."

    asyncio.run(story())


def test_moves_to_the_restarted_kernel_within_its_time(tmp_path: Path) -> None:
    """The kernel is restarted: its old process ends, the new one of the same kernel id takes the lease over."""

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="lease", gpu=1, origin=KERNEL)
        (old,) = await stage.start()
        await stage.end(old)
        waiting = await stage.view(ANA, "lease")
        assert (waiting.state, waiting.word) == ("Running", "Restarting")
        await stage.pass_s(50)
        mine = own_process()
        new = Process(pid=mine.pid, start_ticks=mine.start_ticks, cuda_initialised=True)
        await stage.service.move(ANA, "ana", "lease", Move(process=new, kernel_id="k-1"))
        (order,) = await stage.start()
        moved = await stage.view(ANA, "lease")
        assert (moved.state, moved.word) == ("Running", "Granted")
        assert order.devices == old.devices
        assert order.incarnation != old.incarnation
        assert await stage.service.incarnation_of_token(old.token) is None
        await stage.pass_s(120)
        assert (await stage.view(ANA, "lease")).state == "Running"

    asyncio.run(story())


def test_released_when_its_kernel_does_not_come_back(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(kind="lease", gpu=1, origin=KERNEL)
        (order,) = await stage.start()
        await stage.ask(gpu=1, name="next")
        await stage.end(order)
        assert (await stage.view(ANA, "next")).state == "Waiting"
        await stage.pass_s(61)
        assert (await stage.view(ANA, "lease")).state == "Succeeded"
        assert (await stage.view(ANA, "next")).state == "Starting"

    asyncio.run(story())


def test_another_kernel_can_not_take_it(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="lease", gpu=1, origin=KERNEL)
        await stage.start()
        with pytest.raises(RefusedRequest) as refused:
            await stage.service.move(
                ANA, "ana", "lease", Move(process=own_process(), kernel_id="k-2")
            )
        assert refused.value.problem.code == "other_kernel"

    asyncio.run(story())


def test_an_admin_ends_it_and_the_owner_reads_by_whom(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="lease", gpu=1)
        await stage.start()
        await stage.service.cancel(ROOT, "ana", "lease", Cancel(reason="Maintenance at 18:00."))
        over = await stage.view(ANA, "lease")
        assert over.state == "Cancelled"
        assert over.headline.startswith("Cancelled by root.")
        (line, *_) = stage.service.audit.lines(last=1)
        assert (line.user, line.action, line.object) == ("root", "cancel", "ana/lease")

    asyncio.run(story())


def test_a_taken_name_gets_a_number_and_that_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        first = await stage.ask(gpu=0.1, name="train")
        second = await stage.ask(gpu=0.1, name="train")
        assert (first.name, second.name) == ("train", "train-2")
        assert "renamed to train-2: train is taken" in second.notes

    asyncio.run(story())


def test_the_same_key_gives_the_same_group(tmp_path: Path) -> None:
    """A client sends its request again because the answer was lost."""

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        first = await stage.ask(gpu=0.5, key="once")
        again = await stage.ask(gpu=0.5, key="once")
        assert (again.name, len(stage.service.records)) == (first.name, 1)
        await stage.restart()
        later = await stage.ask(gpu=0.5, key="once")
        assert (later.name, len(stage.service.records)) == (first.name, 1)

    asyncio.run(story())


def test_what_workers_say_is_shown(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="gang", gpu=0.5, workers=2, name="sweep")
        orders = await stage.start()
        beats = tuple(
            PodBeat(
                incarnation=o.incarnation, progress=Progress(step=1240 - 38 * o.rank, total=3200)
            )
            for o in orders
        )
        await stage.service.beat(ANA, Beat(runner="runner-1", pods=beats))
        view = await stage.view(ANA, "sweep")
        assert view.headline.endswith("Step 1,240 of 3,200.")
        assert view.detail == "Worker 1 is 38 steps behind."

    asyncio.run(story())
