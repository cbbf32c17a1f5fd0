"""What a service finds when it comes back: everything queued, everything that runs, nothing twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

from scheduler_service.ports import LogAsk
from scheduler_service.wire.runner import ClaimRequest, HeldPod, LogChunk, LogLine, Report
from tests.fakes.bench_service import ANA, Stage
from tests.fakes.machine import own_process


def test_queue_and_places_are_as_before(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="lease", gpu=1, name="holds")
        await stage.start()
        await stage.ask(gpu=1, name="starting")
        await stage.ask(gpu=2, name="waits")
        before = [await stage.view(ANA, name) for name in ("holds", "starting", "waits")]
        await stage.restart()
        after = [await stage.view(ANA, name) for name in ("holds", "starting", "waits")]
        assert [(v.state, v.pods, v.timeline) for v in before] == [
            (v.state, v.pods, v.timeline) for v in after
        ]
        assert after[2].position == 1

    asyncio.run(story())


def test_adopts_what_the_runner_holds_and_disowns_what_it_does_not_know(tmp_path: Path) -> None:
    """Killed between the runner's start and its report: the runner tells again what it holds."""

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=1, name="train")
        (order,) = await stage.claim()
        await stage.restart()
        mine = own_process()
        held = (
            HeldPod(incarnation=order.incarnation, pid=mine.pid, start_ticks=mine.start_ticks),
            HeldPod(incarnation="stranger", pid=1, start_ticks=1),
        )
        answer = await stage.service.claim(
            ANA, ClaimRequest(runner="runner-1", host="here", held=held)
        )
        assert answer.unknown == ("stranger",)
        assert answer.starts == ()
        assert (await stage.view(ANA, "train")).state == "Running"

    asyncio.run(story())


def test_an_order_whose_answer_was_lost_is_given_again(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu="1", name="train")
        first = await stage.claim()
        await stage.restart()
        again = await stage.claim()
        assert again == first
        assert await stage.claim(runner="another") == ()

    asyncio.run(story())


def test_a_report_whose_answer_was_lost_is_told_again_and_changes_nothing(tmp_path: Path) -> None:
    """Killed between the write and the answer: the runner tells the next service the same."""

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="gang", workers=2, gpu="0.5", name="train")
        await stage.start()
        orders = await stage.claim()
        assert orders == (), "what runs is given to nobody"
        first, second = (pod.incarnation for pod in stage.service.records.find("ana/train").pods)
        for incarnation in (first, first, second, second):
            await stage.restart()
            report = Report(incarnation=incarnation, kind="ended", at=stage.clock(), exit_code=0)
            await stage.service.report(ANA, report)
            assert await stage.claim() == ()
        over = await stage.view(ANA, "train")
        assert over.state == "Succeeded"
        assert [line.text for line in over.timeline].count("Finished") == 1

    asyncio.run(story())


def test_a_runner_that_never_comes_back_gives_up_its_places_in_time(tmp_path: Path) -> None:
    """The machine was restarted. A claimed pod that never started is free for another runner."""

    async def story() -> None:
        stage = await Stage(tmp_path, runner_lost_s=300).begin()
        await stage.ask(gpu=1, name="train")
        (order,) = await stage.claim()
        await stage.pass_s(200)
        assert await stage.claim(runner="another") == ()
        await stage.pass_s(200)
        (again,) = await stage.claim(runner="another")
        assert again.incarnation == order.incarnation

    asyncio.run(story())


def test_a_silent_runner_keeps_the_place_of_a_process_that_lives(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, runner_lost_s=300).begin()
        await stage.ask(gpu=1, name="train")
        await stage.start()
        await stage.pass_s(4000)
        assert (await stage.view(ANA, "train")).state == "Running"

    asyncio.run(story())


def test_a_pod_whose_runner_and_process_are_gone_has_failed(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, runner_lost_s=300).begin()
        await stage.ask(gpu=1, name="train")
        (order,) = await stage.claim()
        gone = HeldPod(incarnation=order.incarnation, pid=2**22 - 7, start_ticks=1)
        await stage.service.claim(ANA, ClaimRequest(runner="runner-1", host="h", held=(gone,)))
        await stage.pass_s(400)
        over = await stage.view(ANA, "train")
        assert (over.state, over.pods[0].reason.code if over.pods[0].reason else "") == (
            "Failed",
            "runner_lost",
        )
        assert over.detail == "Its runner is gone and the process with it; ask again."

    asyncio.run(story())


def test_a_damaged_state_file_is_moved_aside_and_told(tmp_path: Path) -> None:
    (tmp_path / "kai.db").write_bytes(b"this is no database, it only looks like a file" * 100)

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        health = await stage.service.health()
        assert health.ok
        assert health.ready
        (note,) = [note for note in health.notes if "damaged" in note]
        aside = Path(note.split("moved to ")[1].split(" and a new")[0])
        assert aside.parent == tmp_path
        assert (await stage.ask(gpu=0.5)).state == "Starting"

    asyncio.run(story())


def test_log_lines_are_kept_and_a_repeated_chunk_adds_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=0.5, name="train")
        (order,) = await stage.start()
        lines = tuple(
            LogLine(seq=seq, at=seq, rank=0, stream="stdout", text=f"line {seq}")
            for seq in range(3)
        )
        await stage.service.append_logs(order.incarnation, LogChunk(lines=lines[:2]))
        await stage.restart()
        await stage.service.append_logs(order.incarnation, LogChunk(lines=lines))
        page = await stage.service.logs(ANA, "ana", "train", LogAsk())
        assert page.lines == lines
        assert not page.ended
        rest = await stage.service.logs(ANA, "ana", "train", LogAsk(after=page.next))
        assert (rest.lines, rest.next) == ((), page.next)
        await stage.end(order)
        assert (await stage.service.logs(ANA, "ana", "train", LogAsk(tail=1))).ended

    asyncio.run(story())


def test_retention_forgets_the_oldest_with_all_that_is_theirs(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, retention_groups=1, retention_days=1).begin()
        for name in ("one", "two"):
            await stage.ask(gpu=0.5, name=name, key=name)
            (order,) = await stage.start()
            await stage.end(order)
            stage.clock.pass_s(10)
        stage.service.housekeep()
        kept = await stage.service.groups(ANA, queue=None, state=None, mine=True)
        assert [view.name for view in kept.items] == ["two"]
        fresh = await stage.ask(gpu=0.5, name="one", key="one")
        assert fresh.name == "one"
        stage.clock.pass_s(86_500)
        stage.service.housekeep()
        kept = await stage.service.groups(ANA, queue=None, state=None, mine=True)
        assert [view.name for view in kept.items] == ["one"]

    asyncio.run(story())
