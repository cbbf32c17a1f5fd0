"""What is done about one bind request, case by case."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_service.backends.kubernetes.binder.pods import PodView
from scheduler_service.backends.kubernetes.binder.records import Request, request_of
from scheduler_service.backends.kubernetes.binder.rules import (
    Bind,
    Leave,
    Settle,
    Withdraw,
    retry_after_s,
    status_after,
    verdict,
)

REQUEST = Request(key="ns/pod", uid="br-1", pod="ns/pod", node="node-1", pod_uid="pod-1")
POD = PodView(key="ns/pod", uid="pod-1")


def changed(value, **fields):
    return msgspec.structs.replace(value, **fields)


def test_a_fresh_decision_for_a_waiting_pod_is_carried_out():
    assert verdict(REQUEST, POD) == Bind()


def test_a_pod_that_stands_where_it_was_sent_is_a_success_however_it_got_there():
    assert verdict(REQUEST, changed(POD, node="node-1")) == Settle("")


def test_a_pod_that_runs_elsewhere_is_no_success():
    found = verdict(REQUEST, changed(POD, node="node-2"))
    assert found == Settle("The pod already runs on node node-2, not on node-1.")


def test_another_pod_of_the_same_name_is_left_alone():
    """A StatefulSet made its pod again before the old decision was collected."""
    assert isinstance(verdict(REQUEST, changed(POD, uid="pod-2")), Withdraw)
    assert isinstance(verdict(REQUEST, changed(POD, uid="pod-2", node="node-1")), Withdraw)


def test_a_request_of_kai_without_uid_means_the_pod_of_that_name():
    assert verdict(changed(REQUEST, pod_uid=""), changed(POD, uid="pod-7")) == Bind()


@pytest.mark.parametrize("phase", ["", "Succeeded", "Failed", "Pending"])
def test_a_request_whose_pod_is_gone_is_withdrawn_in_every_phase(phase):
    """Else the device it names would be held for ever."""
    assert isinstance(verdict(changed(REQUEST, phase=phase), None), Withdraw)


def test_what_is_settled_or_leaving_needs_nothing():
    assert verdict(changed(REQUEST, phase="Succeeded"), POD) == Leave()
    assert verdict(changed(REQUEST, phase="Failed"), POD) == Leave()
    assert verdict(changed(REQUEST, is_leaving=True), None) == Leave()


def test_a_failed_request_with_tries_left_is_carried_out():
    request = changed(REQUEST, phase="Failed", failed_attempts=1, backoff_limit=3)
    assert verdict(request, POD) == Bind()
    assert verdict(changed(request, failed_attempts=3), POD) == Leave()


def test_a_leaving_or_ended_pod_is_not_bound():
    assert verdict(REQUEST, changed(POD, is_leaving=True)) == Settle("The pod is being deleted.")
    assert verdict(REQUEST, changed(POD, is_ended=True)) == Settle("The pod is being deleted.")


def test_a_share_without_a_device_is_decided_anew():
    assert isinstance(verdict(changed(REQUEST, received="Fraction"), POD), Withdraw)
    assert verdict(changed(REQUEST, received="Fraction", groups=("g",)), POD) == Bind()
    assert isinstance(verdict(changed(REQUEST, node=""), POD), Withdraw)


def test_failed_attempts_are_counted_one_by_one():
    """KAI's counter stopped at 1, so its limit was never met (F1)."""
    request = changed(REQUEST, backoff_limit=3)
    seen = []
    while True:
        wait = retry_after_s(request)
        status = status_after(request, f"because {request.failed_attempts}")
        request = changed(
            request,
            phase=status["phase"],
            reason=status["reason"],
            failed_attempts=status["failedAttempts"],
        )
        seen.append((request.failed_attempts, request.reason, wait))
        if wait is None:
            break
    assert seen == [(1, "because 0", 2.0), (2, "because 1", 4.0), (3, "because 2", None)]
    assert request.is_failed


def test_without_a_limit_the_first_failure_is_the_last():
    """The scheduler decides anew then, as it does for KAI's binder."""
    assert retry_after_s(REQUEST) is None
    assert status_after(REQUEST, "why") == {"phase": "Failed", "reason": "why", "failedAttempts": 1}


def test_a_success_keeps_the_count_and_clears_the_reason():
    request = changed(REQUEST, phase="Failed", reason="why", failed_attempts=2, backoff_limit=5)
    assert status_after(request, "") == {"phase": "Succeeded", "reason": "", "failedAttempts": 2}


def test_kais_request_is_read_field_by_field():
    body = {
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "metadata": {
            "name": "pod",
            "namespace": "ns",
            "uid": "br-1",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "pod-1"}],
        },
        "spec": {
            "podName": "pod",
            "selectedNode": "node-1",
            "receivedResourceType": "Fraction",
            "receivedGPU": {"count": 1, "portion": "0.50"},
            "selectedGPUGroups": ["a", "b"],
            "resourceClaimAllocations": [
                {"name": "gpu", "allocation": {"devices": {"results": []}}}
            ],
            "predictedNUMAZones": [{"zone": "z", "amount": {"cpu": "1"}}],
            "backoffLimit": 2,
        },
        "status": {"phase": "Failed", "reason": "why", "failedAttempts": 1},
    }
    found = request_of(msgspec.json.encode(body))
    assert (found.pod, found.node, found.pod_uid) == ("ns/pod", "node-1", "pod-1")
    assert (found.is_share, found.groups, found.portion) == (True, ("a", "b"), "0.50")
    assert (found.backoff_limit, found.failed_attempts, found.is_settled) == (2, 1, False)
    assert found.claims[0].name == "gpu"


def test_our_uid_goes_before_the_owners():
    body = {
        "metadata": {
            "name": "x",
            "namespace": "ns",
            "ownerReferences": [{"kind": "Pod", "uid": "o"}],
        },
        "spec": {"podName": "pod", "podUID": "mine", "selectedNode": "n"},
    }
    found = request_of(msgspec.json.encode(body))
    assert (found.pod_uid, found.key, found.pod) == ("mine", "ns/x", "ns/pod")
