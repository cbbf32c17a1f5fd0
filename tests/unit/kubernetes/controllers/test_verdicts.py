"""Why pods wait is told on change only, settled, and taken back: on pod, group and owner."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from scheduler_service.backends.kubernetes.controllers.recorder import Recorder
from scheduler_service.backends.kubernetes.controllers.verdicts import Settling, Sight, Verdicts
from scheduler_service.backends.kubernetes.decode.groups import RawPodGroup, decode_pod_group
from scheduler_service.backends.kubernetes.decode.stores import Scope, Stores
from scheduler_service.backends.kubernetes.errors import Conflict
from scheduler_service.backends.kubernetes.lull import Lull
from scheduler_service.backends.kubernetes.objects import RawPod, decode_pod
from scheduler_service.model.plan import Plan, Waiting
from scheduler_service.model.reasons import (
    BackingOff,
    NoMatchingNode,
    NotReady,
    OverLimit,
    QueueMissing,
    Reason,
)
from tests.unit.kubernetes import objects

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j"}
NOW = Settling(settle_s=0, complete_s=0, again_s=0, missing_s=0)
SOON = Settling(settle_s=0.01, complete_s=0.01, again_s=60, missing_s=0.01)


class Api:
    """Remembers writes; knows how many times to refuse first."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.events: list[dict[str, Any]] = []
        self.conflicts = 0
        self.changed = asyncio.Event()
        self.lull = Lull()

    async def patch(self, path: str, body: Any, _kind: str = "merge", **_more: Any) -> bytes:
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict(409, "Conflict", "somebody was quicker")
        self.patches.append((path, body))
        self.changed.set()
        return b"null"

    async def later(self, _method: str, _path: str, body: dict[str, Any]) -> None:
        self.events.append(body)
        self.changed.set()

    def told(self) -> list[tuple[str, str]]:
        return [(each["regarding"]["kind"], each["reason"]) for each in self.events]


def group(**parts: Any) -> RawPodGroup:
    raw = objects.group(**parts)
    raw["metadata"] |= {"ownerReferences": [OWNER], "resourceVersion": "7"}
    return decode_pod_group(objects.raw(raw))


def pod(name: str = "p", **parts: Any) -> RawPod:
    return decode_pod(objects.raw(objects.pod(name, **parts)))


class Bed:
    """Verdicts over a small world, running."""

    def __init__(self, *pods: RawPod, settling: Settling = SOON, **group_parts: Any) -> None:
        self.api = Api()
        self.stores = Stores(
            pods={each.key: each for each in pods}, groups={"a/g": group(**group_parts)}
        )
        self.troubles: dict[str, str] = {}
        members = {"a/g": {each.key for each in pods}}
        sight = Sight(stores=self.stores, members=members, scope=Scope, troubles=self.troubles)
        api: Any = self.api
        self.recorder = Recorder(api, "test")
        self.verdicts = Verdicts(api, api, self.recorder, sight, settling=settling)

    def says(self, *reasons: Reason) -> None:
        self.verdicts.decided(Plan(0, waiting=(Waiting("a/g", (("allocate", reasons),)),)))

    async def until(self, right: Any) -> None:
        async with asyncio.timeout(30):
            while not right(self.api):
                self.api.changed.clear()
                await self.api.changed.wait()

    async def look(self) -> None:
        """Look at the group now, without waiting for anything to settle."""
        assert await self.verdicts._look("a/g")

    async def __aenter__(self) -> Bed:
        self._tasks = [
            asyncio.create_task(self.verdicts.run()),
            asyncio.create_task(self.recorder.run()),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


NOWHERE = NoMatchingNode("none has the label x=y", 1, 1)


def test_a_plan_that_came_before_it_ran_is_told_on_pod_group_and_owner() -> None:
    async def story() -> None:
        bed = Bed(pod())
        bed.says(NOWHERE)
        async with bed:
            await bed.until(lambda api: len(api.patches) == 2 and len(api.events) == 3)
        of_pod, of_group = (body for _, body in bed.api.patches)
        assert of_pod["metadata"] == {"uid": "uid-p", "resourceVersion": "1"}
        (condition,) = of_pod["status"]["conditions"]
        assert condition["message"] == str(NOWHERE)
        assert of_group["metadata"]["resourceVersion"] == "7"
        (verdict,) = of_group["status"]["schedulingConditions"]
        assert (verdict["transitionID"], verdict["message"]) == ("1", str(NOWHERE))
        assert sorted(bed.api.told()) == [
            ("Job", "Unschedulable"),
            ("Pod", "Unschedulable"),
            ("PodGroup", "Unschedulable"),
        ]

    asyncio.run(story())


def test_what_the_api_says_already_is_not_written_again() -> None:
    told = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": str(NOWHERE),
    }
    mine = {"nodePool": "default", "transitionID": "4", "message": str(NOWHERE)}
    known = pod(status={"conditions": [told]})

    async def story() -> None:
        bed = Bed(known, settling=NOW, status={"schedulingConditions": [mine]})
        bed.says(NOWHERE)
        await bed.look()
        await bed.look()
        assert bed.api.patches == []
        assert len(bed.recorder._waiting) == 3

    asyncio.run(story())


