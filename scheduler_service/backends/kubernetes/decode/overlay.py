"""What we did and the API does not show yet: laid over what it shows, taken away as soon as it does. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from scheduler_service.backends.kubernetes.decode.pods import Place
from scheduler_service.backends.kubernetes.decode.quantities import moment_or_none
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.model.pod import HOLDS_RESOURCES, Pod, PodState
from scheduler_service.model.pod_group import PodGroup


class Overlay:
    """Places of pods that are being bound, pods that were told to leave, and moments of groups."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[str, Place]] = {}
        self._leaving: dict[str, tuple[str, int]] = {}
        self.stale_since: dict[str, int] = {}
        self.last_evicted: dict[str, int] = {}
        self.counts_runtime = False
        """Whether somebody asks how long groups have been running."""

    # -- places --------------------------------------------------------------------------------------
    def bind(self, pod: RawPod, place: Place) -> None:
        """Have a pod count as being bound there."""
        self._places[pod.key] = (pod.metadata.uid, place)

    def unbind(self, key: str) -> None:
        """Take back a binding that did not come about."""
        self._places.pop(key, None)

    def place(self, pod: RawPod) -> Place | None:
        """Return where this very pod is being bound."""
        uid, place = self._places.get(pod.key, ("", None))
        return place if uid == pod.metadata.uid else None

    # -- evictions -----------------------------------------------------------------------------------
    def evict(self, pod: RawPod, now_ms: int) -> None:
        """Have a pod count as leaving since now."""
        self._leaving[pod.key] = (pod.metadata.uid, now_ms)

    def keep(self, key: str) -> None:
        """Take back an eviction that did not come about."""
        self._leaving.pop(key, None)

    def is_leaving(self, pod: RawPod) -> bool:
        """Whether this very pod was told to leave."""
        return self._leaving.get(pod.key, ("", 0))[0] == pod.metadata.uid

    # -- what the API shows takes over -----------------------------------------------------------------
    def pod_changed(self, key: str, pod: RawPod | None) -> None:
        """Forget what the API shows now, or what was said of a pod that is gone."""
        uid = "" if pod is None else pod.metadata.uid
        placed = self._places.get(key)
        if placed is not None and (placed[0] != uid or (pod is not None and pod.is_over)):
            del self._places[key]
        leaving = self._leaving.get(key)
        if leaving is not None and (
            leaving[0] != uid or (pod is not None and pod.metadata.deletion_timestamp)
        ):
            del self._leaving[key]

    def pod(self, raw: RawPod, pod: Pod) -> Pod:
        """Return the pod with what was done to it."""
        uid, since = self._leaving.get(raw.key, ("", 0))
        if uid != raw.metadata.uid or pod.state not in HOLDS_RESOURCES:
            return pod
        return replace(pod, state=PodState.RELEASING, deleted_ms=since)

    def group(self, group: PodGroup, starts: list[str]) -> PodGroup:
        """Return the group with its moments: since when it is stale, runs, and was evicted last."""
        key = group.key
        started = group.started_ms
        if started is None and self.counts_runtime and starts:
            enough = min(max(1, group.min_members), len(starts))
            started = moment_or_none(starts[enough - 1])
        return replace(
            group,
            stale_since_ms=self.stale_since.get(key, group.stale_since_ms),
            started_ms=started,
            last_evicted_ms=self.last_evicted.get(key, group.last_evicted_ms),
        )
