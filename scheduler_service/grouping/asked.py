"""What labels and annotations of owners and pod ask for: the same rules for every kind.

Owners are asked from the top down; the pod comes right after the top owner, as in KAI. What is
ignored leaves a sentence in `notes`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler_service.grouping import keys
from scheduler_service.grouping.durations import duration_ms
from scheduler_service.grouping.objects import Object
from scheduler_service.grouping.shape import Shape, Workload
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.model.topology import TopologyConstraint


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The answers, and what was ignored on the way."""

    queue: str
    owner_queue: str
    priority_class: str
    preemptibility: Preemptibility | None
    preemption_delay_ms: int | None
    stale_grace_ms: int | None
    topology: TopologyConstraint | None
    said_by_pod: frozenset[str]
    notes: tuple[str, ...]


def asked(work: Workload, shape: Shape, *, priority_class: str) -> Asked:
    """Return what the labels ask for; `priority_class` is the kind's own default."""
    listening = _Listening(work, shape)
    queue, owner_queue = _queue(work, shape)
    return Asked(
        queue=queue,
        owner_queue=owner_queue,
        priority_class=listening.priority_class(priority_class),
        preemptibility=listening.preemptibility(),
        preemption_delay_ms=listening.time(keys.PREEMPTION_DELAY, "preemptionDelay"),
        stale_grace_ms=listening.time(keys.STALE_GRACE, "stalenessGracePeriod"),
        topology=shape.topology or _topology(shape),
        said_by_pod=frozenset(listening.said_by_pod),
        notes=tuple(listening.notes),
    )


def _queue(work: Workload, shape: Shape) -> tuple[str, str]:
    """Return the queue, and the same again if a label of the owners named it."""
    settings, pod = work.settings, work.pod
    owners = [owner for owner in shape.asked_by if owner.raw is not pod.raw]
    label = settings.queue_label
    from_owner = next((q for owner in owners if (q := owner.labels.get(label))), "")
    if from_owner:
        return from_owner, from_owner
    project = next((p for each in (*owners, pod) if (p := each.labels.get(keys.PROJECT))), "")
    pool = pod.labels.get(settings.node_pool_label)
    queue = (
        pod.labels.get(label)
        or (f"{project}-{pool}" if project and pool else project)
        or shape.queue
        or work.around.namespace_labels(pod.namespace).get(label)
        or settings.default_queue
    )
    return queue, ""


def _topology(shape: Shape) -> TopologyConstraint | None:
    """Return what the first of the owners asks; without a name KAI takes it for nothing."""
    notes = shape.asked_by[0].annotations
    if not (name := notes.get(keys.TOPOLOGY)):
        return None
    return TopologyConstraint(
        name, notes.get(keys.TOPOLOGY_REQUIRED) or None, notes.get(keys.TOPOLOGY_PREFERRED) or None
    )


class _Listening:
    """Asks owners and pod in order; remembers what was ignored and what only the pod said."""

    def __init__(self, work: Workload, shape: Shape) -> None:
        self._work = work
        self._shape = shape
        self._owners = [owner for owner in shape.asked_by if owner.raw is not work.pod.raw]
        self.notes: list[str] = []
        self.said_by_pod: set[str] = set()

    def priority_class(self, default: str) -> str:
        """Return the first name that is a PriorityClass, else the cluster's default for the kinds."""
        for name, who in self._priority_names():
            if self._work.around.has_priority_class(name):
                self._heard("priorityClassName", who)
                return name
            note = f"PriorityClass {name!r}, asked for by {who}, does not exist and is ignored."
            if note not in self.notes:
                self.notes.append(note)
        settings = self._work.settings
        by_kind = (settings.defaults_of(each.kind).priority_class for each in self._shape.asked_by)
        return next((name for name in by_kind if name), default)

    def preemptibility(self) -> Preemptibility | None:
        """Return the first preemptibility that there is."""
        for who in (*self._owners, self._work.pod):
            word = who.labels.get(keys.PREEMPTIBILITY)
            if word in set(Preemptibility):
                self._heard("preemptibility", who)
                return Preemptibility(word)
            if word:
                self.notes.append(
                    f"{who} asks for preemptibility {word!r}, which there is not; ignored."
                )
        settings = self._work.settings
        by_kind = (settings.defaults_of(each.kind).preemptibility for each in self._shape.asked_by)
        return next((each for each in by_kind if each), None)

    def time(self, key: str, field: str) -> int | None:
        """Return the first time that an annotation spells, in ms; a delay is never negative."""
        for who in (*self._owners, self._work.pod):
            text = who.annotations.get(key)
            if text is None:
                continue
            ms = duration_ms(text)
            if ms is not None and (ms >= 0 or key != keys.PREEMPTION_DELAY):
                self._heard(field, who)
                return ms
            self.notes.append(f"{key} of {who} is {text!r}, not a time like 90s; ignored.")
        return None

    def _heard(self, field: str, who: Object) -> None:
        if who.raw is self._work.pod.raw and self._shape.owner.uid != who.uid:
            self.said_by_pod.add(field)

    def _priority_names(self) -> Iterator[tuple[str, Object]]:
        """Yield the names asked for: the top owner's, the pod's, those of the owners between."""
        shape, pod = self._shape, self._work.pod
        if shape.priority_class:
            yield shape.priority_class, shape.owner
        for who in (*self._owners[:1], pod, *self._owners[1:]):
            if name := who.labels.get(keys.PRIORITY_CLASS):
                yield name, who
            if who is pod and (name := pod.text("spec", "priorityClassName")):
                yield name, who
        if shape.fallback_priority_class:
            yield shape.fallback_priority_class, shape.owner
