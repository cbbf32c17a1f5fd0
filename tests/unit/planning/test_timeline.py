"""When those that wait would start if those that run end as they said: played, and taken back."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_service.model.gpu import WholeGpus
from scheduler_service.model.pod import Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup, SubGroup, flat_gang
from scheduler_service.model.policy import Policy
from scheduler_service.planning import timeline
from tests.properties.book import image
from tests.unit.small_world import NOW_MS, ONE, SmallWorld, node


def starts(world: SmallWorld, **ends_in_ms: int) -> dict[str, int]:
    """Return who starts when; the book is afterwards as before."""
    ledger = world.ledger()
    before = image(ledger)
    ends = {f"d/{key}": moment for key, moment in ends_in_ms.items()}
    found = timeline.starts(ledger, Policy.conformance(), NOW_MS, ends_in_ms=ends)
    assert image(ledger) == before
    assert not ledger.journal.touched
    return {key.removeprefix("d/"): moment for key, moment in found.items()}


def full(*names: str) -> SmallWorld:
    """Return a node of one-GPU groups that fill it."""
    world = SmallWorld(nodes=[node("n0", len(names))])
    for name in names:
        world.runs(name, ONE, on="n0")
    return world


def test_each_starts_with_the_ending_that_makes_room_for_it() -> None:
    world = full("a", "b")
    for name in ("first", "second", "third"):
        world.waits(name, ONE)

    assert starts(world, a=1000, b=300) == {"first": 300, "second": 1000}
    assert starts(world, a=1000) == {"first": 1000}
    assert starts(world) == {}


def test_who_started_in_between_ends_after_its_own_time() -> None:
    world = full("a")
    for name in ("first", "second", "third"):
        world.waits(name, ONE)

    assert starts(world, a=100, first=50, second=30) == {"first": 100, "second": 150, "third": 180}


def test_a_time_of_one_that_does_not_run_or_is_not_there_ends_nobody() -> None:
    world = full("a")
    world.waits("first", ONE)
    world.waits("second", ONE)

    assert starts(world, first=5, nobody=1) == {}
    assert starts(world, first=5, nobody=1, a=20) == {"first": 20, "second": 25}


def test_a_gang_starts_when_there_is_room_for_all_of_it() -> None:
    world = full("a", "b", "c")
    world.waits("gang", ONE, pods=2)

    assert starts(world, a=100, b=300, c=900) == {"gang": 300}
    assert starts(world, a=100, b=100, c=900) == {"gang": 100}


def test_a_group_ends_with_all_its_pods() -> None:
    world = SmallWorld(nodes=[node("n0", 2)])
    world.groups.append(PodGroup(name="two", namespace="d", queue="team", gang=flat_gang(2)))
    request = PodRequest(1000, 1 << 30, ONE)
    world.pods += [
        Pod(f"two-{n}", "d", "d/two", PodState.RUNNING, request=request, node="n0")
        for n in range(2)
    ]
    world.waits("wish", WholeGpus(2))

    assert starts(world, two=70) == {"wish": 70}


def test_those_that_leave_are_taken_as_gone() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    world._add("gone", ONE, 1, PodState.RELEASING, "n0", ())
    world.waits("first", ONE)
    world.waits("second", ONE)

    assert starts(world, first=40) == {"first": 0, "second": 40}


def test_a_promise_is_no_start() -> None:
    world = SmallWorld(nodes=[node("n0", 1), node("n1", 1)])
    world.runs("a", ONE, on="n0")
    request = PodRequest(1000, 1 << 30, ONE)
    world.groups.append(PodGroup(name="gang", namespace="d", queue="team", gang=flat_gang(1)))
    world.pods += [
        Pod("gang-0", "d", "d/gang", PodState.PIPELINED, request=request, node="n1"),
        Pod("gang-1", "d", "d/gang", request=request),
    ]

    assert starts(world) == {}


@pytest.mark.parametrize(("steps", "found"), [(1, {}), (2, {"first": 10})])
def test_so_many_endings_are_played_and_no_more(
    monkeypatch: pytest.MonkeyPatch, steps: int, found: dict[str, int]
) -> None:
    monkeypatch.setattr(timeline, "MAX_STEPS", steps)
    world = full("a", "b")
    world.waits("first", ONE)
    world.waits("second", ONE)

    assert starts(world, a=10, b=20) == found


@pytest.mark.parametrize(
    ("attempts", "found"), [(1, {}), (2, {"first": 0}), (3, {"first": 0, "second": 10})]
)
def test_so_many_groups_are_tried_and_no_more(
    monkeypatch: pytest.MonkeyPatch, attempts: int, found: dict[str, int]
) -> None:
    monkeypatch.setattr(timeline, "MAX_ATTEMPTS", attempts)
    world = SmallWorld(nodes=[node("n0", 2)])
    world.runs("a", ONE, on="n0")
    world.waits("first", ONE)
    world.waits("second", ONE)

    assert starts(world, a=10) == found


def test_a_group_of_which_a_part_runs_runs() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    gang = SubGroup(min_subgroups=1, children=(SubGroup("x", 1), SubGroup("y", 1)))
    world.groups.append(PodGroup(name="tree", namespace="d", queue="team", gang=gang))
    request = PodRequest(1000, 1 << 30, ONE)
    world.pods += [
        Pod("x-0", "d", "d/tree", PodState.RUNNING, request=request, node="n0", sub_group="x"),
        Pod("y-0", "d", "d/tree", PodState.GATED, request=request, sub_group="y"),
    ]
    world.waits("wish", ONE)

    assert starts(world, tree=50) == {"wish": 50}


def test_those_that_wait_grow_older_meanwhile() -> None:
    """`long` is lifted as far as it can be; at the moment of the ending `late` has caught up."""
    world = full("a")
    world.waits("long", ONE, priority=50, waits_since_ms=NOW_MS - 900)
    world.waits("late", ONE, priority=55, waits_since_ms=NOW_MS)
    policy = msgspec.structs.replace(Policy.conformance(), age_ms=100, max_age=10)

    for ends_at, first in ((450, "d/long"), (2000, "d/late")):
        found = timeline.starts(world.ledger(), policy, NOW_MS, ends_in_ms={"d/a": ends_at})
        assert found == {first: ends_at}
