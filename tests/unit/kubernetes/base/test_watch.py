"""A reflector follows a collection through every fault: nothing missed, nothing told twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from scheduler_service.backends.kubernetes.access import Access
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.names import PODS
from scheduler_service.backends.kubernetes.objects import AnyObject, decode_any
from scheduler_service.backends.kubernetes.watch import Reflector
from tests.fakes.kube_server import QUICK, Answer, KubeServer, client_of, kube_server

PATH = "/api/v1/pods"
Told = list[tuple[str, str, str]]


def thing(name: str, version: int, uid: str = "") -> dict[str, Any]:
    meta = {"name": name, "namespace": "a", "resourceVersion": str(version), "uid": uid or name}
    return {"metadata": meta}


def listed(version: int, *things: dict[str, Any], following: str = "") -> Answer:
    meta = {"resourceVersion": str(version), "continue": following}
    return Answer({"metadata": meta, "items": list(things)})


def line(kind: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def mark(version: int) -> bytes:
    return line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def expired() -> bytes:
    return line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


def stream(*lines: bytes, then: str = "end") -> Answer:
    return Answer(lines=list(lines), then=then)


def version_of(found: AnyObject | None) -> str:
    return "-" if found is None else found.metadata.resource_version


class Story:
    """A reflector against scripted answers; `told` = (name, old version, new version)."""

    def __init__(self, server: KubeServer) -> None:
        self.server = server
        self.told: Told = []
        self.changed = asyncio.Event()

    def note(self, old: AnyObject | None, new: AnyObject | None) -> None:
        either = new or old
        assert either is not None
        self.told.append((either.metadata.name, version_of(old), version_of(new)))
        self.changed.set()

    async def until(self, count: int) -> Told:
        while len(self.told) < count:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 60)
        return self.told


def play(
    lists: list[Answer],
    watches: list[Answer],
    act: Callable[[Story, Reflector[AnyObject]], Awaitable[None]],
    decode: Callable[[bytes], AnyObject | None] = decode_any,
) -> Story:
    async def run() -> Story:
        async with kube_server() as server, client_of(server) as client:
            server.on(PATH, *lists)
            server.on(PATH, *watches, stream(then="hang"), watch=True)
            story = Story(server)
            reflector = Reflector(client, PODS, decode, story.note)
            task = asyncio.create_task(reflector.run())
            try:
                await act(story, reflector)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            return story

    return asyncio.run(run())


def asks(story: Story) -> list[tuple[str, str]]:
    return [
        ("watch" if "watch" in seen.query else "list", seen.query.get("resourceVersion", ""))
        for seen in story.server.seen
    ]


def test_list_then_watch_from_its_version() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        told = await story.until(4)
        assert told == [("x", "-", "1"), ("y", "-", "6"), ("x", "1", "7"), ("y", "6", "-")]
        assert [*reflector.items] == ["a/x"]
        assert reflector.synced.is_set()

    lines = [
        line("ADDED", thing("y", 6)),
        line("MODIFIED", thing("x", 7)),
        line("DELETED", thing("y", 8)),
    ]
    story = play([listed(5, thing("x", 1))], [stream(*lines, then="hang")], act)
    assert asks(story) == [("list", ""), ("watch", "5")]


def test_a_watch_goes_on_from_the_last_bookmark() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.server.asked(3)

    story = play([listed(5, thing("x", 1))], [stream(mark(40))], act)
    assert asks(story) == [("list", ""), ("watch", "5"), ("watch", "40")]
    assert story.told == [("x", "-", "1")]


@pytest.mark.parametrize("how", ["in the stream", "as an answer"])
def test_where_the_version_is_gone_the_difference_is_told(how: str) -> None:
    gone = stream(expired()) if how == "in the stream" else Answer({"code": 410}, status=410)

    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(6)
        await story.server.asked(4)
        assert sorted(reflector.items) == ["a/new", "a/same", "a/x"]
        assert reflector.lists == 2

    first = listed(5, thing("x", 1), thing("lost", 2), thing("same", 3))
    second = listed(9, thing("x", 8), thing("same", 3), thing("new", 9))
    story = play([first, second], [gone], act)
    assert story.told[3:] == [("x", "1", "8"), ("new", "-", "9"), ("lost", "2", "-")]


def test_a_broken_connection_tells_nothing_twice() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(3)

    cut = stream(line("ADDED", thing("y", 6)), b'{"type": "ADD', then="break")
    again = stream(line("ADDED", thing("y", 6)), line("ADDED", thing("z", 7)), then="hang")
    story = play([listed(5, thing("x", 1))], [cut, again], act)
    assert [name for name, _, _ in story.told] == ["x", "y", "z"]
    assert asks(story)[-1] == ("watch", "6")


def test_one_that_was_made_anew_is_told_as_gone_and_as_new() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(4)

    late = stream(
        line("DELETED", thing("x", 7, "first")), line("ADDED", thing("y", 8)), then="hang"
    )
    lists = [listed(5, thing("x", 1, "first")), listed(7, thing("x", 6, "second"))]
    story = play(lists, [stream(expired()), late], act)
    assert story.told == [
        ("x", "-", "1"),
        ("x", "1", "-"),
        ("x", "-", "6"),
        ("y", "-", "8"),
    ]


def test_a_late_goodbye_to_the_first_does_not_take_the_second() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(4)
        assert sorted(reflector.items) == ["a/x", "a/y"]

    late = stream(
        line("DELETED", thing("x", 7, "first")), line("ADDED", thing("y", 8)), then="hang"
    )
    lists = [listed(5, thing("x", 1, "first")), listed(7, thing("x", 6, "second"))]
    play(lists, [stream(expired()), late], act)


def test_what_we_wrote_is_known_at_once_and_not_told_again() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(1)
        reflector.observe(msgspec.json.encode(thing("mine", 20)))
        assert story.told[-1] == ("mine", "-", "20")
        reflector.observe(msgspec.json.encode(thing("mine", 20)))
        assert len(story.told) == 2

    play([listed(5, thing("x", 1))], [], act)


def noted(found: AnyObject) -> AnyObject | None:
    """Add a note, unless the API shows one."""
    if found.metadata.annotations:
        return None
    return replace(found, metadata=replace(found.metadata, annotations={"note": "ours"}))


def test_what_is_believed_stays_until_the_api_shows_it() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(1)
        reflector.believe("a/x", "x", noted)
        assert len(story.told) == 2
        assert reflector.items["a/x"].metadata.annotations == {"note": "ours"}
        reflector.observe(msgspec.json.encode(thing("x", 7)))
        assert reflector.items["a/x"].metadata.annotations == {"note": "ours"}
        assert reflector.is_believed("a/x")
        shown = thing("x", 8)
        shown["metadata"]["annotations"] = {"note": "the API's"}
        reflector.observe(msgspec.json.encode(shown))
        assert reflector.items["a/x"].metadata.annotations == {"note": "the API's"}
        assert not reflector.is_believed("a/x")

    play([listed(5, thing("x", 1))], [], act)


def test_nothing_is_believed_of_another_object_of_that_name() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(1)
        reflector.believe("a/x", "an earlier one", noted)
        reflector.believe("a/nobody", "nobody", noted)
        reflector.believe("a/x", "x", noted)
        reflector.observe(msgspec.json.encode(thing("x", 9, "made anew")))
        assert story.told[1:] == [("x", "1", "1"), ("x", "1", "-"), ("x", "-", "9")]
        assert not reflector.items["a/x"].metadata.annotations

    play([listed(5, thing("x", 1))], [], act)


def test_an_older_word_of_the_watch_does_not_undo_what_we_wrote() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        reflector.observe(msgspec.json.encode(thing("mine", 20)))
        await story.until(3)
        assert reflector.items["a/mine"].metadata.resource_version == "20"

    lines = stream(line("ADDED", thing("mine", 19)), line("ADDED", thing("y", 21)), then="hang")
    play([listed(5, thing("x", 1))], [lines], act)


def test_an_answer_that_comes_after_the_end_brings_nothing_back() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(2)
        reflector.observe(msgspec.json.encode(thing("mine", 6)))
        assert [*reflector.items] == ["a/x", "a/y"]

    lines = [
        line("ADDED", thing("mine", 6)),
        line("DELETED", thing("mine", 7)),
        line("ADDED", thing("y", 8)),
    ]

    async def wait(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(4)
        await act(story, reflector)

    play([listed(5, thing("x", 1))], [stream(*lines, then="hang")], wait)


def test_after_etcd_was_restored_from_an_older_copy_the_list_is_right() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(4)
        await story.server.asked(4)
        assert reflector.items["a/x"].metadata.resource_version == "30"
        assert [*reflector.items] == ["a/x"]

    lists = [listed(90, thing("x", 80), thing("lost", 81)), listed(40, thing("x", 30))]
    play(lists, [stream(expired())], act)


def test_one_object_that_is_not_understood_is_only_its_owners_trouble() -> None:
    def decode(body: bytes) -> AnyObject | None:
        found = decode_any(body)
        if found.metadata.name == "bad":
            raise msgspec.ValidationError("a number where a text is due")
        return found

    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(2)
        assert sorted(reflector.items) == ["a/x", "a/y"]

    things = listed(5, thing("x", 1), thing("bad", 2), thing("y", 3))
    play([things], [], act, decode)


def test_an_api_that_is_away_is_asked_until_it_is_back() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(2)

    faults = [Answer(b"", 503), Answer(b"", 500), Answer({"code": 401}, status=401)]
    watches = [*faults, stream(line("ADDED", thing("y", 6)), then="hang")]
    story = play([*faults[:2], listed(5, thing("x", 1))], watches, act)
    assert [name for name, _, _ in story.told] == ["x", "y"]


def test_a_watch_that_is_silent_is_begun_anew_from_where_it_was() -> None:
    async def run() -> None:
        async with kube_server() as server:
            quick = KubeClient(Access(server.url), retries=QUICK, silence_s=0.05)
            async with quick as client:
                server.on(PATH, listed(5, thing("x", 1)))
                server.on(PATH, stream(mark(8), then="hang"), stream(then="hang"), watch=True)
                story = Story(server)
                task = asyncio.create_task(Reflector(client, PODS, decode_any, story.note).run())
                await server.asked(3)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert asks(story)[:3] == [("list", ""), ("watch", "5"), ("watch", "8")]

    asyncio.run(run())


def test_long_lines_in_many_pieces() -> None:
    big = thing("big", 6)
    big["metadata"]["annotations"] = {"text": "x" * 400_000}

    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.until(2)

    play([listed(5, thing("x", 1))], [stream(line("ADDED", big), then="hang")], act)


def test_pages_of_a_list_are_one_list() -> None:
    async def act(story: Story, reflector: Reflector[AnyObject]) -> None:
        await story.server.asked(5)
        assert sorted(reflector.items) == ["a/x", "a/y"]

    gone = Answer({"code": 410, "reason": "Expired"}, status=410)
    lists = [
        listed(5, thing("x", 1), following="t"),
        gone,
        listed(6, thing("x", 1), following="u"),
        listed(6, thing("y", 2)),
    ]
    story = play(lists, [], act)
    assert story.told == [("x", "-", "1"), ("y", "-", "2")]
