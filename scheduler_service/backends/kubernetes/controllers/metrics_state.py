"""What is so, read at a scrape: quotas, fair shares and use of queues, GPUs in use and idle, who waits and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.controllers.totals import Totals
from scheduler_service.backends.kubernetes.decode.quantities import milli
from scheduler_service.backends.kubernetes.decode.queues import MEGABYTE, RawQueue, RawShare
from scheduler_service.backends.kubernetes.decode.stores import Scope, Stores
from scheduler_service.model.plan import Plan
from scheduler_service.model.reasons import code
from scheduler_service.model.resources import Resources

QUEUE_LABELS = ("queue_name", "queue_metadata_name", "queue_display_name")
GB = 10**9


class Counted(Protocol):
    """Who knows the totals of queues."""

    def queues(self) -> dict[str, Totals]:
        """Return the totals of all queues, with what is below each."""
        ...


@dataclass(frozen=True, slots=True)
class _Gauge:
    name: str
    help: str
    value: Callable[[RawQueue, Totals], float]


def _bound(share: RawShare, unit: float) -> float:
    """Return a quota or limit; unlimited stays -1."""
    return share.quota if share.quota < 0 else share.quota * unit


def _allocated(totals: Totals, resource: str) -> float:
    return totals.allocated.get(resource, 0) / 1000


_QUEUE_GAUGES = (
    _Gauge("kai_queue_info", "A queue that there is.", lambda _raw, _totals: 1),
    _Gauge(
        "kai_queue_deserved_gpus",
        "The quota of GPUs; -1 = no bound.",
        lambda raw, _: _bound(raw.spec.resources.gpu, 1),
    ),
    _Gauge(
        "kai_queue_quota_cpu_cores",
        "The quota of cores; -1 = no bound.",
        lambda raw, _: _bound(raw.spec.resources.cpu, 0.001),
    ),
    _Gauge(
        "kai_queue_quota_memory_bytes",
        "The quota of memory; -1 = no bound.",
        lambda raw, _: _bound(raw.spec.resources.memory, MEGABYTE),
    ),
    _Gauge(
        "kai_queue_allocated_gpus",
        "GPUs that pods of the queue and of those below it hold.",
        lambda _, totals: _allocated(totals, names.GPU_RESOURCE),
    ),
    _Gauge(
        "kai_queue_allocated_cpu_cores",
        "Cores that pods of the queue and of those below it hold.",
        lambda _, totals: _allocated(totals, "cpu"),
    ),
    _Gauge(
        "kai_queue_allocated_memory_bytes",
        "Memory that pods of the queue and of those below it hold.",
        lambda _, totals: _allocated(totals, "memory"),
    ),
    _Gauge(
        "kai_queue_requested_gpus",
        "GPUs that pods of the queue and of those below it ask for, running or not.",
        lambda _, totals: totals.requested.get(names.GPU_RESOURCE, 0) / 1000,
    ),
)
_FAIR_SHARES: tuple[tuple[str, str, Callable[[Resources], float]], ...] = (
    ("kai_queue_fair_share_gpu", "The fair share of GPUs.", lambda share: share.milli_gpu / 1000),
    (
        "kai_queue_fair_share_cpu_cores",
        "The fair share of cores.",
        lambda share: share.milli_cpu / 1000,
    ),
    (
        "kai_queue_fair_share_memory_gb",
        "The fair share of memory.",
        lambda share: share.memory_bytes / GB,
    ),
)


class State(Collector):
    """Reads the state. `plan` is the newest plan, once there is one."""

    def __init__(self, stores: Stores, counted: Counted, scope: Callable[[], Scope]) -> None:
        self.stores = stores
        self.plan: Plan | None = None
        self._counted = counted
        self._scope = scope

    @property
    def pool(self) -> str:
        """The node pool that is scheduled."""
        return self._scope().pool or names.DEFAULT_NODE_POOL

    def collect(self) -> Iterable[Metric]:
        """Yield all families."""
        yield from self._queues()
        yield from self._fair_shares()
        yield from self._gpus()
        yield self._waiting()

    def _labels(self, name: str) -> list[str]:
        raw = self.stores.queues.get(name)
        return [name, name, raw.spec.display_name if raw is not None else ""]

    def _queues(self) -> Iterator[Metric]:
        totals = self._counted.queues()
        for gauge in _QUEUE_GAUGES:
            family = GaugeMetricFamily(gauge.name, gauge.help, labels=QUEUE_LABELS)
            for name, raw in sorted(self.stores.queues.items()):
                value = gauge.value(raw, totals.get(name, Totals()))
                family.add_metric(self._labels(name), value)
            yield family

    def _fair_shares(self) -> Iterator[Metric]:
        shares = {} if self.plan is None else self.plan.fair_shares
        for title, text, value in _FAIR_SHARES:
            family = GaugeMetricFamily(title, text, labels=QUEUE_LABELS)
            for name, share in sorted(shares.items()):
                shown, metadata_name, display = self._labels(name)
                family.add_metric([display or shown, metadata_name, display], value(share))
            yield family

    def _gpus(self) -> Iterator[Metric]:
        """Yield how many GPUs there are for us, and what of them is held."""
        scope = self._scope()
        there = sum(
            milli(raw.status.allocatable.get(names.GPU_RESOURCE, 0))
            for raw in self.stores.nodes.values()
            if scope.has(dict(raw.metadata.labels))
        )
        tops = [name for name, raw in self.stores.queues.items() if not raw.spec.parent_queue]
        totals = self._counted.queues()
        held = sum(totals[name].allocated.get(names.GPU_RESOURCE, 0) for name in tops)
        yield GaugeMetricFamily("kai_gpus", "GPUs that nodes offer.", value=there / 1000)
        yield GaugeMetricFamily(
            "kai_gpus_held", "GPUs that pods of queues hold.", value=held / 1000
        )

    def _waiting(self) -> Metric:
        family = GaugeMetricFamily(
            "kai_waiting_pod_groups",
            "Groups (or rests of them) that wait, by why.",
            labels=["queue", "reason"],
        )
        counts: Counter[tuple[str, str]] = Counter()
        for waiting in () if self.plan is None else self.plan.waiting:
            group = self.stores.groups.get(waiting.group)
            reason = waiting.main_reason
            if group is not None:
                counts[group.spec.queue, "none" if reason is None else code(reason)] += 1
        for (queue, reason_code), count in sorted(counts.items()):
            family.add_metric([queue, reason_code], count)
        return family
