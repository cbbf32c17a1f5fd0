"""The way from a pod up to its top owner, one reference at a time.

Only this file knows how the walk goes: along the controller's reference, up while an object has
one, not past what may not be read, and never on to another object of the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from scheduler_service.grouping.objects import CannotGroup, Kind, Object, Raw

MOST_OWNERS = 16
"""Deeper than any operator nests; a ring of owners ends here."""


class Unread(Enum):
    """Why a reference has no object."""

    FORBIDDEN = "forbidden"
    ABSENT = "absent"
    NOT_YET = "not yet"


class Reference(msgspec.Struct, frozen=True):
    """Where an object is to be read. `uid` is "" where any object of that name will do."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        """Return how sentences name it."""
        return f"{self.kind} {self.namespace}/{self.name}"


Answer = Raw | Unread
Read = Callable[[Reference], Answer]


class NotRead(Exception):
    """A reference has to be read first. `group_pod` turns it into its answer `Needs`."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        super().__init__(str(reference))


class OwnerGone(msgspec.Struct, frozen=True):
    """An owner no longer exists: the garbage collector will take the pod."""

    reference: Reference

    def __str__(self) -> str:
        """Return the sentence."""
        return f"{self.reference} is gone. Kubernetes will remove this pod."


def next_reference(thing: Object) -> Reference | None:
    """Return whom to read next, None at the top.

    Of several owners the controller counts; without one, an object in the middle of the chain is
    refused, as in KAI, and for a pod the first counts.
    """
    references = thing.entries("metadata", "ownerReferences")
    if not references:
        return None
    controllers = [each for each in references if each.flag("controller")]
    if not controllers and len(references) > 1 and thing.kind != Kind("", "Pod"):
        raise thing.refusal(
            f"It has {len(references)} owners and none is its controller.",
            hint="Leave one of its ownerReferences, or mark one as controller.",
        )
    chosen = (controllers or references)[0]
    return Reference(
        api_version=chosen.text("apiVersion") or "v1",
        kind=chosen.text("kind"),
        namespace=thing.namespace,
        name=chosen.text("name"),
        uid=chosen.text("uid"),
    )


def step(below: Object, reference: Reference, answer: Answer) -> Object | Unread | OwnerGone:
    """Return the owner above `below`, or why the walk ends there.

    A cluster-wide owner has no namespace of its own and lives on in that of its pods.
    """
    if answer is Unread.NOT_YET:
        raise NotRead(reference)
    if answer is Unread.ABSENT:
        return OwnerGone(reference)
    if isinstance(answer, Unread):
        return answer
    owner = Object({"apiVersion": reference.api_version, "kind": reference.kind, **answer})
    if reference.uid and owner.uid != reference.uid:
        return OwnerGone(reference)
    return owner if owner.namespace else _in_namespace(owner, below.namespace)


def owners_of(pod: Object, read: Read) -> tuple[Object, ...] | OwnerGone:
    """Return the owners of a pod, the top one first; none for a pod of its own.

    What may not be read ends the walk: the last object that could be read is the top.
    """
    found: list[Object] = []
    below = pod
    while (reference := next_reference(below)) is not None:
        if len(found) == MOST_OWNERS:
            raise CannotGroup(
                f"The pods of {found[0]} can not be grouped.",
                why=f"Its chain of owners is longer than {MOST_OWNERS}, or goes in a ring.",
                hint="Correct the ownerReferences.",
                code="cannot_group",
            )
        above = step(below, reference, read(reference))
        if isinstance(above, OwnerGone):
            return above
        if isinstance(above, Unread):
            break
        found.append(above)
        below = above
    return tuple(reversed(found))


def _in_namespace(owner: Object, namespace: str) -> Object:
    return Object({**owner.raw, "metadata": {**owner.table("metadata"), "namespace": namespace}})
