"""The demo's other people: there is always work and a queue, and the visitor's own is real and comes to its turn."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path

import pytest

from scheduler_service.ports import Caller
from scheduler_service.settings.queue_file import read_queues
from scheduler_service.simulate import busy
from scheduler_service.simulate.crowd import LINE, Crowd
from scheduler_service.wire.pod_group import Cancel
from tests.fakes.bench_service import ROOT, Stage

VISITOR = Caller("vera")


async def demo(folder: Path) -> tuple[Stage, Crowd]:
    queues = folder / "queues.yaml"
    queues.write_text(busy.queues_text("vera"))
    stage = await Stage(folder, devices=busy.GPUS, queues=queues).begin()
    return stage, crowd_of(stage)


def crowd_of(stage: Stage) -> Crowd:
    return Crowd(stage.service, scale=20, visitor="vera", clock_s=lambda: stage.clock() / 1000)


async def lives(stage: Stage, crowd: Crowd, seconds: int) -> None:
    for _ in range(seconds):
        await crowd.step()
        await stage.pass_s(1)


async def groups(stage: Stage, state: str | None = None):
    return (await stage.service.groups(ROOT, queue=None, state=state, mine=False)).items


def test_the_same_seed_gives_the_same_days() -> None:
    for habit in busy.PEOPLE:
        first, second = (list(islice(busy.turns(habit, scale=20), 5)) for _ in range(2))
        assert first == second
        assert all(turn.run_s > 0 and turn.ask.declared_run_s for turn in first)


def test_nobody_has_the_visitors_name(tmp_path: Path) -> None:
    """Or their own runner would be given made-up work."""
    assert "maya" not in {habit.user for habit in busy.people("maya")}
    assert "maya" not in busy.queues_text("maya")
    (tmp_path / "queues.yaml").write_text(busy.queues_text("nobody"))
    config = read_queues(tmp_path / "queues.yaml")
    assert {queue.name for queue in config.queues} == {"default", "vision", "language"}
    for habit in busy.PEOPLE:
        assert f"user:{habit.user}" in config.rules_of(habit.queue).subjects


def test_the_machine_is_busy_and_stays_so(tmp_path: Path) -> None:
    async def story() -> None:
        stage, crowd = await demo(tmp_path)
        states = set()
        for _ in range(10):
            await lives(stage, crowd, 30)
            states |= {group.state for group in await groups(stage)}
            (node,) = await stage.service.nodes(VISITOR)
            assert node.allocated_milli_gpu >= 4000
        assert {"Running", "Waiting", "Succeeded"} <= states
        assert "Failed" not in states
        ended = await groups(stage, "Succeeded")
        assert len({group.owner for group in ended}) >= 4

    asyncio.run(story())


def test_the_visitors_work_is_their_own_runners(tmp_path: Path) -> None:
    """It takes back what its queue is guaranteed, and only the visitor's runner is given it."""

    async def story() -> None:
        stage, crowd = await demo(tmp_path)
        await lives(stage, crowd, 30)
        await stage.ask(VISITOR, gpu=2, kind="lease", name="mine")
        await lives(stage, crowd, 20)
        (order,) = await stage.start(VISITOR)
        assert order.namespace == "vera"
        await lives(stage, crowd, 5)
        assert (await stage.view(VISITOR, "mine")).state == "Running"
        assert {group.owner for group in await groups(stage)} - crowd.names == {"vera"}

    asyncio.run(story())


def test_what_an_earlier_life_left_is_ended(tmp_path: Path) -> None:
    async def story() -> None:
        stage, crowd = await demo(tmp_path)
        await lives(stage, crowd, 30)
        before = {group.name for group in await groups(stage, "Running")}
        assert before
        await stage.restart()
        stop = asyncio.Event()
        stop.set()
        await crowd_of(stage).run(stop)
        assert not await groups(stage, "Running")

    asyncio.run(story())


def test_one_that_the_visitor_ends_goes_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        stage, crowd = await demo(tmp_path)
        await lives(stage, crowd, 30)
        group = (await groups(stage, "Running"))[0]
        await stage.service.cancel(ROOT, group.namespace, group.name, Cancel())
        await lives(stage, crowd, 2)
        ended = await stage.service.group(ROOT, group.namespace, group.name)
        assert ended.state == "Cancelled"
        page = stage.service.log_store.page(
            f"{group.namespace}/{group.name}", rank=None, after=0, tail=None, ended=True
        )
        assert {line.text for line in page.lines} == {LINE}

    asyncio.run(story())


@pytest.mark.parametrize("scale", [1, 20, 1000])
def test_the_scale_makes_them_faster(scale: int) -> None:
    (turn,) = islice(busy.turns(busy.PEOPLE[0], scale=scale), 1, 2)
    assert 20 * 60 / scale <= turn.run_s <= 45 * 60 / scale
