"""What every `SchedulerPort` promises the API: the service itself, and the fake that stands for it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler_service.ports import Caller, LogAsk, NotFound, SchedulerPort
from scheduler_service.service import Service
from scheduler_service.wire.pod_group import TERMINAL_STATES, Cancel, Submit, Work
from scheduler_service.wire.runner import ClaimRequest, LogChunk, LogLine, Report
from tests.fakes.bench_service import Stage
from tests.fakes.scheduler import FakeScheduler

ANA, BEN = Caller("ana"), Caller("ben")
WORK = {"work": Work(command=("true",)), "signature": "signed"}
METHODS = [
    name
    for name, member in vars(SchedulerPort).items()
    if callable(member) and not name.startswith("_")
]
Opened = tuple[SchedulerPort, Callable[[], Awaitable[None]]]


async def service(folder: Path) -> Opened:
    stage = await Stage(folder).begin()
    return stage.service, stage.turn


async def fake(folder: Path) -> Opened:
    async def nothing() -> None: ...

    return FakeScheduler(), nothing


PORTS = {"service": service, "fake": fake}


@pytest.fixture(params=PORTS.values(), ids=PORTS.keys())
def open_port(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Awaitable[Opened]]:
    return lambda: request.param(tmp_path)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", [Service, FakeScheduler])
def test_every_method_is_there_with_the_same_parameters(kind: type, name: str) -> None:
    promised = inspect.signature(getattr(SchedulerPort, name)).parameters
    kept = inspect.signature(getattr(kind, name)).parameters
    assert [name.lstrip("_") for name in kept] == list(promised)
    assert [p.kind for p in kept.values()] == [p.kind for p in promised.values()]


def test_a_request_is_made_once_for_its_key(open_port: Callable[[], Awaitable[Opened]]) -> None:
    async def story() -> None:
        port, _ = await open_port()
        first, is_new = await port.submit(ANA, Submit(gpu=0.5, **WORK), idempotency_key="k")
        again, is_new_again = await port.submit(ANA, Submit(gpu=0.5, **WORK), idempotency_key="k")
        assert (is_new, is_new_again) == (True, False)
        assert again.name == first.name
        assert again.notes == first.notes
        other, is_others_new = await port.submit(BEN, Submit(gpu=0.5, **WORK), idempotency_key="k")
        assert is_others_new
        assert (first.owner, other.owner) == ("ana", "ben")
        assert first.namespace != other.namespace

    asyncio.run(story())


@pytest.mark.parametrize(
    "changed",
    [{"gpu": 1}, {"name": "other"}, {"workers": 2}, {"work": Work(command=("false",))}],
    ids=lambda changed: next(iter(changed)),
)
def test_a_key_that_comes_again_with_another_request_says_that_this_was_not_made(
    open_port: Callable[[], Awaitable[Opened]], changed: dict[str, object]
) -> None:
    async def story() -> None:
        port, _ = await open_port()
        ask = Submit(gpu=0.5, **WORK)
        first, _new = await port.submit(ANA, ask, idempotency_key="k")
        other, is_new = await port.submit(ANA, replace(ask, **changed), idempotency_key="k")
        assert (is_new, other.name) == (False, first.name)
        assert f"This key belongs to {first.name}; the new request was not made." in other.notes[-1]
        later = await port.group(ANA, first.namespace, first.name)
        assert later.notes == first.notes

    asyncio.run(story())


def test_what_is_not_yours_is_not_found(open_port: Callable[[], Awaitable[Opened]]) -> None:
    async def story() -> None:
        port, _ = await open_port()
        view, _new = await port.submit(ANA, Submit(gpu=0.5, **WORK), idempotency_key=None)
        for ask in (
            port.group(BEN, view.namespace, view.name),
            port.group(ANA, view.namespace, "nothing"),
            port.logs(BEN, view.namespace, view.name, LogAsk()),
            port.cancel(BEN, view.namespace, view.name, Cancel()),
        ):
            with pytest.raises(NotFound) as error:
                await ask
            assert error.value.problem.status == 404

    asyncio.run(story())


def test_from_grant_to_end_over_the_runners_routes(
    open_port: Callable[[], Awaitable[Opened]],
) -> None:
    async def story() -> None:
        port, turn = await open_port()
        view, _new = await port.submit(ANA, Submit(gpu=1, **WORK), idempotency_key=None)
        await turn()
        orders = await port.orders(ANA, runner_name="r", wait_s=0)
        assert orders.claim
        (order,) = (await port.claim(ANA, ClaimRequest(runner="r", host="h"))).starts
        assert await port.incarnation_of_token(order.token) == order.incarnation
        assert await port.incarnation_of_token("wrong") is None
        report = Report(incarnation=order.incarnation, kind="started", at=1, pid=1, start_ticks=1)
        await port.report(ANA, report)
        await port.report(ANA, report)
        assert (await port.group(ANA, "ana", view.name)).state == "Running"
        line = LogLine(seq=0, at=1, rank=0, stream="stdout", text="hello")
        await port.append_logs(order.incarnation, LogChunk(lines=(line,)))
        page = await port.logs(ANA, "ana", view.name, LogAsk())
        assert [line.text for line in page.lines] == ["hello"]
        ended = Report(incarnation=order.incarnation, kind="ended", at=2, exit_code=0)
        await port.report(ANA, ended)
        await turn()
        over = await port.group(ANA, "ana", view.name)
        assert over.state in TERMINAL_STATES
        assert over.sentence

    asyncio.run(story())


def test_the_stream_begins_with_all_and_goes_on_with_changes(
    open_port: Callable[[], Awaitable[Opened]],
) -> None:
    async def story() -> None:
        port, turn = await open_port()
        old, _ = await port.submit(ANA, Submit(gpu=0.5, name="old", **WORK), idempotency_key=None)
        await turn()
        stream = port.events(ANA, since=None)
        first = await anext(stream)
        assert (first.kind, [view.name for view in first.groups]) == ("snapshot", [old.name])
        new, _ = await port.submit(ANA, Submit(gpu=0.5, name="new", **WORK), idempotency_key=None)
        await turn()
        second = await anext(stream)
        while new.name not in {view.name for view in second.groups}:
            second = await anext(stream)
        assert second.kind == "update"
        assert second.rev > first.rev

    asyncio.run(story())


def test_health_metrics_and_views_answer(open_port: Callable[[], Awaitable[Opened]]) -> None:
    async def story() -> None:
        port, turn = await open_port()
        await turn()
        assert (await port.health()).ok
        assert port.metrics_text()
        assert await port.queues(ANA)
        assert await port.nodes(ANA)
        assert len(await port.cycles(ANA, last=0)) == 0

    asyncio.run(story())
