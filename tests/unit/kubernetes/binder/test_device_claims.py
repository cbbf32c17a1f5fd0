"""Who is written into a device claim, and what is taken out again."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_service.backends.kubernetes.binder.device_claims import (
    HeldDevices,
    devices_of,
    with_pod,
    without_pod,
)
from scheduler_service.backends.kubernetes.binder.pods import device_claim
from scheduler_service.backends.kubernetes.objects import decode_pod

ALLOCATION = {
    "devices": {
        "results": [
            {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"},
            {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-1"},
            {"request": "m", "driver": "d", "pool": "n1", "device": "all", "adminAccess": True},
        ]
    }
}
DEVICES = (("gpu.example.com", "n1", "gpu-0"), ("gpu.example.com", "n1", "gpu-1"))


def pod(name="pod", uid="pod-1", **parts):
    body = {"metadata": {"name": name, "namespace": "ns", "uid": uid}, **parts}
    return decode_pod(msgspec.json.encode(body))


def test_a_claim_gets_pod_and_devices_once():
    claim = {"metadata": {"name": "c"}, "status": {}}
    changed = with_pod(claim, pod(), ALLOCATION)
    assert changed["status"] == {
        "allocation": ALLOCATION,
        "reservedFor": [{"resource": "pods", "name": "pod", "uid": "pod-1"}],
    }
    assert claim["status"] == {}
    assert with_pod(changed, pod(), ALLOCATION) is None


def test_a_claim_that_others_use_keeps_its_devices():
    shared = with_pod({"metadata": {}}, pod(), ALLOCATION)
    both = with_pod(shared, pod("two", "pod-2"), {"devices": {}})
    assert both["status"]["allocation"] == ALLOCATION
    assert [user["uid"] for user in both["status"]["reservedFor"]] == ["pod-1", "pod-2"]
    left = without_pod(both, "pod-1")
    assert left["status"]["allocation"] == ALLOCATION
    assert "allocation" not in without_pod(left, "pod-2")["status"]


def test_the_roll_back_of_what_was_never_done_changes_nothing():
    assert without_pod({"metadata": {}}, "pod-1") is None
    assert without_pod({"metadata": {}, "status": {"reservedFor": []}}, "pod-1") is None


def test_devices_with_admin_access_belong_to_nobody():
    assert devices_of(ALLOCATION) == DEVICES
    assert devices_of(None) == ()


def test_a_device_of_another_claim_is_found():
    held = HeldDevices()
    held.saw("ns/a", DEVICES)
    assert held.other_holder("ns/a", DEVICES) is None
    assert held.other_holder("ns/b", DEVICES[1:]) == (DEVICES[1], "ns/a")
    held.saw("ns/a", ())
    assert held.other_holder("ns/b", DEVICES) is None


def test_an_old_word_about_one_claim_does_not_free_a_device_of_another():
    held = HeldDevices()
    held.saw("ns/a", DEVICES)
    held.saw("ns/b", DEVICES[:1])
    held.saw("ns/a", ())
    assert held.other_holder("ns/c", DEVICES) == (DEVICES[0], "ns/b")


@pytest.mark.parametrize(
    ("claims", "statuses", "expected"),
    [
        ([{"name": "gpu", "resourceClaimName": "mine"}], [], "mine"),
        (
            [{"name": "gpu", "resourceClaimTemplateName": "t"}],
            [{"name": "gpu", "resourceClaimName": "pod-gpu-x"}],
            "pod-gpu-x",
        ),
        ([{"name": "gpu", "resourceClaimTemplateName": "t"}], [], None),
        ([], [], None),
    ],
)
def test_the_claim_behind_a_pods_own_name(claims, statuses, expected):
    found = pod(spec={"resourceClaims": claims}, status={"resourceClaimStatuses": statuses})
    assert device_claim(found, "gpu") == expected
