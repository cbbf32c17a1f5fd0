"""Pods whose group is known here before the API is told: it hears of it with the pod's binding, at no further write.

Rule: what nobody else was told is told within a moment, whether or not the pod got a place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.grouping import keys

TOLD_AFTER_S = 2.0


class Pods(Protocol):
    """The pods as they are followed (`watch.Reflector`)."""

    def believe(self, key: str, uid: str, amend: Callable[[RawPod], RawPod | None]) -> None:
        """Know more of a pod than the API shows, until `amend` says None."""
        ...

    def is_believed(self, key: str) -> bool:
        """Whether more is known of it than the API shows."""
        ...


class Memberships:
    """Says which pods belong to which group although the API does not show it yet."""

    def __init__(self, pods: Pods, is_starting: Callable[[RawPod], bool]) -> None:
        self._pods = pods
        self._is_starting = is_starting
        self.is_speaking = False
        """Whether what is told of a pod right now is our own word."""

    def assume(self, pod: RawPod, group: str) -> None:
        """Have a pod be a member here and now."""
        self.is_speaking = True
        try:
            self._pods.believe(pod.key, pod.metadata.uid, partial(_member, group))
        finally:
            self.is_speaking = False

    def is_untold(self, pod: RawPod) -> bool:
        """Whether only we know the group of this pod."""
        return self._pods.is_believed(pod.key)

    def goes_with_binding(self, pod: RawPod) -> bool:
        """Whether a binding that is under way will tell it."""
        return not pod.spec.node_name and self._is_starting(pod)


def is_membership_alone(patch: dict[str, Any]) -> bool:
    """Say whether a pod's patch is its group's name and nothing else."""
    meta = patch.get("metadata", {})
    return set(meta) == {"annotations"} and set(meta["annotations"]) == {keys.POD_GROUP}


def _member(group: str, pod: RawPod) -> RawPod | None:
    """Return the pod as a member; None where it says of itself whose it is."""
    meta = pod.metadata
    if meta.annotations.get(keys.POD_GROUP):
        return None
    return replace(
        pod, metadata=replace(meta, annotations={**meta.annotations, keys.POD_GROUP: group})
    )
