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

    assert wakes_in_s(pod_groups={"leaves": leaves, "waits": waits}) == pytest.approx(70, abs=0.01)


def test_a_minimum_run_time_ends_while_somebody_waits() -> None:
    queues = {"a": {"quota": 1, "preempt_min_runtime_s": 60}}
    runs, waits = held(started_s_ago=10), {"queue": "a", "gpus": 1, "priority": 75}

    assert wakes_in_s(queues=queues, pod_groups={"runs": runs, "waits": waits}) == 50
    assert wakes_in_s(queues=queues, pod_groups={"runs": runs}) is None


def test_room_begins_to_be_kept() -> None:
    policy = {"reserve_after_s": 600, "reserve_for_s": 600}
    waits = {"queue": "a", "gpus": 1, "waiting_s": 100}

    assert wakes_in_s(policy=policy, pod_groups={"runs": held(), "waits": waits}) == 500


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
    assert not keeps_by_guess(Policy(reserve_after_ms=10), waited)
