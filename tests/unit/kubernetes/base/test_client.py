"""What the client does about faults of the API server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler_service.backends.kubernetes.access import Access
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import (
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    TooMany,
    Unauthorized,
    Unavailable,
    error_of,
)
from scheduler_service.backends.kubernetes.names import NODES, PODS, QUEUES
from tests.fakes.kube_server import QUICK, Answer, KubeServer, Seen, client_of, kube_server

THING = "/api/v1/namespaces/a/pods/x"


def status(code: int, reason: str, message: str, **more: object) -> Answer:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, **more}
    return Answer(body, status=code)


def test_a_resource_knows_its_paths() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("a", "x", "binding") == "/api/v1/namespaces/a/pods/x/binding"
    assert NODES.path("ignored", "n") == "/api/v1/nodes/n"
    assert QUEUES.path(name="q") == "/apis/scheduling.run.ai/v2/queues/q"
    assert QUEUES.api_version == "scheduling.run.ai/v2"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, Invalid),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, Invalid),
        (429, TooMany),
        (500, Unavailable),
        (503, Unavailable),
        (418, KubeError),
    ],
)
def test_each_status_has_its_error(code: int, kind: type[KubeError]) -> None:
    error = error_of(code, b'{"reason": "Why", "message": "in words"}')
    assert type(error) is kind
    assert (error.status, error.reason, str(error)) == (code, "Why", "in words")


def test_an_answer_that_is_no_status_is_told_as_it_is() -> None:
    assert str(error_of(502, b"<html>bad gateway")) == "<html>bad gateway"
    assert str(error_of(502, b"")) == "The Kubernetes API answered 502 ."


async def _faulty_then_good(server: KubeServer, *faults: Answer) -> bytes:
    server.on(THING, *faults, Answer({"ok": True}))
    async with client_of(server) as client:
        return await client.get(THING)


def test_reads_are_tried_again_and_retry_after_is_read() -> None:
    async def story() -> None:
        async with kube_server() as server:
            busy = Answer({}, 429, headers={"Retry-After": "0"})
            answer = await _faulty_then_good(server, Answer(b"oops", 500), busy, Answer(b"", 503))
            assert answer == b'{"ok": true}'
            assert len(server.seen) == 4

    asyncio.run(story())


def test_reads_give_up_in_the_end() -> None:
    async def story() -> None:
        async with kube_server() as server, client_of(server) as client:
            server.on(THING, Answer(b"down", 503))
            with pytest.raises(Unavailable):
                await client.get(THING)
            assert len(server.seen) == QUICK.tries

    asyncio.run(story())


def test_a_write_is_not_sent_twice_when_its_fate_is_unknown() -> None:
    async def story() -> None:
        async with kube_server() as server, client_of(server) as client:
            server.on(THING, Answer(b"timeout", 504), Answer({}))
            with pytest.raises(Unavailable):
                await client.post(THING, {"a": 1})
            assert len(server.seen) == 1

    asyncio.run(story())


def test_a_write_that_was_turned_away_is_sent_again() -> None:
    async def story() -> None:
        async with kube_server() as server, client_of(server) as client:
            wait = Answer({}, 429, headers={"Retry-After": "0"})
            server.on(THING, wait, Answer({"done": 1}))
            assert await client.patch(THING, {"a": 1}) == b'{"done": 1}'

    asyncio.run(story())


def test_a_disruption_budget_is_not_asked_again_and_again() -> None:
    """The eviction sub-resource answers 429 without Retry-After when a budget forbids it."""

    async def story() -> None:
        async with kube_server() as server, client_of(server) as client:
            server.on(THING, status(429, "TooManyRequests", "budget"))
            with pytest.raises(TooMany):
                await client.post(THING, {})
            assert len(server.seen) == 1

    asyncio.run(story())


def test_nobody_listens() -> None:
    async def story() -> None:
        async with KubeClient(Access("http://127.0.0.1:9"), retries=QUICK) as client:
            with pytest.raises(Unavailable, match="could not be reached"):
                await client.post(THING, {})

    asyncio.run(story())


def knows(*tokens: str) -> object:
    def judge(seen: Seen) -> Answer | None:
        return None if seen.token in tokens else status(401, "Unauthorized", "who?")

    return judge


def test_a_rotated_token_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a.b.old")

    async def story() -> None:
        async with kube_server() as server, client_of(server, token_file=file) as client:
            server.on(THING, Answer({}))
            server.judge = knows("a.b.old")
            await client.get(THING)
            file.write_text("a.b.new-one")
            server.judge = knows("a.b.new-one")
            await client.get(THING)
            assert [seen.token for seen in server.seen] == ["a.b.old", "a.b.new-one"]

    asyncio.run(story())


@pytest.mark.parametrize("half", ["", "a.b", "a.b.ne"])
def test_a_half_written_token_breaks_no_request(tmp_path: Path, half: str) -> None:
    file = tmp_path / "token"
    file.write_text("a.b.old")

    async def story() -> None:
        async with kube_server() as server, client_of(server, token_file=file) as client:
            server.on(THING, Answer({}))
            server.judge = knows("a.b.old", "a.b.new")
            await client.get(THING)
            file.write_text(half)
            await client.get(THING)
            await client.post(THING, {})
            file.write_text("a.b.new")
            await client.get(THING)
            assert server.seen[-1].token == "a.b.new"
            file.unlink()
            await client.get(THING)

    asyncio.run(story())


def test_a_token_that_is_refused_for_good_is_an_error_without_the_token(tmp_path: Path) -> None:
    async def story() -> None:
        async with kube_server() as server, client_of(server, token="secret-word") as client:
            server.judge = knows()
            with pytest.raises(Unauthorized) as caught:
                await client.get(THING)
            assert "secret-word" not in f"{caught.value!r}{client.access!r}"

    asyncio.run(story())


def page(names: list[str], version: str, following: str = "") -> Answer:
    items = [{"metadata": {"name": name, "resourceVersion": "1"}} for name in names]
    return Answer({"metadata": {"resourceVersion": version, "continue": following}, "items": items})


def test_items_begins_anew_where_a_page_is_gone() -> None:
    async def story() -> None:
        async with kube_server() as server, client_of(server) as client:
            gone = status(410, "Expired", "too old")
            server.on(
                "/api/v1/nodes",
                page(["a"], "5", "t"),
                gone,
                page(["b"], "9", "u"),
                page(["c"], "9"),
            )
            found = await client.items(NODES)
            assert [b'"b"' in found[0], b'"c"' in found[1], len(found)] == [True, True, 2]
            assert [seen.query.get("continue") for seen in server.seen] == [None, "t", None, "u"]

    asyncio.run(story())
