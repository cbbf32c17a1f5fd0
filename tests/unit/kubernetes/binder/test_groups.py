"""Who uses which shared GPU, and when a device may be let go."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_service.backends.kubernetes.binder.groups import GroupBook, hundredths
from scheduler_service.backends.kubernetes.binder.pods import PodView, Reservation
from scheduler_service.backends.kubernetes.binder.records import Request

NODE = "node-1"
RESERVATION = Reservation("gpu-reservation-1", "r-1", "7", "g", NODE, gpu="GPU-1")
REQUEST = Request(
    key="ns/pod",
    uid="br-1",
    pod="ns/pod",
    node=NODE,
    received="Fraction",
    groups=("g",),
    portion="0.50",
)
POD = PodView(key="ns/pod", uid="pod-1")


def changed(value, **fields):
    return msgspec.structs.replace(value, **fields)


class World:
    """A book that is told only what differs, as a reflector tells it."""

    def __init__(self):
        self.book = GroupBook()
        self._pods, self._requests = {}, {}

    def pod(self, key, pod):
        touched = self.book.saw_pod(self._pods.get(key), pod)
        self._pods[key] = pod
        return touched

    def request(self, key, request):
        touched = self.book.saw_request(self._requests.get(key), request)
        self._requests[key] = request
        return touched


@pytest.fixture
def world():
    found = World()
    found.book.saw_reservation(None, RESERVATION)
    return found


def test_a_device_without_users_is_unused(world):
    assert world.book.standing("g", NODE) == "unused"


def test_a_bind_in_progress_protects_its_device(world):
    """KAI#1103: between the reservation and the label the device looked unused."""
    world.request("ns/pod", REQUEST)
    assert world.book.standing("g", NODE) == "fine"
    world.pod("ns/pod", POD)
    assert world.book.standing("g", NODE) == "fine"


def test_a_request_that_failed_for_good_holds_nothing(world):
    world.pod("ns/pod", POD)
    world.request("ns/pod", changed(REQUEST, phase="Failed", failed_attempts=1))
    assert world.book.standing("g", NODE) == "unused"


def test_a_failed_request_with_tries_left_holds_its_device(world):
    world.pod("ns/pod", POD)
    world.request("ns/pod", changed(REQUEST, phase="Failed", failed_attempts=1, backoff_limit=2))
    assert world.book.standing("g", NODE) == "fine"


@pytest.mark.parametrize("groups", [("g",), ("g", "h")])
def test_the_end_of_a_pod_touches_each_of_its_devices(world, groups):
    """F3: the end of a pod with several devices was not noticed."""
    running = changed(POD, node=NODE, groups=groups)
    world.pod("ns/pod", running)
    assert world.book.standing("g", NODE) == "fine"
    assert world.pod("ns/pod", changed(running, is_ended=True)) == set(groups)
    assert world.book.standing("g", NODE) == "unused"
    assert world.pod("ns/pod", None) == set(groups)


def test_a_pod_that_lost_its_label_is_still_known_by_its_request(world):
    """Somebody edits the labels of a running pod: its device must not go to another."""
    world.request("ns/pod", changed(REQUEST, phase="Succeeded"))
    world.pod("ns/pod", changed(POD, node=NODE, groups=("g",)))
    world.pod("ns/pod", changed(POD, node=NODE, groups=()))
    assert world.book.standing("g", NODE) == "fine"
    assert world.pod("ns/pod", changed(POD, node=NODE, is_ended=True)) == {"g"}
    assert world.book.standing("g", NODE) == "unused"


def test_a_forged_label_elsewhere_holds_nothing(world):
    world.pod("ns/other", PodView(key="ns/other", uid="o", node="node-2", groups=("g",)))
    assert world.book.standing("g", NODE) == "unused"
    world.pod("ns/third", PodView(key="ns/third", uid="t", groups=("g",)))
    assert world.book.standing("g", NODE) == "unused"


def test_a_leaving_pod_holds_its_device_until_it_is_gone(world):
    running = changed(POD, node=NODE, groups=("g",), is_leaving=True)
    world.pod("ns/pod", running)
    assert world.book.standing("g", NODE) == "fine"


def test_a_running_pod_whose_reservation_vanished_is_unprotected(world):
    world.pod("ns/pod", changed(POD, node=NODE, groups=("g",)))
    world.book.saw_reservation(RESERVATION, None)
    assert world.book.standing("g", NODE) == "unprotected"
    assert [pod.key for pod in world.book.running("g")] == ["ns/pod"]


def test_a_device_that_is_about_to_be_reserved_is_not_unprotected(world):
    world.book.saw_reservation(RESERVATION, None)
    world.request("ns/pod", REQUEST)
    world.pod("ns/pod", POD)
    assert world.book.standing("g", NODE) == "fine"


def test_a_request_for_an_earlier_pod_of_the_name_holds_nothing(world):
    world.request("ns/pod", changed(REQUEST, pod_uid="old"))
    world.pod("ns/pod", POD)
    assert world.book.standing("g", NODE) == "unused"


def test_what_others_were_promised_is_summed_without_oneself(world):
    for number in (1, 2):
        key = f"ns/p{number}"
        world.request(key, changed(REQUEST, key=key, pod=key, portion="0.30"))
        world.pod(key, PodView(key=key, uid=key))
    world.request("ns/far", changed(REQUEST, key="ns/far", pod="ns/far", node="node-2"))
    world.pod("ns/far", PodView(key="ns/far", uid="far"))
    world.request("ns/gone", changed(REQUEST, key="ns/gone", pod="ns/gone"))
    world.request("ns/pod", REQUEST)
    assert world.book.promised("g", NODE, without="ns/pod") == 60


def test_an_ended_or_leaving_reservation_is_not_used(world):
    world.book.saw_reservation(RESERVATION, changed(RESERVATION, is_ended=True))
    assert world.book.reservation("g", NODE) is None
    assert world.book.reservation("g", "node-2") is None


def test_nothing_is_kept_of_what_is_gone(world):
    world.request("ns/pod", REQUEST)
    world.pod("ns/pod", changed(POD, node=NODE, groups=("g", "h")))
    world.pod("ns/pod", None)
    world.request("ns/pod", None)
    world.book.saw_reservation(RESERVATION, None)
    assert world.book.groups() == set()
    assert world.book.requests_of("ns/pod") == ()


@pytest.mark.parametrize(
    ("portion", "expected"),
    [("0.50", 50), ("1", 100), ("0.005", 0), ("", 0), ("nan", 0), ("-1", 0), ("2", 0), ("x", 0)],
)
def test_a_portion_is_read_in_hundredths(portion, expected):
    assert hundredths(portion) == expected
