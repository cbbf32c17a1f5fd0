"""The queues of a cluster with their rules: what a queue file says on one machine, its Queue objects say here."""

from __future__ import annotations

from scheduler_service.backends.kubernetes.cluster import KubernetesCluster
from scheduler_service.backends.kubernetes.decode.queues import RawQueue
from scheduler_service.grouping.durations import duration_ms
from scheduler_service.settings.queue_file import QueueConfig, QueueRules
from scheduler_service.settings.subjects import EVERYBODY


class ClusterQueues:
    """The queues in force and their rules, made anew when a Queue (or the policy) changed."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster
        self._config: QueueConfig | None = None
        self._told: object = None
        cluster.listen("queues", self._changed)

    def _changed(self, _old: object, _new: object) -> None:
        self._config = None

    @property
    def config(self) -> QueueConfig:
        """The queues that are scheduled here, with their rules."""
        told, policy = self._cluster.world.told.queues, self._cluster.policy
        known = self._config
        if known is None or self._told is not told or known.policy is not policy:
            found = self._cluster.stores.queues
            known = QueueConfig(
                queues=tuple(told.values()),
                rules={name: rules_of(found[name]) for name in told if name in found},
                policy=policy,
            )
            self._config, self._told = known, told
        return known


def rules_of(raw: RawQueue) -> QueueRules:
    """Return who may ask a queue, whether it shows names, and when a lease in it counts as idle."""
    spec = raw.spec
    idle_ms = duration_ms(spec.idle.after) if spec.idle is not None and spec.idle.after else None
    usual = QueueRules()
    return QueueRules(
        subjects=(EVERYBODY,) if spec.subjects is None else spec.subjects,
        show_names=spec.show_names,
        idle_after_s=usual.idle_after_s if idle_ms is None else idle_ms // 1000,
    )
