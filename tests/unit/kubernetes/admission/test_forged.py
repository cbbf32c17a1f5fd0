"""Nobody writes what the scheduler decides, and nothing that is charged changes under a running pod."""

import pytest

from scheduler_service.backends.kubernetes.admission.facts import GroupFacts
from scheduler_service.backends.kubernetes.admission.rules import (
    VALIDATE_GROUP,
    VALIDATE_POD,
    VALIDATE_WORKLOAD,
    judge,
    wants,
)
from tests.unit.kubernetes.admission.requests import (
    ANA,
    JOBS,
    OPTIONS,
    OURS,
    annotated,
    change,
    creation,
    known,
    pod,
    relabelled,
)

FACTS = known("q", "other")
PLAIN = pod(labels={"kai.scheduler/queue": "q"})
RUNNING = pod(labels={"kai.scheduler/queue": "q"}, node="n1")


def refused(request, facts=FACTS, path=VALIDATE_POD):
    return " ".join(judge(path, request, facts, OPTIONS, token="t").refusals)


WRITTEN_BY_US = [
    {"kai.scheduler/owner": "bob"},
    {"kai.scheduler/asked": "{}"},
    {"kai.scheduler/payload": "ab"},
    {"received-resource-type": "Fraction"},
    {"run.ai/reserve_for_gpu_index": "GPU-1"},
    {"kai.scheduler/gpu-assigned": "[]"},
    {"kai.scheduler/eviction-notice": "{}"},
    {"kai.scheduler/released": "suspended"},
]


@pytest.mark.parametrize("forged", WRITTEN_BY_US)
def test_what_we_write_is_refused_from_others_at_creation_and_later(forged):
    (key,) = forged
    for request in (creation(annotated(PLAIN, forged)), change(PLAIN, annotated(PLAIN, forged))):
        assert f"{key} is written by the scheduler alone" in refused(request)
    taken_away = change(annotated(PLAIN, forged), PLAIN)
    assert key in refused(taken_away)


@pytest.mark.parametrize("forged", WRITTEN_BY_US)
def test_our_own_accounts_and_administrators_may(forged):
    assert refused(change(PLAIN, annotated(PLAIN, forged), user=OURS)) == ""
    for group in ("system:masters", "kubeadm:cluster-admins"):
        assert refused(change(PLAIN, annotated(PLAIN, forged), groups=[group])) == ""
    assert refused(change(PLAIN, annotated(PLAIN, forged), groups=["masters"]))


@pytest.mark.parametrize("label", ["runai_gpu_group", "runai_gpu_group__g1"])
def test_nobody_joins_a_shared_device_by_label(label):
    joined = relabelled(RUNNING, **{label: "g1"})
    assert "runai-gpu-group" in refused(change(RUNNING, joined))
    assert "runai-gpu-group" in refused(change(joined, RUNNING))
    assert "runai-gpu-group" in refused(creation(relabelled(PLAIN, **{label: "g1"})))
    assert refused(change(RUNNING, joined, user=OURS)) == ""


@pytest.mark.parametrize(
    ("group", "is_refused"),
    [
        (GroupFacts("pg", owner_uids=frozenset({"job-1"})), True),
        (GroupFacts("pg", owner_uids=frozenset({"job-2"})), False),
        (GroupFacts("pg"), False),
        (GroupFacts("pg", owner="bob"), True),
        (GroupFacts("pg", owner=ANA), False),
        (None, False),
    ],
)
def test_a_pod_joins_no_foreign_group(group, is_refused):
    joining = creation(annotated(pod(owner="job-2"), {"pod-group-name": "pg"}))
    assert wants(VALIDATE_POD, joining, OPTIONS).group == "pg"
    assert ("belongs to other work" in refused(joining, known("q", group=group))) is is_refused


def test_a_group_is_not_left_for_another_later():
    old = annotated(PLAIN, {"pod-group-name": "a"})
    moved = annotated(PLAIN, {"pod-group-name": "b"})
    assert "pod-group-name can not change" in refused(change(old, moved))
    assert refused(change(old, moved, user=OURS)) == ""


@pytest.mark.parametrize("key", ["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "mps"])
def test_a_share_does_not_change_after_creation(key):
    for old in (PLAIN, RUNNING):
        assert f"{key} says what the pod was given" in refused(
            change(old, annotated(old, {key: "1"}))
        )


@pytest.mark.parametrize(
    "label",
    [
        "kai.scheduler__queue",
        "kai.scheduler__node_pool",
        "priorityClassName",
        "kai.scheduler__preemptibility",
    ],
)
def test_a_running_pod_is_not_relabelled(label):
    told = refused(change(RUNNING, relabelled(RUNNING, **{label: "other"})))
    assert "can not change" in told


def test_a_waiting_pod_may_ask_another_queue():
    assert refused(change(PLAIN, relabelled(PLAIN, kai_scheduler__queue="q"))) == ""
    moved = pod(labels={"kai.scheduler/queue": "other"})
    assert refused(change(PLAIN, moved)) == ""


def test_other_labels_and_annotations_are_nobodys_business():
    assert refused(change(RUNNING, annotated(relabelled(RUNNING, app="x"), {"note": "y"}))) == ""


def test_a_gpu_pod_does_not_choose_its_node_past_the_queue():
    bypass = pod(labels={"kai.scheduler/queue": "q"}, node="n1", limits={"nvidia.com/gpu": "1"})
    assert "spec.nodeName" in refused(creation(bypass))
    assert refused(creation(RUNNING)) == ""


def test_an_old_pod_with_a_bad_share_can_still_be_grouped_by_us():
    bad = pod(annotations={"gpu-fraction": "NaN"}, labels={"kai.scheduler/queue": "q"})
    assert refused(change(bad, annotated(bad, {"pod-group-name": "pg"}), user=OURS)) == ""
    assert "above 0 and below 1" in refused(creation(bad, user=JOBS))


@pytest.mark.parametrize(
    "key",
    [
        "kai.scheduler/owner",
        "kai.scheduler/last-start-timestamp",
        "kai.scheduler/stale-podgroup-timestamp",
        "kai.scheduler/last-eviction-timestamp",
    ],
)
def test_the_book_of_a_pod_group_is_kept_by_us(key):
    group = {"metadata": {"name": "pg"}, "spec": {"queue": "q"}}
    forged = annotated(group, {key: "2030-01-01T00:00:00Z"})
    assert key in refused(creation(forged, kind="PodGroup"), path=VALIDATE_GROUP)
    assert refused(creation(forged, kind="PodGroup", user=OURS), path=VALIDATE_GROUP) == ""
    assert refused(creation(group, kind="PodGroup"), path=VALIDATE_GROUP) == ""


JOB = {"metadata": {"name": "j", "annotations": {}}, "spec": {}}


@pytest.mark.parametrize("key", ["owner", "asked", "payload"])
def test_whose_a_workload_is_says_our_api_alone(key):
    """Its group repeats what stands there."""
    forged = annotated(JOB, {f"kai.scheduler/{key}": "bob"})
    for request in (
        creation(forged, kind="Job"),
        change(JOB, forged, kind="Job"),
        change(forged, JOB, kind="Job"),
    ):
        told = refused(request, path=VALIDATE_WORKLOAD)
        assert f"kai.scheduler/{key} is written by our API alone" in told
    assert refused(creation(forged, kind="Job", user=OURS), path=VALIDATE_WORKLOAD) == ""
    same = change(forged, annotated(forged, {"note": "x"}), kind="Job")
    assert refused(same, path=VALIDATE_WORKLOAD) == ""
