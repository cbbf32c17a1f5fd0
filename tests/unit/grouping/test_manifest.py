"""What is written, and what is left as others set it, when a group exists already."""

from __future__ import annotations

import copy
import string
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.grouping.description import Grouped, TopOwner
from scheduler_service.grouping.grouper import group_pod, top_owner_text
from scheduler_service.grouping.manifest import manifest, merged, pod_patch
from scheduler_service.grouping.objects import Kind
from scheduler_service.grouping.settings import GroupingSettings
from scheduler_service.grouping.surroundings import KnownObjects

SETTINGS = GroupingSettings()
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    for name in ("train", "build")
]


def job(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "lora",
            "namespace": "ml",
            "uid": "uid-lora",
            "labels": {"kai.scheduler/queue": "vision"},
            "annotations": {"kai.scheduler/batch-min-member": "2"},
        },
        "spec": spec,
    }


def pod(name: str = "lora-0", **labels: str) -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "lora", "uid": "uid-lora"}
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "labels": labels,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"schedulerName": "kai-scheduler"},
    }


def grouped(owner: dict[str, Any], member: dict[str, Any] | None = None) -> Grouped:
    known = KnownObjects([owner, *CLASSES], is_complete=True)
    found = group_pod(member or pod(), known)
    assert isinstance(found, Grouped)
    return found


def made() -> dict[str, Any]:
    """Return the group as the API server gives it back."""
    return copy.deepcopy(manifest(grouped(job()).group))


def after(owner: dict[str, Any], existing: dict[str, Any]) -> dict[str, Any]:
    new = merged(grouped(owner).group, existing, SETTINGS)
    assert new is not None
    return new


def test_unchanged_workload_writes_nothing() -> None:
    """Each event of each pod comes by here."""
    existing = made()
    existing["metadata"]["resourceVersion"] = "17"
    existing["status"] = {"resourcesStatus": {}}
    assert merged(grouped(job()).group, existing, SETTINGS) is None


def test_existing_group_is_not_changed_in_place() -> None:
    """It may lie in a cache of others."""
    existing, owner = made(), job()
    owner["metadata"]["annotations"]["kai.scheduler/batch-min-member"] = "3"
    before = copy.deepcopy(existing)
    assert after(owner, existing)["spec"]["minMember"] == 3
    assert existing == before


def test_marks_of_the_scheduler_stay() -> None:
    """The scheduler writes them into the spec."""
    existing, owner = made(), job()
    existing["spec"] |= {"markUnschedulable": True, "schedulingBackoff": 1}
    owner["metadata"]["annotations"]["kai.scheduler/batch-min-member"] = "3"
    spec = after(owner, existing)["spec"]
    assert (spec["markUnschedulable"], spec["schedulingBackoff"]) == (True, 1)


def test_queue_moved_by_hand_stays() -> None:
    """A lead moved the group; its Job still carries the old label."""
    existing = made()
    existing["spec"]["queue"] = "fast-lane"
    assert merged(grouped(job()).group, existing, SETTINGS) is None


def test_relabelled_owner_moves_its_group() -> None:
    """Its owner gave the Job another queue's label."""
    owner = job()
    owner["metadata"]["labels"]["kai.scheduler/queue"] = "nlp"
    new = after(owner, made())
    assert (new["spec"]["queue"], new["metadata"]["labels"]["kai.scheduler/queue"]) == (
        "nlp",
        "nlp",
    )


def test_group_of_kai_keeps_its_queue() -> None:
    """KAI made it and noted nothing: whether the label or the queue is newer is not known."""
    existing = made()
    existing["spec"]["queue"] = "old"
    del existing["metadata"]["annotations"]["kai.scheduler/owner-queue"]
    assert after(job(), existing)["spec"]["queue"] == "old"


def test_topology_set_by_hand_stays() -> None:
    """The workload says nothing of it."""
    existing = made()
    existing["spec"]["topologyConstraint"] = {"topology": "racks", "requiredTopologyLevel": "rack"}
    assert merged(grouped(job()).group, existing, SETTINGS) is None


def test_node_pool_and_user_of_the_first_pod_stay() -> None:
    """Two people's pods in one group must not write against each other."""
    first = grouped(job(), pod(user="ana", **{"kai.scheduler/node-pool": "a100"}))
    existing = copy.deepcopy(manifest(first.group))
    second = grouped(job(), pod("lora-1", user="ben", **{"kai.scheduler/node-pool": "h200"}))
    assert merged(second.group, existing, SETTINGS) is None


