"""Numbers for Prometheus, read when they are asked for, so that they never disagree with the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduler_service.model.pod import PodState
from scheduler_service.service.core import Core
from scheduler_service.words.group import state_of


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
        family = GaugeMetricFamily(
            "kai_queue_gpus", "GPUs of a queue: fair share, allocated", labels=["queue", "what"]
        )
        plan = self._core.overview.plan
        fair = {} if plan is None else plan.fair_shares
        for queue, share in sorted(fair.items()):
            family.add_metric([queue, "fair_share"], share.milli_gpu / 1000)
        allocated: Counter[str] = Counter()
        for record in self._core.records:
            for pod in record.pods:
                if pod.is_occupied and pod.state is not PodState.RELEASING:
                    allocated[record.queue] += sum(share.milli for share in pod.devices)
        for queue, milli in sorted(allocated.items()):
            family.add_metric([queue, "allocated"], milli / 1000)
        return family


def text(core: Core) -> bytes:
    """Return the metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Numbers(core))
    return generate_latest(registry)
