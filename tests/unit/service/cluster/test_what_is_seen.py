"""A cluster through the API's door: groups made from objects, in the words of every other surface."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scheduler_service.ports import ADMIN, Caller, ForecastAsk, LogAsk, NotFound, RefusedRequest
from scheduler_service.service.in_cluster import Manner
from scheduler_service.wire.pod_group import Cancel
from tests.fakes.cluster_service import NOON, ClusterStage, cluster_stage, names, running_pod

EVE = Caller("eve")
ANA = Caller("ana", scopes=frozenset({"read", "request", "namespace:a"}))
ROOT = Caller("root", scopes=frozenset({ADMIN}))
Story = Callable[[ClusterStage], Awaitable[None]]


def told(story: Story, *, gpus: int = 8) -> None:
    async def run() -> None:
        async with cluster_stage(gpus=gpus) as stage:
            await story(stage)

    asyncio.run(run())


async def listed(stage: ClusterStage, caller: Caller) -> Any:
    found = await stage.service.groups(caller, queue=None, state=None, mine=False)
    return found.items


def test_a_group_is_seen_by_who_sees_its_namespace_and_by_nobody_else() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("train")
        assert names(await listed(stage, ANA)) == ["train"]
        assert await listed(stage, EVE) == ()
        for ask in (
            stage.service.group(EVE, "a", "train"),
            stage.service.group(ANA, "a", "nothing"),
            stage.service.explain(EVE, "a", "train"),
            stage.service.logs(EVE, "a", "train", LogAsk()),
            stage.service.cancel(EVE, "a", "train", Cancel()),
        ):
            with pytest.raises(NotFound):
                await ask

    told(story)


def test_a_lead_sees_the_groups_of_the_queue_and_an_owner_their_own() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("train", annotations={"kai.scheduler/owner": "ben"})
        lead = Caller("lea", scopes=frozenset({"read", "lead:q"}))
        assert names(await listed(stage, lead)) == ["train"]
        (mine,) = await listed(stage, Caller("ben"))
        assert (mine.mine, mine.owner) == (True, "ben")

    told(story)


def test_who_waits_has_a_place_in_the_queue() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("first", gpus=8)
        await stage.start("first", gpus=8)
        await stage.ask("second", gpus=8)
        await stage.ask("third", gpus=8, pods=2)
        second = await stage.service.group(ANA, "a", "second")
        assert (second.state, second.position, second.waiting_in_queue) == ("Waiting", 1, 2)
        assert second.request.text == "8 GPUs"
        third = await stage.service.group(ANA, "a", "third")
        assert (third.position, third.workers, third.kind) == (2, 2, "gang")

    told(story)


def test_the_words_of_the_scheduler_that_decides_come_first() -> None:
    async def story(stage: ClusterStage) -> None:
        condition = {
            "type": "UnschedulableOnNodePool",
            "nodePool": "default",
            "status": "True",
            "reason": "Unschedulable",
            "message": "Node n has no room.",
            "transitionID": "1",
        }
        await stage.ask("train", gpus=8, status={"schedulingConditions": [condition]})
        view = await stage.service.group(ANA, "a", "train")
        assert view.detail == "Node n has no room."
        assert (view.reason.code, view.reason.text) == ("told", "Node n has no room.")
        why = await stage.service.explain(ANA, "a", "train")
        assert (why.items[0].title, why.items[0].text) == ("Scheduler", "Node n has no room.")
        assert why.position == 1

    told(story)


def test_a_scheduler_that_changes_nothing_still_says_where_everybody_stands() -> None:
    """`--dry-run`: it would start the first at once, so the first is next, not unknown."""

    async def run() -> None:
        async with cluster_stage(manner=Manner(dry_run=True)) as stage:
            await stage.ask("first", gpus=8)
            await stage.ask("second", gpus=8)
            places = [(view.name, view.position) for view in await listed(stage, ANA)]
            assert sorted(places) == [("first", 1), ("second", 2)]
            assert "only says what it would do" in (await stage.service.health()).notes[0]

    asyncio.run(run())


def test_what_runs_says_where_and_holds_devices() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("train", gpus=2)
        await stage.start("train", gpus=2)
        view = await stage.service.group(ANA, "a", "train")
        assert (view.state, view.headline[:13]) == ("Running", "Running on n ")
        assert [pod.name for pod in view.pods] == ["train-0"]
        assert sum(share.milli for share in view.pods[0].devices) == 2000
        (node,) = await stage.service.nodes(ROOT)
        assert (node.milli_gpu, node.allocated_milli_gpu, len(node.devices)) == (8000, 2000, 8)
        assert [holder.name for device in node.devices for holder in device.holders] == [
            "train",
            "train",
        ]
        (queue,) = await stage.service.queues(ANA)
        assert (queue.allocated.milli_gpu, queue.running) == (2000, 1)

    told(story)


def test_others_names_are_hidden_where_the_queue_does_not_show_them() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("secret-name", gpus=8)
        (queue,) = await stage.service.queues(EVE)
        (row,) = queue.waiting_rows
        assert (row.who, row.name, row.namespace) == ("a colleague", "", "")
        (queue,) = await stage.service.queues(ANA)
        assert (queue.waiting_rows[0].who, queue.waiting_rows[0].name) == ("a", "secret-name")

    told(story)


def test_labels_of_nodes_are_for_admins() -> None:
    async def story(stage: ClusterStage) -> None:
        from tests.unit.kubernetes.objects import node

        stage.put("nodes", node(labels={"rack": "r1"}))
        await stage.turn()
        assert (await stage.service.nodes(EVE))[0].labels == {}
        assert (await stage.service.nodes(ROOT))[0].labels["rack"] == "r1"

    told(story)


@pytest.mark.parametrize("finished", ["2026-01-05T08:07:00Z", None])
def test_how_it_failed_is_told(finished: str | None) -> None:
    """A kubelet that does not know when a container ended says null."""

    async def story(stage: ClusterStage) -> None:
        await stage.ask("train")
        end = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": finished}
        status = {"containerStatuses": [{"name": "c", "state": {"terminated": end}}]}
        await stage.start("train", phase="Failed", status=status)
        view = await stage.service.group(ANA, "a", "train")
        assert (view.state, view.pods[0].exit_code, view.pods[0].signal) == (
            "Failed",
            137,
            "SIGKILL",
        )
        assert view.detail == "The machine had no memory left for it."

    told(story)


def test_an_eviction_says_why_and_how_long() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("train")
        notice = '{"reason":"reclaimed_by","sentence":"Others had less than their share.","at":%d}'
        await stage.start(
            "train",
            deleted="2026-01-05T08:10:00Z",
            annotations={"kai.scheduler/eviction-notice": notice % NOON},
        )
        view = await stage.service.group(ANA, "a", "train")
        assert view.word.startswith("Taken back in")
        assert view.headline == "Others had less than their share."
        stage.drop("pods", "a/train-0")
        stage.drop("groups", "a/train")
        await stage.turn()
        gone = await stage.service.group(ANA, "a", "train")
        assert (gone.state, gone.word) == ("Evicted", "Lost")

    told(story)


def test_who_was_killed_on_the_way_out_did_not_fail() -> None:
    """A kubelet ends what does not go by itself, and its exit code says so."""

    async def story(stage: ClusterStage) -> None:
        end = {"exitCode": 137, "finishedAt": "2026-01-05T08:10:00Z"}
        status = {"containerStatuses": [{"state": {"terminated": end}}]}
        notice = '{"reason":"reclaimed_by","sentence":"Others had less than their share."}'
        for name, notes, state in (
            ("evicted", {"kai.scheduler/eviction-notice": notice}, "Evicted"),
            ("deleted", {}, "Cancelled"),
        ):
            await stage.ask(name)
            gone = {"deleted": "2026-01-05T08:09:30Z", "annotations": notes}
            await stage.start(name, phase="Failed", status=status, **gone)
            assert (await stage.service.group(ANA, "a", name)).state == state

    told(story)


def test_what_the_api_was_asked_is_read_back_from_the_objects() -> None:
    async def story(stage: ClusterStage) -> None:
        asked = '{"kind":"lease","name":"mine","gpu":1,"lease_s":600,"queue":"q"}'
        notes = {"kai.scheduler/owner": "ben", "kai.scheduler/asked": asked}
        await stage.ask("mine-1a2b", annotations=notes)
        await stage.start("mine-1a2b")
        view = await stage.service.group(Caller("ben"), "a", "mine-1a2b")
        assert (view.kind, view.word) == ("lease", "Granted")
        assert view.expires_at == view.granted_at + 600_000
        assert "release" in {action.id for action in view.actions}
        forged = {"kai.scheduler/asked": asked}
        await stage.ask("other", annotations=forged)
        assert (await stage.service.group(ANA, "a", "other")).kind == "batch"

    told(story)


def test_what_was_deleted_is_remembered_for_a_while() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("train")
        await stage.start("train")
        stage.now += 3_600_000
        stage.drop("pods", "a/train-0")
        stage.drop("groups", "a/train")
        await stage.turn()
        gone = await stage.service.group(ANA, "a", "train")
        assert (gone.state, gone.pods[0].name) == ("Cancelled", "train-0")
        assert gone.gpu_seconds == 3300
        assert not stage.cluster.stores.groups
        assert stage.service.records.namespaces() == {"a"}, "whose rights are asked about still"

    told(story)


def test_a_new_try_of_a_job_takes_the_place_of_the_failed_one() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("train", pods=0)
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "train",
            "uid": "j",
            "controller": True,
        }
        for number, phase in ((0, "Failed"), (1, "Running")):
            body = running_pod("train", number, 1, phase=phase)
            body["metadata"]["ownerReferences"] = [job]
            body["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = "0"
            stage.put("pods", body)
        await stage.turn()
        view = await stage.service.group(ANA, "a", "train")
        assert ([pod.name for pod in view.pods], view.state) == (["train-1"], "Running")

    told(story)


def test_a_forecast_is_made_from_the_clusters_own_nodes() -> None:
    async def story(stage: ClusterStage) -> None:
        answer = await stage.service.forecast(ANA, ForecastAsk(gpu="4", queue="q"))
        assert (answer.verdict, answer.queue) == ("now", "q")
        never = await stage.service.forecast(ANA, ForecastAsk(gpu="9", queue="q"))
        assert never.verdict == "never"
        assert "largest node has 8 GPUs" in never.text

    told(story)


def test_a_snapshot_is_for_admins_and_plain_values() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("train")
        with pytest.raises(RefusedRequest):
            await stage.service.snapshot(ANA)
        content = await stage.service.snapshot(ROOT)
        assert content["version"]

    told(story)


def test_health_says_who_decides() -> None:
    async def story(stage: ClusterStage) -> None:
        health = await stage.service.health()
        assert (health.backend, health.devices_text) == ("kubernetes", "8 GPUs on 1 node")
        assert "Another scheduler decides here" in health.notes[0]

    told(story)