def test_class_that_only_a_pod_asks_for_is_the_first_pods() -> None:
    """Master and worker of one job name different classes in their templates."""
    first = grouped(job(), pod(priorityClassName="build"))
    existing = copy.deepcopy(manifest(first.group))
    second = grouped(job(), pod("lora-1", priorityClassName="train"))
    assert second.group.priority_class == "train"
    assert merged(second.group, existing, SETTINGS) is None


def test_resumed_job_is_no_longer_let_go() -> None:
    """Somebody suspended it and thought again."""
    existing = copy.deepcopy(manifest(grouped(job(suspend=True)).group))
    assert existing["metadata"]["annotations"]["kai.scheduler/released"] == "suspended"
    new = after(job(suspend=False), existing)
    assert "kai.scheduler/released" not in new["metadata"]["annotations"]


def test_time_that_is_no_longer_asked_for_goes() -> None:
    """The annotation was taken off the Job."""
    owner = job()
    owner["metadata"]["annotations"]["kai.scheduler/preemption-delay"] = "90s"
    existing = copy.deepcopy(manifest(grouped(owner).group))
    assert existing["spec"]["preemptionDelay"] == "1m30s"
    assert after(job(), existing)["spec"].get("preemptionDelay") is None


def test_labels_of_others_stay() -> None:
    """A cost tool marks groups."""
    existing = made()
    existing["metadata"]["labels"]["cost-centre"] = "42"
    assert merged(grouped(job()).group, existing, SETTINGS) is None


def test_pod_is_made_a_member_once() -> None:
    """The first event patches the pod, the next finds it done."""
    member = pod()
    found = grouped(job(), member)
    assert pod_patch(member, found) == {
        "metadata": {"annotations": {"pod-group-name": "pg-lora-uid-lora"}}
    }
    member["metadata"]["annotations"] = {"pod-group-name": "pg-lora-uid-lora"}
    assert pod_patch(member, found) is None


def test_label_of_a_sub_group_that_is_no_more_is_taken_away() -> None:
    """The group is flat now; with the label the pod would belong to nothing."""
    member = pod(**{"kai.scheduler/subgroup-name": "worker"})
    patch = pod_patch(member, grouped(job(), member))
    assert patch is not None
    assert patch["metadata"]["labels"] == {"kai.scheduler/subgroup-name": None}


@pytest.mark.parametrize("length", [1, 200, 253])
def test_name_fits_whatever_the_owner_is_called(length: int) -> None:
    """Names of owners may be as long as the API server lets them."""
    owner, member = job(), pod()
    owner["metadata"]["name"] = "a" * (length - 1) + "b"
    member["metadata"]["ownerReferences"][0]["name"] = owner["metadata"]["name"]
    name = grouped(owner, member).group.name
    assert len(name) <= 253
    assert name.endswith("-uid-lora")


AWKWARD = st.sampled_from(
    ["", "null", "No", "y", "1e3", "0x1f", "1_000", "on", "a: b", "a\n", "b#"]
)
WORDS = AWKWARD | st.text(string.printable, max_size=20)


@given(WORDS, WORDS, WORDS, WORDS, WORDS)
def test_top_owner_is_yaml_that_reads_back(
    name: str, uid: str, group: str, version: str, kind: str
) -> None:
    """A uid of digits, an owner called `null`: the readers of the annotation get the words again."""
    text = top_owner_text(TopOwner(name, uid, Kind(group, kind), version))
    assert yaml.safe_load(text) == {
        "name": name,
        "uid": uid,
        "group": group,
        "version": version,
        "kind": kind,
    }


def test_what_is_written_on_a_pod_when_it_is_placed_is_no_news_of_its_group() -> None:
    """A bare pod is its group's owner: its place, its shared GPU and its eviction must not cost a write more."""
    bare = pod("alone")
    del bare["metadata"]["ownerReferences"]
    placed = copy.deepcopy(bare)
    placed["metadata"]["labels"] |= {"runai-gpu-group": "x", "runai-gpu-group/x": "x"}
    placed["metadata"]["annotations"] = {
        "received-resource-type": "Fraction",
        "runai/shared-gpu-configmap": "alone-abc-shared-gpu",
        "kai.scheduler/eviction-notice": "{}",
    }
    known = KnownObjects(CLASSES, is_complete=True)
    first, second = (group_pod(each, known) for each in (bare, placed))
    assert isinstance(first, Grouped)
    assert isinstance(second, Grouped)
    assert manifest(first.group) == manifest(second.group)
