"""What Kubernetes says of a pod becomes a stage and our sentence; its own words are shown to nobody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kai_jupyter.hub.pods import PodStanding, standing_of
from kai_jupyter.hub.refusing import NotStarted
from kai_jupyter.hub.stages import IMAGE, NODE, QUEUED, STARTING
from tests.hub.conftest import Spawners

META = {"namespace": "hub", "annotations": {"pod-group-name": "pg-1"}}
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
}


def pod(node: str = "", *states: dict[str, Any], **status: Any) -> dict[str, Any]:
    statuses = [{"state": state} for state in states]
    return {
        "metadata": META,
        "spec": {"nodeName": node} if node else {},
        "status": {"containerStatuses": statuses, **status},
    }


GROUP = ("hub", "pg-1")
WAITS = {"waiting": {"reason": "ContainerCreating"}}
NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": "rpc error: code = Unknown"}}


@pytest.mark.parametrize(
    ("raw", "standing"),
    [
        (None, PodStanding(QUEUED)),
        (pod(conditions=[UNSCHEDULABLE]), PodStanding(QUEUED, group=GROUP)),
        (pod("gpu-3"), PodStanding(NODE, "gpu-3", GROUP)),
        (pod("gpu-3", WAITS), PodStanding(IMAGE, "gpu-3", GROUP)),
        (pod("gpu-3", {"running": {}}), PodStanding(STARTING, "gpu-3", GROUP)),
    ],
)
def test_stages(raw: dict[str, Any] | None, standing: PodStanding) -> None:
    assert standing_of(raw) == standing


def test_trouble_is_told_in_our_words() -> None:
    told = standing_of(pod("gpu-3", NO_IMAGE))
    assert told.trouble == "The image of this environment can not be fetched."


def events_of(spawner: Any, *raws: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return what is told of a pod as it goes on, without a service."""

    async def story() -> list[dict[str, Any]]:
        await spawner.kai_wait()
        spawner._kai_place = SimpleNamespace(look=nothing, name=None)
        found = []
        for raw in raws:
            await spawner._kai_told_of(standing_of(raw))
            found.append(spawner.kai_standing.event())
        return found

    async def nothing() -> None:
        return None

    found: list[dict[str, Any]] = spawner.run(story())
    return found


def test_the_way_of_a_pod_never_goes_back_and_shows_no_raw_event(spawner_of: Spawners) -> None:
    spawner = spawner_of({"share": "0.5", "profile": "torch"})
    raws = (None, pod(conditions=[UNSCHEDULABLE]), pod("gpu-3"), pod("gpu-3", WAITS))
    last = pod("gpu-3", {"running": {}})
    events = events_of(spawner, *raws, last, pod("gpu-3", WAITS))
    percents = [event["progress"] for event in events]
    assert percents == sorted(percents)
    assert [event["kai"]["stage"] for event in events] == [1, 1, 3, 4, 5, 5]
    assert "0/1 nodes" not in str(events)
    assert events[0]["message"] == "In the queue. No time known yet."
    assert events[0]["kai"]["title"] == "Your server waits for 0.5 GPU"
    assert events[3]["kai"]["notes"][3:5] == ("gpu-3", "7.9 GB")


def test_an_image_that_can_not_be_fetched_ends_the_start_in_words(spawner_of: Spawners) -> None:
    spawner = spawner_of({"share": "0.5"})
    trouble = standing_of(pod("gpu-3", NO_IMAGE))
    spawner._kai_refuse_late(trouble, 0, 0, 29_000)
    with pytest.raises(NotStarted, match="Choose another environment"):
        spawner._kai_refuse_late(trouble, 0, 0, 31_000)


def test_only_the_time_after_the_grant_counts(spawner_of: Spawners) -> None:
    spawner = spawner_of({"share": "0.5"}, kai_start_timeout=60)
    spawner._kai_refuse_late(PodStanding(QUEUED), None, None, 10**10)
    with pytest.raises(NotStarted, match="did not run 1 min after its grant"):
        spawner._kai_refuse_late(PodStanding(STARTING, "gpu-3"), 0, None, 61_000)