def test_the_same_kind_with_other_numbers_is_told_later_another_kind_at_once() -> None:
    async def story() -> None:
        async with Bed(pod()) as bed:
            bed.says(OverLimit("q", "gpu", 1000, 0, 2000))
            await bed.until(lambda api: len(api.patches) == 2)
            bed.says(OverLimit("q", "gpu", 1000, 500, 2000))
            bed.says(QueueMissing("q"))
            await bed.until(lambda api: len(api.patches) == 4)
            texts = [
                body["status"]["conditions"][0]["message"]
                for path, body in bed.api.patches
                if "/pods/" in path
            ]
        assert texts == [str(OverLimit("q", "gpu", 1000, 0, 2000)), str(QueueMissing("q"))]

    asyncio.run(story())


def test_a_gang_that_is_not_there_yet_gets_news_and_no_condition() -> None:
    async def story() -> None:
        async with Bed(pod()) as bed:
            bed.says(NotReady(1, 2))
            await bed.until(lambda api: len(api.events) == 2)
        assert bed.api.patches == []
        assert sorted(bed.api.told()) == [("Job", "NotReady"), ("PodGroup", "NotReady")]

    asyncio.run(story())


def test_what_is_all_there_need_not_wait_for_more_to_come() -> None:
    """A gang that has its minimum misses nothing but a place; one that has not may only be arriving."""

    async def story() -> None:
        member = pod()
        bed = Bed(member, settling=Settling(settle_s=600, complete_s=0.01))
        async with bed:
            bed.verdicts.pod_changed(None, member)
            bed.says(NotReady(1, 2, 0))
            await bed.look()
            assert bed.api.patches == []
            bed.says(NOWHERE)
            await bed.until(lambda api: api.patches)

    asyncio.run(story())


def test_backing_off_leaves_what_was_told() -> None:
    async def story() -> None:
        async with Bed(pod()) as bed:
            bed.says(QueueMissing("q"))
            bed.says(BackingOff(1, 1000))
            await bed.until(lambda api: len(api.patches) == 2)
        assert bed.api.patches[0][1]["status"]["conditions"][0]["message"] == str(QueueMissing("q"))

    asyncio.run(story())


def test_a_write_that_came_too_late_is_made_from_what_is_so_then() -> None:
    async def story() -> None:
        bed = Bed(pod())
        bed.api.conflicts = 1
        async with bed:
            bed.says(NOWHERE)
            await bed.until(lambda api: len(api.patches) == 2)

    asyncio.run(story())


def test_conditions_go_when_nothing_waits_and_the_owner_hears_of_it_once() -> None:
    async def story() -> None:
        told = {"nodePool": "default", "transitionID": "1", "message": "m"}
        bed = Bed(pod(), settling=NOW, status={"schedulingConditions": [told]})
        waiting = bed.stores.pods["a/p"]
        bed.verdicts.pod_changed(None, waiting)
        placed = msgspec.structs.replace(
            waiting, spec=msgspec.structs.replace(waiting.spec, node_name="n")
        )
        bed.stores.pods["a/p"] = placed
        await bed.look()
        bed.stores.groups["a/g"] = group()
        await bed.look()
        async with bed:
            await bed.until(lambda api: api.events)
        ((_, body),) = bed.api.patches
        assert body["status"] == {"schedulingConditions": []}
        assert bed.api.told() == [("Job", "Scheduled")]

    asyncio.run(story())


@pytest.mark.parametrize("has_trouble", [True, False])
def test_a_pod_that_can_not_be_read_gets_its_own_sentence(*, has_trouble: bool) -> None:
    async def story() -> None:
        async with Bed(pod()) as bed:
            if has_trouble:
                bed.troubles["a/p"] = "The annotation gpu-fraction is 'x': not between 0 and 1."
            bed.says(NOWHERE)
            await bed.until(lambda api: len(api.patches) == 2)
        told = bed.api.patches[0][1]["status"]["conditions"][0]["message"]
        assert told == (bed.troubles.get("a/p") or str(NOWHERE))

    asyncio.run(story())


def test_another_shards_group_is_left_to_it() -> None:
    async def story() -> None:
        bed = Bed(pod(), settling=NOW, labels={"kai.scheduler/node-pool": "other"})
        bed.says(NOWHERE)
        await bed.look()
        assert bed.api.patches == []
        assert not bed.recorder._waiting

    asyncio.run(story())


def test_what_a_queue_holds_back_is_known_as_such() -> None:
    async def story() -> None:
        bed = Bed(pod())
        bed.says(QueueMissing("q"))
        assert bed.verdicts.is_held_by_queue("a/g")
        bed.says(NOWHERE)
        assert not bed.verdicts.is_held_by_queue("a/g")
        assert not bed.verdicts.is_held_by_queue("a/other")

    asyncio.run(story())
