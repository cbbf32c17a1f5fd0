"""How far the pod of a server is, from what Kubernetes says of it; told in our words, never in its own. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kai_jupyter.hub.stages import IMAGE, NODE, QUEUED, STARTING

GROUP_ANNOTATION = "pod-group-name"
NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
CRASHED = frozenset({"CrashLoopBackOff", "CreateContainerConfigError", "RunContainerError"})
TROUBLES: Mapping[str, str] = {
    **dict.fromkeys(NO_IMAGE, "The image of this environment can not be fetched."),
    **dict.fromkeys(CRASHED, "The server's program ends as soon as it starts."),
}


@dataclass(frozen=True, slots=True)
class PodStanding:
    """How far a pod is. `group`: its request for devices, once it is made. `trouble`: a sentence, or nothing."""

    stage: int
    node: str = ""
    group: tuple[str, str] | None = None
    trouble: str = ""


def standing_of(pod: Mapping[str, Any] | None) -> PodStanding:
    """Return how far a pod is; one that is not there yet waits."""
    if pod is None:
        return PodStanding(QUEUED)
    meta, status = pod.get("metadata") or {}, pod.get("status") or {}
    name = (meta.get("annotations") or {}).get(GROUP_ANNOTATION)
    group = (str(meta.get("namespace", "")), str(name)) if name else None
    node = str((pod.get("spec") or {}).get("nodeName") or "")
    if not node:
        return PodStanding(QUEUED, group=group)
    containers = status.get("containerStatuses") or ()
    waiting = [(one.get("state") or {}).get("waiting") for one in containers]
    reasons = [str(one.get("reason", "")) for one in waiting if one]
    trouble = next((TROUBLES[reason] for reason in reasons if reason in TROUBLES), "")
    return PodStanding(_stage(containers, reasons), node, group, trouble)


def _stage(containers: Any, reasons: list[str]) -> int:
    if not containers:
        return NODE
    return IMAGE if reasons else STARTING
