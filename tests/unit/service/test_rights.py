"""Who calls the API of a cluster: what is asked of the API server, how long it is believed, what strangers hear."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scheduler_service.api.authenticators import Credentials
from scheduler_service.backends.kubernetes.decode.queues import decode_queue
from scheduler_service.errors import RequestError
from scheduler_service.ports import Caller
from scheduler_service.service.rights import Rights, TokenReviews
from tests.fakes.kube_server import Answer, KubeServer, Seen, client_of, kube_server
from tests.unit.kubernetes.objects import queue, raw

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ANA = {"username": "ana", "groups": ["vision"], "extra": {"pod": ["p"]}}


class Cluster:
    """An API server that knows Ana's token and what was allowed to whom."""

    def __init__(self, server: KubeServer) -> None:
        self.server = server
        self.now = 0.0
        self.allowed: set[tuple[str, str, str, str]] = set()
        self.error = "[invalid bearer token]"
        self.queues = {"q": decode_queue(raw(queue()))}
        server.judge = self._judge

    def _judge(self, seen: Seen) -> Answer:
        spec = json.loads(seen.body)["spec"]
        if seen.path == TOKENS:
            is_known = spec["token"] == "ana-token" and spec["audiences"] == ["kai"]
            known = {"authenticated": True, "user": ANA, "audiences": ["kai"]}
            return Answer({"status": known if is_known else {"error": self.error}}, 201)
        deed = spec["resourceAttributes"]
        mark = (spec["user"], deed["resource"], deed.get("namespace", ""), deed.get("name", ""))
        return Answer({"status": {"allowed": mark in self.allowed}}, 201)

    def asked(self, path: str) -> list[dict[str, Any]]:
        return [json.loads(seen.body)["spec"] for seen in self.server.seen if seen.path == path]


def told(story: Callable[[Cluster, TokenReviews], Awaitable[None]]) -> None:
    async def run() -> None:
        async with kube_server() as server, client_of(server) as client:
            cluster = Cluster(server)
            rights = Rights(
                client,
                queues=lambda: cluster.queues,
                namespaces=lambda: ["red", "blue", "red"],
                clock=lambda: cluster.now,
            )
            await story(cluster, TokenReviews(client, rights, clock=lambda: cluster.now))

    asyncio.run(run())


async def caller(door: TokenReviews, token: str = "ana-token") -> Caller:  # noqa: S107
    found = await door.caller_of(Credentials(token=token))
    assert found is not None
    return found


def test_a_caller_is_who_the_token_says_and_sees_what_the_cluster_allows() -> None:
    async def story(cluster: Cluster, door: TokenReviews) -> None:
        cluster.allowed = {("ana", "podgroups", "red", "")}
        ana = await caller(door)
        assert (ana.user, ana.groups) == ("ana", {"vision"})
        assert ana.scopes == {"read", "request", "namespace:red"}
        review = cluster.asked(ACCESS)[0]
        assert (review["groups"], review["extra"]) == (["vision"], {"pod": ["p"]})

    told(story)


def test_who_may_change_queues_is_admin_and_who_may_change_one_leads_it() -> None:
    async def story(cluster: Cluster, door: TokenReviews) -> None:
        cluster.allowed = {("ana", "queues", "", "q")}
        assert "lead:q" in (await caller(door)).scopes
        cluster.now, cluster.allowed = 100, {("ana", "queues", "", "")}
        assert (await caller(door)).is_admin

    told(story)


def test_a_queue_itself_names_its_leads() -> None:
    async def story(cluster: Cluster, door: TokenReviews) -> None:
        for leads, is_lead in (("user:ben, group:vision", True), ("user:an,group:vis", False)):
            body = queue()
            body["metadata"]["annotations"] = {"kai.scheduler/leads": leads}
            cluster.queues = {"q": decode_queue(raw(body))}
            assert ("lead:q" in (await caller(door)).scopes) is is_lead

    told(story)


def test_an_answer_is_believed_for_a_while_and_no_longer() -> None:
    async def story(cluster: Cluster, door: TokenReviews) -> None:
        cluster.allowed = {("ana", "podgroups", "red", "")}
        await asyncio.gather(*(caller(door) for _ in range(5)))
        assert len(cluster.asked(ACCESS)) == 5  # all queues, one queue, everywhere, two namespaces
        cluster.allowed = set()
        assert "namespace:red" in (await caller(door)).scopes
        cluster.now = 31
        assert "namespace:red" not in (await caller(door)).scopes
        before = len(cluster.asked(TOKENS))
        cluster.now = 61
        await caller(door)
        assert len(cluster.asked(TOKENS)) == before + 1

    told(story)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("[invalid bearer token, service account token has expired]", "has expired"),
        (
            '[invalid bearer token, token audiences ["api"] is invalid for the target audiences ["kai"]]',
            "not for the audience 'kai'",
        ),
        ("[invalid bearer token, service account token has been invalidated]", "is gone"),
        ("", "does not accept"),
    ],
)
def test_a_stranger_hears_why_and_what_to_send(said: str, why: str) -> None:
    async def story(cluster: Cluster, door: TokenReviews) -> None:
        cluster.error = said
        with pytest.raises(RequestError) as error:
            await caller(door, "wrong")
        assert (error.value.status, error.value.code) == (401, "unauthenticated")
        assert why in error.value.why
        assert "--audience kai" in error.value.hint

    told(story)


def test_a_wrong_token_is_not_asked_about_at_every_knock() -> None:
    async def story(cluster: Cluster, door: TokenReviews) -> None:
        for _ in range(3):
            with pytest.raises(RequestError):
                await caller(door, "wrong")
        assert len(cluster.asked(TOKENS)) == 1
        cluster.now = 11
        with pytest.raises(RequestError):
            await caller(door, "wrong")
        assert len(cluster.asked(TOKENS)) == 2

    told(story)


def test_an_answer_that_names_no_audience_lets_nobody_in() -> None:
    """An authenticator that does not understand audiences answers for every token it knows."""

    async def story(cluster: Cluster, door: TokenReviews) -> None:
        status = {"authenticated": True, "user": ANA}
        cluster.server.judge = lambda _: Answer({"status": status}, 201)
        with pytest.raises(RequestError):
            await caller(door)

    told(story)


def test_no_token_is_kept_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story(_cluster: Cluster, door: TokenReviews) -> None:
        caplog.set_level(logging.DEBUG)
        await caller(door)
        with pytest.raises(RequestError):
            await caller(door, "secret-of-somebody")
        kept = repr(vars(door)) + repr(vars(door._rights)) + caplog.text
        assert "ana-token" not in kept
        assert "secret-of-somebody" not in kept

    told(story)


def test_without_a_token_it_knows_nobody() -> None:
    async def story(_cluster: Cluster, door: TokenReviews) -> None:
        assert await door.caller_of(Credentials()) is None

    told(story)
