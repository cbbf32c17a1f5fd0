"""What grouping may ask about the cluster besides the pod: a few reads, answered from what is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from scheduler_service.grouping.objects import CannotGroup, Kind, Object, Raw
from scheduler_service.grouping.owners import Answer, Reference, Unread

POD_GROUP_KIND = Kind("scheduling.run.ai", "PodGroup")
_NAMESPACE = Kind("", "Namespace")
_PRIORITY_CLASS = Kind("scheduling.k8s.io", "PriorityClass")


class Surroundings(Protocol):
    """The cluster as far as it is known; no call waits for anything."""

    def read(self, reference: Reference) -> Answer:
        """Return an object, or why there is none; `Unread.NOT_YET` has the shell fetch it."""
        ...

    def pods(self, namespace: str, labels: Mapping[str, str]) -> Sequence[Raw]:
        """Return the pods that carry these labels."""
        ...

    def pod_groups(self, namespace: str, owner_uid: str) -> Sequence[Raw]:
        """Return KAI's pod groups that this object owns."""
        ...

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace."""
        ...

    def has_priority_class(self, name: str) -> bool:
        """Tell whether there is a PriorityClass of this name."""
        ...


class KnownObjects:
    """Surroundings made of objects in memory.

    `is_complete`: what is not among them does not exist; otherwise it is to be read first.
    """

    def __init__(self, objects: Iterable[Raw], *, is_complete: bool = False) -> None:
        self._objects = [thing for each in objects if _has_place(thing := Object(each))]
        self._is_complete = is_complete
        self._answers: dict[tuple[str, str, str, str], Answer] = {}
        for each in self._objects:
            self._answers[_place(each.api_version, each.kind.name, each.namespace, each.name)] = (
                each.raw
            )

    def learn(self, reference: Reference, answer: Answer) -> None:
        """Take what reading a reference brought."""
        if not isinstance(answer, Unread):
            self._objects.append(Object(answer))
        self._answers[_place_of(reference)] = answer

    def read(self, reference: Reference) -> Answer:
        """Return an object, or why there is none."""
        answer = self._answers.get(_place_of(reference))
        if answer is None:
            cluster_wide = _place(reference.api_version, reference.kind, "", reference.name)
            answer = self._answers.get(cluster_wide)
        if answer is not None:
            return answer
        return Unread.ABSENT if self._is_complete else Unread.NOT_YET

    def pods(self, namespace: str, labels: Mapping[str, str]) -> Sequence[Raw]:
        """Return the pods that carry these labels."""
        return [
            each.raw
            for each in self._of(Kind("", "Pod"), namespace)
            if labels.items() <= each.labels.items()
        ]

    def pod_groups(self, namespace: str, owner_uid: str) -> Sequence[Raw]:
        """Return KAI's pod groups that this object owns."""
        return [
            each.raw
            for each in self._of(POD_GROUP_KIND, namespace)
            if any(
                owner.text("uid") == owner_uid
                for owner in each.entries("metadata", "ownerReferences")
            )
        ]

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace."""
        for each in self._of(_NAMESPACE, ""):
            if each.name == namespace:
                return each.labels
        return {}

    def has_priority_class(self, name: str) -> bool:
        """Tell whether there is a PriorityClass of this name."""
        return any(each.name == name for each in self._of(_PRIORITY_CLASS, ""))

    def _of(self, kind: Kind, namespace: str) -> list[Object]:
        return [e for e in self._objects if e.kind == kind and e.namespace == namespace]


def _has_place(thing: Object) -> bool:
    """Tell whether an object is where another could ask for it; one without is not told of."""
    try:
        return bool(thing.kind.name and thing.name and thing.namespace is not None)
    except CannotGroup:
        return False


def _place(api_version: str, kind: str, namespace: str, name: str) -> tuple[str, str, str, str]:
    """Return where an object lies; the version of its group does not matter."""
    return (api_version.rpartition("/")[0], kind, namespace, name)


def _place_of(reference: Reference) -> tuple[str, str, str, str]:
    return _place(reference.api_version, reference.kind, reference.namespace, reference.name)
