"""Figures for Prometheus: KAI's names with right numbers, and what KAI does not measure: waiting, binding, idle GPUs.

What happened is counted when it happened; what is so (queues, GPUs, who waits) is read when it is asked for, so that it
never disagrees with the state. Series of groups that are gone are dropped.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from scheduler_service.backends.kubernetes.controllers.metrics_state import State
from scheduler_service.backends.kubernetes.decode.pods import group_key
from scheduler_service.backends.kubernetes.decode.quantities import moment_or_none
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.model.plan import Bind, Evict, Plan, Statement

MS = (
    5,
    20,
    100,
    500,
    2_000,
    10_000,
    60_000,
    300_000,
    1_800_000,
    7_200_000,
    43_200_000,
    172_800_000,
)
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
WAITS = (1, 5, 30, 120, 600, 1_800, 7_200, 21_600, 86_400, 259_200)
MOST_EVICTED = 500
"""So many groups at most have a series of their own."""
MOST_DECIDED = 20_000


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the loop: what was planned and begun, how long it took, what was declined."""

    plan: Plan
    accepted: tuple[Statement, ...]
    refused: int
    duration_us: int


class Metrics:
    """`decided` and `pod_changed` count; `text` answers a scrape."""

    def __init__(self, state: State, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._state = state
        self._clock = clock
        self._decided_at: OrderedDict[str, float] = OrderedDict()
        self._evicted_of: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self.registry.register(state)
        self._make()

    def _make(self) -> None:
        where = self.registry
        self._cycle_ms = Gauge(
            "kai_e2e_scheduling_latency_milliseconds", "Duration of the last cycle.", registry=where
        )
        self._cycle = Histogram(
            "kai_cycle_seconds", "Duration of cycles.", buckets=SECONDS, registry=where
        )
        self._to_decision = Histogram(
            "kai_task_scheduling_latency_milliseconds",
            "From the creation of a pod to the decision where it goes.",
            buckets=MS,
            registry=where,
        )
        self._to_bound = Histogram(
            "kai_bind_seconds",
            "From the decision to the pod on its node.",
            buckets=SECONDS,
            registry=where,
        )
        self._waited = Histogram(
            "kai_queue_wait_seconds",
            "From the creation of a pod to its place on a node.",
            ["queue"],
            buckets=WAITS,
            registry=where,
        )
        # Counts whose names in KAI lack the ending that this library gives to counters.
        self._scheduled = Gauge(
            "kai_podgroups_scheduled_by_action",
            "Groups that an action gave a place.",
            ["action"],
            registry=where,
        )
        self._acted_on = Gauge(
            "kai_podgroups_acted_on_by_action",
            "Groups that an action tried to give a place.",
            ["action"],
            registry=where,
        )
        self._preemptions = Gauge(
            "kai_total_preemption_attempts",
            "Decisions that cost others their place.",
            registry=where,
        )
        self._simulations = Counter(
            "kai_scenarios_simulated", "What was tried out in search of victims.", registry=where
        )
        self._refused = Counter(
            "kai_statements_refused",
            "Decisions that could not be begun as things were.",
            registry=where,
        )
        self._evicted = Counter(
            "kai_pod_group_evicted_pods",
            "Pods of a group that had to leave.",
            ["podgroup", "namespace", "uid", "nodepool", "action"],
            registry=where,
        )

    def decided(self, turn: Turn) -> None:
        """Count a turn of the loop."""
        self._cycle_ms.set(turn.duration_us / 1000)
        self._cycle.observe(turn.duration_us / 1e6)
        self._simulations.inc(turn.plan.work.simulations)
        self._refused.inc(turn.refused)
        for statement in turn.accepted:
            self._begun(statement)
        self._count_tries(turn.plan)

    def _count_tries(self, plan: Plan) -> None:
        begun = {(statement.action, statement.group) for statement in plan.statements}
        counts: dict[str, int] = {}
        for action, _ in begun:
            counts[action] = counts.get(action, 0) + 1
        for waiting in plan.waiting:
            for action, _ in waiting.by_action:
                if (action, waiting.group) not in begun:
                    counts[action] = counts.get(action, 0) + 1
        for name, count in counts.items():
            self._acted_on.labels(name).inc(count)

    def _begun(self, statement: Statement) -> None:
        if statement.is_start:
            self._scheduled.labels(statement.action).inc()
        victims = 0
        for operation in statement.operations:
            if isinstance(operation, Evict):
                victims += 1
                self._count_victim(operation.pod, statement.action)
            elif isinstance(operation, Bind):
                self._note_decision(operation.pod)
        if victims and statement.action != "evict_stale_gangs":
            self._preemptions.inc()

    def _note_decision(self, key: str) -> None:
        now, pod = self._clock(), self._state.stores.pods.get(key)
        self._decided_at[key] = now
        if len(self._decided_at) > MOST_DECIDED:
            self._decided_at.popitem(last=False)
        made = moment_or_none(pod.metadata.creation_timestamp) if pod is not None else None
        if made is not None:
            self._to_decision.observe(max(0.0, now * 1000 - made))

    def _count_victim(self, key: str, action: str) -> None:
        pod = self._state.stores.pods.get(key)
        group = self._state.stores.groups.get(group_key(pod)) if pod is not None else None
        if group is None:
            return
        meta = group.metadata
        labels = (meta.name, meta.namespace, meta.uid, self._state.pool, action)
        self._evicted.labels(*labels).inc()
        self._evicted_of[labels] = None
        self._evicted_of.move_to_end(labels)
        if len(self._evicted_of) > MOST_EVICTED:
            self._evicted.remove(*self._evicted_of.popitem(last=False)[0])

    def pod_changed(self, old: RawPod | None, new: RawPod | None) -> None:
        """Measure a pod that reached its node."""
        either = new or old
        if either is None:
            return
        if new is None or new.is_over:
            self._decided_at.pop(either.key, None)
            return
        if old is None or old.spec.node_name or not new.spec.node_name:
            return
        now, decided = self._clock(), self._decided_at.pop(new.key, None)
        if decided is None:
            return
        self._to_bound.observe(max(0.0, now - decided))
        made, group = (
            moment_or_none(new.metadata.creation_timestamp),
            self._state.stores.groups.get(group_key(new)),
        )
        if made is not None and group is not None:
            self._waited.labels(group.spec.queue).observe(max(0.0, now - made / 1000))

    def text(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        return generate_latest(self.registry)
