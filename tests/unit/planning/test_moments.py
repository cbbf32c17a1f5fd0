"""When time alone changes what is planned: the plan names the moment, so that the loop wakes then."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.policy import Policy
from scheduler_service.planning.cycle import plan
from scheduler_service.planning.reservation import keeps_by_guess, next_turn_ms
from tests.field.reports import scenario

ONE: dict[str, Any] = {"nodes": {"n0": {"gpus": 1}}, "run": "allocate", "expect": {}}


def wakes_in_s(**parts: Any) -> float | None:
    """Return after how many seconds the plan of a cluster is to be made again though nothing happens."""
    world = scenario(**{**ONE, "queues": {"a": {"quota": 4}}, **parts}).world
    now = world.snapshot.now_ms
    made = plan(Ledger.from_snapshot(world.snapshot), world.policy, now)
    return None if made.wake_ms is None else (made.wake_ms - now) / 1000


def held(**more: Any) -> dict[str, Any]:
    return {"queue": "a", "gpus": 1, "running_on": "n0", **more}


def test_nothing_to_come_is_no_moment() -> None:
    assert wakes_in_s(pod_groups={"runs": held()}) is None


def test_a_preemption_delay_ends() -> None:
    waits = {"queue": "a", "gpus": 1, "preemption_delay_s": 300, "created_s_ago": 100}

    assert wakes_in_s(pod_groups={"runs": held(), "waits": waits}) == 200


def test_a_delay_that_is_over_now_is_no_moment_nor_is_one_without_times() -> None:
    waits = {"queue": "a", "gpus": 1, "preemption_delay_s": 300}

    assert wakes_in_s(pod_groups={"runs": held(), "waits": {**waits, "created_s_ago": 300}}) is None
    assert wakes_in_s(pod_groups={"runs": held(), "waits": {**waits, "created_s_ago": 299}}) == 1
    assert wakes_in_s(pod_groups={"runs": held(), "waits": waits}) is None


def test_a_delay_begins_anew_with_an_eviction_and_the_first_of_several_counts() -> None:
    one = {"queue": "a", "gpus": 1, "preemption_delay_s": 300, "created_s_ago": 100}
    evicted = {**one, "last_evicted_s_ago": 40, "created": 1}

    assert wakes_in_s(pod_groups={"runs": held(), "evicted": evicted}) == 260
    assert wakes_in_s(pod_groups={"runs": held(), "evicted": evicted, "waits": one}) == 200


def test_whoever_starts_now_has_no_delay_to_wait_for() -> None:
    waits = {"queue": "a", "gpus": 1, "preemption_delay_s": 300, "created_s_ago": 100}

    assert wakes_in_s(pod_groups={"waits": waits}) is None


def test_whoever_is_told_to_go_now_has_its_whole_delay_before_it() -> None:
    request = {"request": {"gpus": 1}}
    runs = {"name": "l-0", "state": "running", "node": "n0", **request}
    low = {
        "queue": "a",
        "pods": [runs, {"name": "l-1", **request}],
        "preemption_delay_s": 300,
        "created_s_ago": 100,
    }
    high = {"queue": "a", "gpus": 1, "priority": 75}

    assert wakes_in_s(run="preempt", pod_groups={"low": low}) == 200
    assert wakes_in_s(run="preempt", pod_groups={"low": low, "high": high}) == 300


def test_the_grace_of_a_stale_gang_ends() -> None:
    left = {"name": "l", "state": "running", "node": "n0", "request": {"gpus": 1}}
    gone = {"name": "g", "state": "failed", "request": {"gpus": 1}}
    gang = {"queue": "a", "min_members": 2, "pods": [left, gone], "stale_for_s": 20}

    cycle = {"action": "cycle", "settle_cycles": 0, "steady_cycles": 1}
    assert wakes_in_s(run=cycle, pod_groups={"gang": gang}) == 40


def test_a_leaving_pod_is_stuck_from_then_on() -> None:
    pod = {"name": "l", "state": "releasing", "node": "n0", "deleted_s_ago": 50}
    leaves = {"queue": "a", "pods": [{**pod, "request": {"gpus": 1}}]}
    waits = {"queue": "a", "gpus": 1, "created": 1}

    assert wakes_in_s(pod_groups={"leaves": leaves, "waits": waits}) == 70.001


def test_a_minimum_run_time_ends_while_somebody_waits() -> None:
    queues = {"a": {"quota": 1, "preempt_min_runtime_s": 60}}
    runs, waits = held(started_s_ago=10), {"queue": "a", "gpus": 1, "priority": 75}

    assert wakes_in_s(queues=queues, pod_groups={"runs": runs, "waits": waits}) == 50
    assert wakes_in_s(queues=queues, pod_groups={"runs": runs}) is None
    assert wakes_in_s(queues=queues, pod_groups={"runs": held(), "waits": waits}) is None
    assert wakes_in_s(pod_groups={"runs": runs, "waits": waits}) is None


def test_the_run_time_before_a_reclaim_ends_as_well_and_the_nearest_counts() -> None:
    runs, waits = held(started_s_ago=10), {"queue": "b", "gpus": 1}
    b = {"quota": 1}
    longer = {"a": {"reclaim_min_runtime_s": 90}, "b": b}
    both = {"a": {"preempt_min_runtime_s": 60, "reclaim_min_runtime_s": 90}, "b": b}

    assert wakes_in_s(queues=longer, pod_groups={"runs": runs, "waits": waits}) == 80
    assert wakes_in_s(queues=both, pod_groups={"runs": runs, "waits": waits}) == 50


def test_room_begins_to_be_kept() -> None:
    policy = {"reserve_after_s": 600, "reserve_for_s": 600}
    waits = {"queue": "a", "gpus": 1, "waiting_s": 100}

    assert wakes_in_s(policy=policy, pod_groups={"runs": held(), "waits": waits}) == 500
    assert wakes_in_s(pod_groups={"runs": held(), "waits": waits}) is None
    assert wakes_in_s(policy=policy, pod_groups={"waits": waits}) is None
    unknown = {"queue": "a", "gpus": 1}
    assert wakes_in_s(policy=policy, pod_groups={"runs": held(), "waits": unknown}) is None


@pytest.mark.parametrize(
    ("waited", "is_kept", "left"),
    [
        (0, False, 10),
        (9, False, 1),
        (10, True, 5),
        (14, True, 1),
        (15, False, 10),
        (24, False, 1),
        (25, True, 10),
        (34, True, 1),
        (35, False, 10),
        (45, True, 15),
        (59, True, 1),
        (60, False, 10),
    ],
)
def test_what_is_kept_by_guess_is_kept_longer_each_time(
    waited: int, is_kept: bool, left: int
) -> None:
    """After 10 for 5, after 10 more for 10, then for 15."""
    policy = Policy(reserve_after_ms=10, reserve_for_ms=5)

    assert keeps_by_guess(policy, waited) is is_kept
    assert next_turn_ms(policy, waited) == left
    assert next_turn_ms(Policy(reserve_after_ms=10), waited) == 10 - waited
    assert not keeps_by_guess(Policy(reserve_after_ms=10), waited)
