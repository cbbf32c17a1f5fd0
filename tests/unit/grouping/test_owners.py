"""The walk from a pod to its top owner, as it goes wrong in life."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_service.grouping.description import Grouped, Needs, Ungroupable
from scheduler_service.grouping.grouper import group_pod
from scheduler_service.grouping.objects import CannotGroup, Object
from scheduler_service.grouping.owners import (
    NotRead,
    OwnerGone,
    Reference,
    Unread,
    next_reference,
    owners_of,
)
from scheduler_service.grouping.surroundings import KnownObjects


def thing(kind: str, name: str, *owners: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1" if kind == "Pod" else "example.com/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "ownerReferences": list(owners),
        },
        "spec": {"schedulerName": "kai-scheduler"},
    }


def owned_by(kind: str, name: str, **more: Any) -> dict[str, Any]:
    reference = {"apiVersion": "example.com/v1", "kind": kind, "name": name, "uid": f"uid-{name}"}
    return {**reference, **more}


def test_top_owner_comes_first() -> None:
    """A pod of a job of an experiment."""
    top = thing("Experiment", "e")
    run = thing("Run", "r", owned_by("Experiment", "e"))
    pod = thing("Pod", "p", owned_by("Run", "r"))
    found = owners_of(Object(pod), KnownObjects([top, run]).read)
    assert isinstance(found, tuple)
    assert [owner.name for owner in found] == ["e", "r"]


def test_controller_counts_among_several_owners() -> None:
    """A volume's owner or a workspace is listed before the controller."""
    several = [owned_by("Space", "s"), owned_by("Run", "r", controller=True)]
    reference = next_reference(Object(thing("Pod", "p", *several)))
    assert reference is not None
    assert reference.name == "r"


def test_first_owner_of_a_pod_counts_without_a_controller() -> None:
    """As in KAI."""
    several = [owned_by("Space", "s"), owned_by("Run", "r")]
    reference = next_reference(Object(thing("Pod", "p", *several)))
    assert reference is not None
    assert reference.name == "s"


def test_owner_with_two_owners_is_refused() -> None:
    """Nobody knows which of them the pods belong to."""
    with pytest.raises(CannotGroup, match="2 owners and none is its controller"):
        next_reference(Object(thing("Run", "r", owned_by("Space", "s"), owned_by("Lab", "l"))))


def test_ring_of_owners_ends() -> None:
    """Two objects that name each other as owner must not hold us for ever."""
    known = KnownObjects([thing("A", "a", owned_by("B", "b")), thing("B", "b", owned_by("A", "a"))])
    with pytest.raises(CannotGroup, match="goes in a ring"):
        owners_of(Object(thing("Pod", "p", owned_by("A", "a"))), known.read)


def test_name_used_again_is_not_the_owner() -> None:
    """The owner was deleted and made anew; the garbage collector has not yet come to the pod."""
    pod = thing("Pod", "p", owned_by("Run", "r", uid="uid-of-an-earlier-r"))
    found = owners_of(Object(pod), KnownObjects([thing("Run", "r")]).read)
    assert isinstance(found, OwnerGone)
    assert str(found) == "Run ml/r is gone. Kubernetes will remove this pod."


def test_what_is_not_known_is_asked_for_one_by_one() -> None:
    """A shell that waits for the API reads what is named and asks again."""
    cluster = {
        "r": thing("Run", "r", owned_by("Experiment", "e")),
        "e": thing("Experiment", "e"),
    }
    known, asked_for = KnownObjects([]), []
    pod = thing("Pod", "p", owned_by("Run", "r"))
    while isinstance(outcome := group_pod(pod, known), Needs):
        asked_for.append(outcome.reference.name)
        known.learn(outcome.reference, cluster[outcome.reference.name])
    assert isinstance(outcome, Grouped)
    assert (asked_for, outcome.group.name) == (["r", "e"], "pg-e-uid-e")


def test_forbidden_answer_is_remembered() -> None:
    """An owner of a kind that nobody gave us the right to read."""
    known = KnownObjects([])
    pod = thing("Pod", "p", owned_by("Secretive", "s"))
    outcome = group_pod(pod, known)
    assert isinstance(outcome, Needs)
    known.learn(outcome.reference, Unread.FORBIDDEN)
    grouped = group_pod(pod, known)
    assert isinstance(grouped, Grouped)
    assert grouped.group.name == "pg-p-uid-p"


def test_cluster_wide_owner_is_found() -> None:
    """Its reference has no namespace to say so."""
    owner = thing("Zone", "z")
    del owner["metadata"]["namespace"]
    found = owners_of(Object(thing("Pod", "p", owned_by("Zone", "z"))), KnownObjects([owner]).read)
    assert isinstance(found, tuple)
    assert [each.namespace for each in found] == ["ml"]


def test_unread_owner_is_an_error_outside_group_pod() -> None:
    """`owners_of` alone has no word for it."""
    with pytest.raises(NotRead) as unread:
        owners_of(Object(thing("Pod", "p", owned_by("Run", "r"))), KnownObjects([]).read)
    assert unread.value.reference == Reference("example.com/v1", "Run", "ml", "r", "uid-r")


@pytest.mark.parametrize("references", ["none", [3], {"uid": "u"}])
def test_owner_references_of_a_wrong_shape_are_a_sentence(references: Any) -> None:
    """The API server would not give this; a file on a disk may."""
    pod = thing("Pod", "p")
    pod["metadata"]["ownerReferences"] = references
    outcome = group_pod(pod, KnownObjects([], is_complete=True))
    assert isinstance(outcome, Ungroupable)
    assert outcome.sentence == (
        "Pod ml/p can not be grouped. metadata.ownerReferences is not a list of mappings."
        " Correct it there."
    )
