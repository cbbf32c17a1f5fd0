"""The event stream: a snapshot, then what changed; resumable by revision; a gap gives a snapshot."""

from __future__ import annotations

import asyncio
from pathlib import Path

from scheduler_service.service.changes import WINDOW, Changes
from scheduler_service.wire.events import Notice
from scheduler_service.wire.pod_group import Cancel
from tests.fakes.bench_service import ANA, BEN, Stage


def test_a_snapshot_then_updates_with_only_what_changed(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=0.5, name="old")
        stream = stage.service.events(ANA, since=None)
        first = await anext(stream)
        assert (first.kind, [view.name for view in first.groups]) == ("snapshot", ["old"])
        assert first.queues is not None
        assert first.nodes is not None
        await stage.ask(gpu=0.5, name="new")
        second = await anext(stream)
        assert (second.kind, [view.name for view in second.groups]) == ("update", ["new"])
        assert [notice.kind for notice in second.notices] == ["granted"]
        assert second.rev > first.rev
        await stream.aclose()

    asyncio.run(story())


def test_resumes_after_the_revision_it_had(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=0.5, name="old")
        rev = stage.service.changes.rev
        await stage.ask(gpu=0.5, name="new")
        message = await anext(stage.service.events(ANA, since=rev))
        assert (message.kind, [view.name for view in message.groups]) == ("update", ["new"])

    asyncio.run(story())


def test_an_unknown_revision_gets_a_snapshot(tmp_path: Path) -> None:
    """The page slept over a restart, or its revision is of another service."""

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=0.5)
        for rev in (0, stage.service.changes.rev + 1000):
            message = await anext(stage.service.events(ANA, since=rev))
            assert message.kind == "snapshot"
        before = stage.service.changes.rev
        stage.clock.pass_s(1)
        await stage.restart()
        assert stage.service.changes.rev > before

    asyncio.run(story())


def test_others_hear_of_the_queue_but_not_of_the_group(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        stream = stage.service.events(BEN, since=None)
        await anext(stream)
        await stage.ask(ANA, gpu=0.5, name="secret")
        message = await anext(stream)
        assert (message.groups, message.notices, message.removed) == ((), (), ())
        assert message.nodes is not None
        await stage.service.cancel(ANA, "ana", "secret", Cancel())
        stage.service.records.forget(["ana/secret"])
        later = await anext(stream)
        assert later.removed == ()
        await stream.aclose()

    asyncio.run(story())


def test_a_forgotten_group_is_told_as_removed(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=0.5, name="old")
        await stage.service.cancel(ANA, "ana", "old", Cancel())
        stream = stage.service.events(ANA, since=None)
        await anext(stream)
        stage.service.records.forget(["ana/old"])
        assert (await anext(stream)).removed == ("ana/old",)
        await stream.aclose()

    asyncio.run(story())


def test_it_ends_when_the_service_does(tmp_path: Path) -> None:
    async def story() -> list[str]:
        stage = await Stage(tmp_path).begin()
        seen: list[str] = []
        first = asyncio.Event()

        async def read() -> None:
            async for message in stage.service.events(ANA, since=None):
                seen.append(message.kind)
                first.set()

        reader = asyncio.create_task(read())
        await asyncio.wait_for(first.wait(), timeout=60)
        await stage.service.stop()
        await asyncio.wait_for(reader, timeout=60)
        return seen

    assert asyncio.run(story()) == ["snapshot"]


def test_changes_come_once_each_and_in_order_of_their_first() -> None:
    async def story() -> None:
        changes = Changes(100)
        for key in ("a", "b", "a"):
            changes.group(key)
        changes.part("queues")
        changes.notice("a", Notice(at=1, kind="granted", namespace="n", name="a", text="…"))
        news = changes.since(100)
        assert news is not None
        assert (news.groups, news.parts, len(news.notices)) == (("a", "b"), {"queues"}, 1)
        after = changes.since(103)
        assert after is not None
        assert (after.groups, after.parts) == ((), {"queues"})
        assert changes.since(99) is None

    asyncio.run(story())


def test_the_window_is_bounded() -> None:
    async def story() -> None:
        changes = Changes(0)
        for number in range(WINDOW + 10):
            changes.group(str(number))
        assert changes.since(9) is None
        news = changes.since(10)
        assert news is not None
        assert len(news.groups) == WINDOW

    asyncio.run(story())
