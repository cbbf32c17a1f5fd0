"""Numbers for Prometheus, read when they are asked for, so that they never disagree with the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduler_service.ports import ADMIN, Caller
from scheduler_service.service.cluster_view import queue_views
from scheduler_service.service.core import Core
from scheduler_service.words.group import state_of

EVERYTHING = Caller("kai", scopes=frozenset({ADMIN}))


class _Numbers(Collector):
    def __init__(self, core: Core) -> None:
        self._core = core

    def collect(self) -> Iterable[Metric]:
        core = self._core
        groups = GaugeMetricFamily(
            "kai_pod_groups", "Requests kept, by queue and state", labels=["queue", "state"]
        )
        counts = Counter((record.queue, state_of(record)) for record in core.records)
        for (queue, state), count in sorted(counts.items()):
            groups.add_metric([queue, state], count)
        yield groups
        yield self._devices()
        yield self._shares()
        for cycle in core.history.last(1):
            yield GaugeMetricFamily(
                "kai_cycle_seconds",
                "Duration of the last cycle that decided",
                value=cycle.duration_us / 1e6,
            )
        yield GaugeMetricFamily("kai_revision", "Revision of the state", value=core.changes.rev)

    def _devices(self) -> Metric:
        held: Counter[str] = Counter()
        for record in self._core.records:
            for pod in record.pods:
                for share in pod.devices if pod.is_occupied else ():
                    held[share.device] += share.milli
        family = GaugeMetricFamily(
            "kai_device_allocated_gpus", "What pods hold of each device", labels=["node", "device"]
        )
        node = self._core.cluster.node
        for device in node.devices:
            family.add_metric([node.name, device.id], held[device.id] / 1000)
        return family

    def _shares(self) -> Metric:
        """Return all amounts of every queue together; what is unlimited has no series, and never a 0."""
        family = GaugeMetricFamily(
            "kai_queue_gpus",
            "GPUs of a queue with those below it, now; requested is held and waiting together",
            labels=["queue", "what"],
        )
        for view in queue_views(self._core.picture(EVERYTHING)):
            amounts = {
                "quota": view.quota.milli_gpu,
                "limit": view.limit.milli_gpu,
                "fair_share": view.fair_share.milli_gpu,
                "allocated": view.allocated.milli_gpu,
                "requested": view.requested.milli_gpu,
            }
            for what, milli in amounts.items():
                if milli is not None:
                    family.add_metric([view.name, what], milli / 1000)
        return family


def text(core: Core) -> bytes:
    """Return the metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Numbers(core))
    return generate_latest(registry)
