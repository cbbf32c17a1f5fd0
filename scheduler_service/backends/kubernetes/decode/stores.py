"""The cluster as the API tells it: one mapping a kind, by name or namespace/name. Filled by reflectors, or by tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.bindings import RawBindRequest, RawTopology
from scheduler_service.backends.kubernetes.decode.groups import RawPodGroup
from scheduler_service.backends.kubernetes.decode.needs import (
    RawStorageClass,
    RawVolume,
    RawVolumeClaim,
)
from scheduler_service.backends.kubernetes.decode.queues import RawQueue
from scheduler_service.backends.kubernetes.objects import RawNode, RawPod, RawPriorityClass


@dataclass(slots=True)
class Stores:
    """What is known now. Nobody but who follows the API writes here."""

    pods: dict[str, RawPod] = field(default_factory=dict)
    nodes: dict[str, RawNode] = field(default_factory=dict)
    groups: dict[str, RawPodGroup] = field(default_factory=dict)
    queues: dict[str, RawQueue] = field(default_factory=dict)
    topologies: dict[str, RawTopology] = field(default_factory=dict)
    requests: dict[str, RawBindRequest] = field(default_factory=dict)
    classes: dict[str, RawPriorityClass] = field(default_factory=dict)
    volume_claims: dict[str, RawVolumeClaim] = field(default_factory=dict)
    volumes: dict[str, RawVolume] = field(default_factory=dict)
    storage_classes: dict[str, RawStorageClass] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which part of a cluster is ours to schedule, and how its queues are read."""

    scheduler_names: frozenset[str] = frozenset({names.SCHEDULER_NAME})
    pool_label: str = names.NODE_POOL_LABEL
    pool: str = ""
    """Only what carries this value of the label; "" = only what does not carry the label."""
    is_flat: bool = False
    """Without the fairness of the hierarchy: all queues below one parent."""
    preempt_min_runtime_ms: int | None = None
    reclaim_min_runtime_ms: int | None = None
    """For queues below which nobody says one."""

    def has(self, labels: dict[str, str]) -> bool:
        """Whether an object with these labels is in our pool."""
        return labels.get(self.pool_label, "") == self.pool
