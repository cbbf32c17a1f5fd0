"""The stream of a cluster, and what people end in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler_service.backends.kubernetes.workloads.creator import Creator
from scheduler_service.model.pod import PodRequest
from scheduler_service.ports import Caller, RefusedRequest
from scheduler_service.service.cluster_records import expected
from scheduler_service.wire.events import StreamEvent
from scheduler_service.wire.pod_group import Cancel, ClusterAsk, Submit
from tests.fakes.cluster_service import ClusterStage, names, running_pod
from tests.fakes.kube_server import Answer
from tests.unit.kubernetes.objects import group
from tests.unit.service.cluster.test_what_is_seen import ANA, EVE, told

EVICTION = "/api/v1/namespaces/a/pods/train-0/eviction"


async def following(stage: ClusterStage, stream: AsyncIterator[StreamEvent]) -> StreamEvent:
    """Return the next message; `tell` runs meanwhile, as it does beside the scheduler."""
    telling = asyncio.create_task(stage.service.tell())
    try:
        return await asyncio.wait_for(anext(stream), 60)
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


def test_the_stream_begins_with_all_and_goes_on_with_changes() -> None:
    async def story(stage: ClusterStage) -> None:
        stage.allowed = {("ana", "list", "podgroups")}
        await stage.ask("old")
        stream = stage.service.events(ANA, since=None)
        first = await anext(stream)
        assert (first.kind, names(first.groups)) == ("snapshot", ["old"])
        assert first.queues
        assert first.nodes
        await stage.ask("new")
        second = await following(stage, stream)
        assert (second.kind, "new" in names(second.groups)) == ("update", True)
        assert second.rev > first.rev
        await stream.aclose()  # type: ignore[attr-defined]

    told(story)


def test_who_comes_back_hears_what_happened_meanwhile() -> None:
    async def story(stage: ClusterStage) -> None:
        stage.allowed = {("ana", "list", "podgroups")}
        await stage.ask("train")
        stream = stage.service.events(ANA, since=None)
        rev = (await anext(stream)).rev
        await stream.aclose()  # type: ignore[attr-defined]
        await stage.start("train")
        back = stage.service.events(ANA, since=rev)
        heard = await following(stage, back)
        assert (heard.kind, [view.state for view in heard.groups]) == ("update", ["Running"])
        await back.aclose()  # type: ignore[attr-defined]

    told(story)


def test_a_right_that_was_taken_away_ends_what_a_stream_tells() -> None:
    """The stream was opened by somebody who could see the namespace; the cluster says by now that they can not."""

    async def story(stage: ClusterStage) -> None:
        await stage.ask("train")
        stream = stage.service.events(ANA, since=None)
        await anext(stream)
        await stage.start("train")
        heard = await following(stage, stream)
        assert heard.groups == ()
        await stream.aclose()  # type: ignore[attr-defined]

    told(story)


def test_with_nobody_listening_nothing_is_worked_out() -> None:
    async def story(stage: ClusterStage) -> None:
        before = stage.service.changes.rev
        await stage.ask("train")
        await stage.start("train")
        assert stage.service.changes.rev == before

    told(story)


@pytest.mark.parametrize(
    "changes",
    [
        "group put pod group",
        "group turn put turn pod turn group",
        "group pod put group",
        "group turn pod turn put group",
        "group turn pod turn put turn group",
    ],
)
def test_a_group_that_grouping_made_once_more_is_still_the_one_that_was_ended(
    changes: str,
) -> None:
    """Our watch of pods may lag: a group's end is told before its pod's, and the pod is about to get a group again."""

    async def story(stage: ClusterStage) -> None:
        stage.allowed = {("ana", "delete", "pods")}
        await stage.ask("train")
        await stage.start("train")
        await stage.service.cancel(ANA, "a", "train", Cancel(reason="Enough."))
        happens = {
            "put": lambda: stage.put("groups", group("train")),
            "pod": lambda: stage.drop("pods", "a/train-0"),
            "group": lambda: stage.drop("groups", "a/train"),
        }
        for change in changes.split():
            if change == "turn":
                await stage.turn()
            else:
                happens[change]()
        await stage.turn()
        gone = await stage.service.group(ANA, "a", "train")
        assert (gone.state, gone.word) == ("Cancelled", "Cancelled")

    told(story)


def test_a_request_is_there_while_its_group_is_seen_and_not_entered_yet() -> None:
    """Its group may be told before a turn takes it into the book: who asked must not hear that it is unknown."""

    async def story(stage: ClusterStage) -> None:
        records = stage.service.records
        asked = expected(
            ANA.user, Submit(gpu=1), PodRequest(), key="a/train", now=stage.service.clock()
        )
        records.expect(asked)
        for step in (lambda: None, lambda: stage.put("groups", group("train"))):
            step()
            found = records.find("a/train")
            assert found is not None
            assert found.owner == ANA.user
        await stage.turn()
        entered = records.find("a/train")
        assert entered is not None
        assert entered is not asked
        assert not records.awaited
        stage.drop("groups", "a/train")
        await stage.turn()
        assert "a/train" not in records.awaited

    told(story)


def test_who_may_delete_pods_ends_what_nothing_makes_anew() -> None:
    async def story(stage: ClusterStage) -> None:
        stage.allowed = {("ana", "delete", "pods")}
        await stage.ask("train")
        await stage.start("train")
        view = await stage.service.cancel(ANA, "a", "train", Cancel(grace_s=5))
        assert view.state == "Stopping"
        (sent,) = [json.loads(seen.body) for seen in stage.server.seen if seen.path == EVICTION]
        assert sent["deleteOptions"]["gracePeriodSeconds"] == 5
        assert sent["deleteOptions"]["preconditions"] == {"uid": "uid-train-0"}
        stage.drop("pods", "a/train-0")
        stage.drop("groups", "a/train")
        await stage.turn()
        gone = await stage.service.group(ANA, "a", "train")
        assert (gone.state, gone.word) == ("Cancelled", "Cancelled")

    told(story)


def test_who_may_only_look_ends_nothing() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("train")
        with pytest.raises(RefusedRequest) as error:
            await stage.service.cancel(ANA, "a", "train", Cancel())
        assert error.value.problem.code == "not_allowed"
        assert all(seen.path != EVICTION for seen in stage.server.seen)

    told(story)


def test_an_owner_who_may_make_no_pods_there_is_only_a_name() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("train", annotations={"kai.scheduler/owner": "eve"})
        with pytest.raises(RefusedRequest):
            await stage.service.cancel(EVE, "a", "train", Cancel())
        stage.allowed = {("ben", "create", "pods")}
        await stage.ask("other", annotations={"kai.scheduler/owner": "ben"})
        view = await stage.service.cancel(Caller("ben"), "a", "other", Cancel())
        assert view.state == "Stopping"

    told(story)


def test_what_a_job_would_make_anew_is_ended_there() -> None:
    async def story(stage: ClusterStage) -> None:
        stage.allowed = {("ana", "delete", "pods")}
        await stage.ask("train", pods=0)
        job: dict[str, Any] = {"kind": "Job", "name": "sweep", "uid": "j", "controller": True}
        body = running_pod("train", 0, 1)
        body["metadata"]["ownerReferences"] = [job]
        stage.put("pods", body)
        from tests.unit.kubernetes.objects import group

        made = group("train")
        made["metadata"]["ownerReferences"] = [job]
        stage.put("groups", made)
        await stage.turn()
        with pytest.raises(RefusedRequest) as error:
            await stage.service.cancel(ANA, "a", "train", Cancel())
        assert error.value.problem.hint == "Delete that: kubectl delete job sweep -n a"
        assert [action.id for action in (await stage.service.group(ANA, "a", "train")).actions] == [
            "logs"
        ]

    told(story)


def test_a_disruption_budget_holds_for_people_too() -> None:
    async def story(stage: ClusterStage) -> None:
        stage.allowed = {("ana", "delete", "pods")}
        await stage.ask("train")
        await stage.start("train")
        body = {"reason": "TooManyRequests", "message": "Cannot evict pod.", "code": 429}
        stage.answers[f"POST {EVICTION}"] = Answer(body, 429)
        with pytest.raises(RefusedRequest) as error:
            await stage.service.cancel(ANA, "a", "train", Cancel())
        assert error.value.problem.code == "held_by_budget"

    told(story)


def test_what_this_service_does_not_do_here_is_said() -> None:
    async def story(stage: ClusterStage) -> None:
        with pytest.raises(RefusedRequest) as error:
            await stage.service.submit(ANA, Submit(gpu=1), idempotency_key=None)
        assert (error.value.problem.status, error.value.problem.code) == (501, "not_here")
        with pytest.raises(RefusedRequest) as error:
            await stage.service.orders(ANA, runner_name="r", wait_s=0)
        assert error.value.problem.status == 501
        assert await stage.service.incarnation_of_token("any") is None

    told(story)


@pytest.mark.parametrize(
    "parts",
    [
        {"queue": "a/../../api/v1/namespaces/kube-system/secrets"},
        {"queue": ""},
        {"cluster": ClusterAsk(namespace="a/../b")},
        {"cluster": ClusterAsk(namespace="..")},
        {"cluster": ClusterAsk(namespace="A b")},
    ],
)
def test_what_is_no_name_never_becomes_a_path(parts: dict[str, Any]) -> None:
    """Our account may read more than who asks: nothing of theirs but a name goes into what it asks for."""

    async def story(stage: ClusterStage) -> None:
        stage.service.creator = Creator(stage.cluster.client)
        before = len(stage.server.seen)
        with pytest.raises(RefusedRequest) as error:
            await stage.service.submit(ANA, Submit(gpu=1, **parts), idempotency_key="k")
        assert error.value.problem.code == "bad_name"
        assert len(stage.server.seen) == before

    told(story)
