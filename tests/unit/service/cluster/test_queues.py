"""What a Queue object says of who may ask it and who is shown, as a queue file says on one machine."""

from __future__ import annotations

from scheduler_service.ports import Caller
from tests.fakes.cluster_service import ClusterStage
from tests.unit.kubernetes.objects import queue
from tests.unit.service.cluster.test_what_is_seen import EVE, told


def test_a_queue_shows_names_once_its_object_says_so() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("train", gpus=8)
        (view,) = await stage.service.queues(EVE)
        assert (view.shows_names, view.waiting_rows[0].who) == (False, "a colleague")
        stage.put("queues", queue(showNames=True))
        await stage.turn()
        (view,) = await stage.service.queues(EVE)
        assert (view.shows_names, view.waiting_rows[0].name) == (True, "train")

    told(story)


def test_a_queue_says_who_may_ask_it() -> None:
    async def story(stage: ClusterStage) -> None:
        stage.put("queues", queue(subjects=["group:vision"]))
        await stage.turn()
        vision = Caller("ben", frozenset({"vision"}))
        assert [q.may_submit for q in await stage.service.queues(EVE)] == [False]
        assert [q.may_submit for q in await stage.service.queues(vision)] == [True]
        lead = Caller("lea", scopes=frozenset({"read", "lead:q"}))
        assert [q.may_submit for q in await stage.service.queues(lead)] == [True]

    told(story)


def test_what_is_unlimited_in_the_object_is_unlimited_in_the_view() -> None:
    async def story(stage: ClusterStage) -> None:
        (view,) = await stage.service.queues(EVE)
        assert (view.quota.milli_gpu, view.limit.milli_gpu) == (None, None)
        stage.put("queues", queue(gpu={"quota": 2, "limit": 4, "overQuotaWeight": 1}))
        await stage.turn()
        (view,) = await stage.service.queues(EVE)
        assert (view.quota.milli_gpu, view.limit.milli_gpu) == (2000, 4000)

    told(story)
