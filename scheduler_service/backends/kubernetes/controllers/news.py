"""News of pods, groups and owners: who is meant, and what happened to them. Pure but for the recorder that is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.controllers.recorder import Recorder
from scheduler_service.backends.kubernetes.decode.groups import RawPodGroup
from scheduler_service.backends.kubernetes.decode.pods import group_key
from scheduler_service.backends.kubernetes.decode.stores import Stores
from scheduler_service.backends.kubernetes.encode.event import EventType, News, On
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.model.plan import Evict, Pipeline, Plan, Statement
from scheduler_service.model.reasons import Reason, sentence

EVICTED_PODS = "num-evicted-pods"
EVICTOR_ACTION = "evictor-action-type"
EVICTOR_NAME = "evictor-pod-group-name"
EVICTOR_NAMESPACE = "evictor-pod-group-namespace"


def of_pod(pod: RawPod) -> On:
    """Return how events name a pod."""
    meta = pod.metadata
    return On("v1", "Pod", meta.namespace, meta.name, meta.uid)


def of_group(group: RawPodGroup) -> On:
    """Return how events name a pod group."""
    meta = group.metadata
    return On(names.POD_GROUPS.api_version, "PodGroup", meta.namespace, meta.name, meta.uid)


def of_owner(group: RawPodGroup) -> On | None:
    """Return how events name the object that a group was made for, None for a group made by hand."""
    meta = group.metadata
    if not meta.owner_references:
        return None
    owner = meta.owner_references[0]
    return On(owner.api_version, owner.kind, meta.namespace, owner.name, owner.uid)


def about_pod(pod: RawPod, reason: str, note: str, kind: EventType = "Warning") -> News:
    """Return news of a pod's way to a node."""
    return News(of_pod(pod), kind, reason, note, "Scheduling")


class Happenings:
    """Tells what was done: pods that got a place, that will get one, that had to leave; gangs that became too small."""

    def __init__(self, recorder: Recorder, stores: Stores) -> None:
        self._recorder = recorder
        self._stores = stores
        self._stale: set[str] = set()

    def pod_changed(self, old: RawPod | None, new: RawPod | None, *, is_ours: bool) -> None:
        """Tell of a pod that is on a node now."""
        if not is_ours or old is None or new is None or old.spec.node_name:
            return
        if new.spec.node_name:
            note = f"Placed on node {new.spec.node_name}."
            self._recorder.tell(about_pod(new, names.EVENT_SCHEDULED, note, "Normal"))

    def decided(self, plan: Plan, accepted: Iterable[Statement]) -> None:
        """Tell of what was decided and begun."""
        for statement in accepted:
            self._promised(statement)
            self._evicted(statement)
        for key in plan.stale.keys() - self._stale:
            if group := self._stores.groups.get(key):
                note = "It runs with fewer pods than its minimum. If that lasts, it is stopped."
                self._tell_group(group, names.EVENT_STALE, note, {})
        self._stale = set(plan.stale)

    def _promised(self, statement: Statement) -> None:
        for operation in statement.operations:
            pod = self._stores.pods.get(operation.pod)
            if pod is not None and isinstance(operation, Pipeline) and not operation.moved:
                note = f"Gets a place on node {operation.node} as soon as others have left it."
                self._recorder.tell(about_pod(pod, names.EVENT_PIPELINED, note, "Normal"))

    def _evicted(self, statement: Statement) -> None:
        victims: dict[str, Reason] = {}
        counts: Counter[str] = Counter()
        for operation in statement.operations:
            pod = self._stores.pods.get(operation.pod)
            if pod is None or not isinstance(operation, Evict):
                continue
            note = sentence(operation.reason)
            self._recorder.tell(News(of_pod(pod), "Normal", names.EVENT_EVICT, note, "Evicting"))
            if key := group_key(pod):
                victims.setdefault(key, operation.reason)
                counts[key] += 1
        namespace, _, name = statement.group.partition("/")
        for key, reason in victims.items():
            if group := self._stores.groups.get(key):
                notes = {
                    EVICTED_PODS: str(counts[key]),
                    EVICTOR_ACTION: statement.action,
                    EVICTOR_NAME: name,
                    EVICTOR_NAMESPACE: namespace,
                }
                self._tell_group(group, names.EVENT_EVICT, sentence(reason), notes)

    def _tell_group(
        self, group: RawPodGroup, reason: str, note: str, notes: Mapping[str, str]
    ) -> None:
        """Tell a group, and its owner where that is not a pod that was told itself."""
        owner = of_owner(group)
        told = [of_group(group)] + ([owner] if owner is not None and owner.kind != "Pod" else [])
        for on in told:
            self._recorder.tell(News(on, "Normal", reason, note, "Evicting", annotations=notes))
