"""What the player of the fake nodes does for a pod, step by step; no cluster is needed for it."""

from __future__ import annotations

from typing import Any

from tests.cluster.testbed.player import (
    DEVICES,
    ENDS,
    HOLD,
    RESERVATION_APP,
    RESERVED_DEVICE,
    Node,
    Step,
    device_id,
    next_step,
)

NOW = "2030-01-01T00:00:00Z"


def pod(uid: str = "0a0b0c0d-1", *, gpus: int = 0, phase: str = "Pending", **meta: Any) -> Any:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {"name": "a", "namespace": "n", "uid": uid, **meta},
        "spec": {"nodeName": "x", "containers": [{"name": "c", "resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }


def status_of(step: Step | None) -> Any:
    assert step is not None
    assert step.body is not None
    return step.body["status"]


def test_a_bound_pod_starts_on_devices_of_its_own() -> None:
    node = Node("x", 2)
    first = next_step(pod("00000001-a", gpus=1), node, NOW)
    second = next_step(pod("00000002-b", gpus=1), node, NOW)
    given = [one.body["metadata"]["annotations"][DEVICES] for one in (first, second)]
    assert given == [device_id("x", 0), device_id("x", 1)]
    assert status_of(first)["phase"] == "Running"


def test_asked_again_the_same_pod_gets_the_same_devices() -> None:
    """The request may fail after the devices were given."""
    node = Node("x", 1)
    assert next_step(pod(gpus=1), node, NOW) == next_step(pod(gpus=1), node, NOW)


def test_a_device_that_is_booked_twice_fails_the_pod() -> None:
    node = Node("x", 1)
    next_step(pod("00000001-a", gpus=1), node, NOW)
    refused = status_of(next_step(pod("00000002-b", gpus=1), node, NOW))
    assert (refused["phase"], refused["reason"]) == ("Failed", "UnexpectedAdmissionError")


def test_who_ends_gives_its_devices_back() -> None:
    node = Node("x", 1)
    next_step(pod("00000001-a", gpus=1), node, NOW)
    assert next_step(pod("00000001-a", gpus=1, phase="Succeeded"), node, NOW) is None
    assert status_of(next_step(pod("00000002-b", gpus=1), node, NOW))["phase"] == "Running"


def test_a_player_that_is_started_anew_remembers_who_holds_what() -> None:
    node = Node("x", 2)
    running = pod("00000001-a", gpus=1, phase="Running", annotations={DEVICES: device_id("x", 0)})
    node.remember(running)
    fresh = next_step(pod("00000002-b", gpus=1), node, NOW)
    assert fresh.body["metadata"]["annotations"] == {DEVICES: device_id("x", 1)}


def test_a_deleted_pod_is_removed_unless_it_is_held() -> None:
    node = Node("x", 0)
    gone = {"deletionTimestamp": NOW}
    assert next_step(pod(phase="Running", **gone), node, NOW) == Step()
    assert next_step(pod(phase="Running", annotations={HOLD: "end"}, **gone), node, NOW) is None


def test_a_held_pod_does_not_start() -> None:
    assert next_step(pod(annotations={HOLD: "start"}), Node("x", 0), NOW) is None


def test_pods_end_on_command() -> None:
    node = Node("x", 0)
    ends = [
        status_of(next_step(pod(phase="Running", annotations={ENDS: phase}), node, NOW))
        for phase in ("Succeeded", "Failed")
    ]
    codes = [one["containerStatuses"][0]["state"]["terminated"]["exitCode"] for one in ends]
    assert ([one["phase"] for one in ends], codes) == (["Succeeded", "Failed"], [0, 1])


def test_a_reservation_pod_says_its_device() -> None:
    step = next_step(pod(gpus=1, labels={"app": RESERVATION_APP}), Node("x", 1), NOW)
    assert step.body["metadata"]["annotations"][RESERVED_DEVICE] == device_id("x", 0)
