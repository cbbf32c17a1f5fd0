"""What a second person sees and may do: their own in full, of others what they hold but not who they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from scheduler_service.ports import ADMIN, Caller, ForecastAsk, LogAsk, NotAllowed, NotFound
from scheduler_service.service import Service
from scheduler_service.wire.pod_group import Cancel, Extend, Move, Submit
from scheduler_service.wire.runner import Beat, ClaimRequest, PodBeat, Report
from tests.fakes.bench_service import ANA, BEN, ROOT, Stage
from tests.fakes.machine import own_process

HIDDEN = "queues:\n  team: {gpu: 8}\n"
SHOWN = "queues:\n  team: {gpu: 8, show_names: true}\n"
LEAD = Caller("lea", scopes=frozenset({"request", "lead:team"}))
NOBODY = Caller("eve", scopes=frozenset())
READER = Caller("rob", scopes=frozenset({"read"}))
MOVE = Move(process=own_process(), kernel_id="k")

OTHERS: dict[str, Callable[[Service, Caller], Awaitable[object]]] = {
    "group": lambda s, c: s.group(c, "ana", "train"),
    "extend": lambda s, c: s.extend(c, "ana", "train", Extend(by_s=60)),
    "cancel": lambda s, c: s.cancel(c, "ana", "train", Cancel()),
    "move": lambda s, c: s.move(c, "ana", "train", MOVE),
    "logs": lambda s, c: s.logs(c, "ana", "train", LogAsk()),
    "explain": lambda s, c: s.explain(c, "ana", "train"),
    "result": lambda s, c: s.result(c, "ana", "train", rank=0),
}


async def stage_with_work(folder: Path, queues: str) -> Stage:
    (folder / "queues.yaml").write_text(queues)
    stage = await Stage(folder).begin()
    await stage.ask(ANA, gpu=1, name="train")
    await stage.start(ANA)
    await stage.ask(ANA, gpu=2, name="later", priority=40)
    return stage


@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS.keys())
def test_others_groups_are_told_like_unknown_ones(
    tmp_path: Path, call: Callable[[Service, Caller], Awaitable[object]]
) -> None:
    async def story() -> None:
        stage = await stage_with_work(tmp_path, SHOWN)
        with pytest.raises(NotFound) as foreign:
            await call(stage.service, BEN)
        with pytest.raises(NotFound) as unknown:
            await stage.service.group(BEN, "ana", "nothing")
        assert foreign.value.problem.detail == unknown.value.problem.detail.replace(
            "nothing", "train"
        )
        with pytest.raises(NotAllowed):
            await call(stage.service, NOBODY)
        assert (await stage.view(ANA, "train")).state == "Running"

    asyncio.run(story())


def test_names_are_hidden_unless_the_queue_shows_them(tmp_path: Path) -> None:
    async def story(queues: str, folder: Path) -> tuple[str, str, str, str]:
        stage = await stage_with_work(folder, queues)
        (queue,) = await stage.service.queues(BEN)
        (node,) = await stage.service.nodes(BEN)
        (holder,) = (h for device in node.devices for h in device.holders)
        return queue.waiting_rows[0].who, queue.waiting_rows[0].name, holder.who, holder.name

    for name in ("hidden", "shown"):
        (tmp_path / name).mkdir()
    hidden = asyncio.run(story(HIDDEN, tmp_path / "hidden"))
    shown = asyncio.run(story(SHOWN, tmp_path / "shown"))
    assert hidden == ("a colleague", "", "a colleague", "")
    assert shown == ("ana", "later", "ana", "train")


def test_lists_hold_what_one_may_see(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await stage_with_work(tmp_path, HIDDEN)
        counts = []
        for caller in (ANA, BEN, LEAD, ROOT):
            listed = await stage.service.groups(caller, queue=None, state=None, mine=False)
            counts.append(len(listed.items))
        assert counts == [2, 0, 2, 2]
        mine = await stage.service.groups(ROOT, queue=None, state=None, mine=True)
        waiting = await stage.service.groups(ANA, queue="team", state="Waiting", mine=True)
        assert (len(mine.items), [view.name for view in waiting.items]) == (0, ["later"])

    asyncio.run(story())


def test_a_lead_sees_and_ends_what_is_in_the_queue(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await stage_with_work(tmp_path, HIDDEN)
        seen = await stage.service.group(LEAD, "ana", "train")
        assert (seen.owner, seen.mine) == ("ana", False)
        ended = await stage.service.cancel(LEAD, "ana", "later", Cancel())
        assert ended.state == "Cancelled"
        assert (await stage.ask(LEAD, gpu=0.1, priority=5000)).priority == 5000

    asyncio.run(story())


def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await stage_with_work(tmp_path, SHOWN)
        service = stage.service
        await service.queues(READER)
        for call in (
            service.submit(READER, Submit(gpu=0.5), idempotency_key=None),
            service.claim(READER, ClaimRequest(runner="r", host="h")),
            service.orders(READER, runner_name="r", wait_s=0),
            service.snapshot(READER),
        ):
            with pytest.raises(NotAllowed):
                await call
        for call in (service.queues(NOBODY), service.nodes(NOBODY), service.cycles(NOBODY, last=1)):
            with pytest.raises(NotAllowed):
                await call
        with pytest.raises(NotAllowed):
            await service.forecast(NOBODY, ForecastAsk(gpu=1))

    asyncio.run(story())


def test_a_runner_gets_and_reports_only_its_own_users_pods(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(ANA, gpu=1, name="train")
        assert await stage.claim(BEN) == ()
        (order,) = await stage.claim(ANA)
        with pytest.raises(NotFound):
            await stage.service.report(
                BEN, Report(incarnation=order.incarnation, kind="ended", at=1, exit_code=0)
            )
        await stage.service.beat(
            BEN, Beat(runner="x", pods=(PodBeat(incarnation=order.incarnation),))
        )
        assert (await stage.view(ANA, "train")).state == "Starting"

    asyncio.run(story())


def test_a_pods_token_opens_its_own_routes_while_it_lives(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(ANA, gpu=1, name="train")
        (order,) = await stage.start(ANA)
        token = stage.service.incarnation_of_token
        assert await token(order.token) == order.incarnation
        assert await token(order.token[:-1] + ("0" if order.token[-1] != "0" else "1")) is None
        assert await token("") is None
        assert await token("x.é") is None
        await stage.restart()
        assert await stage.service.incarnation_of_token(order.token) == order.incarnation
        await stage.end(order)
        assert await stage.service.incarnation_of_token(order.token) is None

    asyncio.run(story())


def test_who_is_evicted_reads_why_but_not_for_whom(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(ANA, gpu=1, name="train")
        await stage.start(ANA)
        await stage.ask(BEN, gpu=1, name="secret", priority=90)
        evicted = await stage.view(ANA, "train")
        assert evicted.state == "Stopping"
        assert evicted.headline == "Stopped for another request: priority 90 over 50."
        assert "secret" not in str(evicted)
        told = await stage.service.orders(ANA, runner_name="runner-1", wait_s=0)
        assert [stop.reason for stop in told.stops] == [evicted.headline]
        own = await stage.ask(ANA, gpu=1, name="mine", priority=100)
        assert own.state == "Waiting"

    asyncio.run(story())


def test_the_lines_of_cycles_and_the_snapshot_are_for_admins(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await stage_with_work(tmp_path, HIDDEN)
        (hidden, *_) = await stage.service.cycles(BEN, last=5)
        (shown, *_) = [c for c in await stage.service.cycles(ROOT, last=5) if c.lines]
        assert hidden.lines == ()
        assert shown.lines == ("ana/train-0 starts on node-0 with 1 GPU.",)
        snapshot = await stage.service.snapshot(Caller("x", scopes=frozenset({ADMIN})))
        assert {"nodes", "queues", "pod_groups", "version"} <= set(snapshot)
        assert "token" not in str(snapshot)

    asyncio.run(story())
