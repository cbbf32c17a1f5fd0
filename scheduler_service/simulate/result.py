"""What a simulated run came to: utilisation over time, waits, evictions and losses by queue."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

LARGE = 8
"""From so many GPUs on a group is large: its waits are told apart."""
MOST_POINTS = 1000
"""As many points as a series or a chart has at most."""


class Point(NamedTuple):
    """The cluster from this moment on: milli-GPU held, groups waiting."""

    at_ms: int
    held_milli_gpu: int
    waiting: int


@dataclass(slots=True)
class QueueResult:
    """What one queue saw. `lost`: pods that a failed node took; `gpu_ms`: milli-GPU times ms."""

    arrived: int = 0
    started: int = 0
    finished: int = 0
    failed: int = 0
    evictions: int = 0
    lost: int = 0
    held_milli_gpu: int = 0
    gpu_ms: int = 0
    waits_ms: list[int] = field(default_factory=list)
    large_waits_ms: list[int] = field(default_factory=list)
    """Those of large groups among them."""

    def note_start(self, wait_ms: int, *, gpus: int = 0) -> None:
        """Count a group that starts after a wait."""
        self.started += 1
        self.waits_ms.append(wait_ms)
        if gpus >= LARGE:
            self.large_waits_ms.append(wait_ms)

    def wait_ms(self, part: float) -> int:
        """Return the wait that this part of the started groups did not exceed."""
        return _part_of(self.waits_ms, part)

    def mean_wait_ms(self) -> int:
        """Return the mean wait of the groups that started."""
        return _mean(self.waits_ms)

    def content(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "arrived": self.arrived,
            "started": self.started,
            "finished": self.finished,
            "failed": self.failed,
            "evictions": self.evictions,
            "lost": self.lost,
            "gpu_hours": round(self.gpu_ms / 3_600_000_000, 3),
            "wait_s": _waits(self.waits_ms),
            "large": {"started": len(self.large_waits_ms), "wait_s": _waits(self.large_waits_ms)},
        }


def _part_of(waits_ms: list[int], part: float) -> int:
    waits = sorted(waits_ms)
    return waits[min(len(waits) - 1, int(part * len(waits)))] if waits else 0


def _mean(waits_ms: list[int]) -> int:
    return sum(waits_ms) // len(waits_ms) if waits_ms else 0


def _waits(waits_ms: list[int]) -> dict[str, float]:
    return {
        "mean": _mean(waits_ms) / 1000,
        "p95": _part_of(waits_ms, 0.95) / 1000,
        "max": _part_of(waits_ms, 1) / 1000,
    }


@dataclass(slots=True)
class Result:
    """The whole run."""

    total_milli_gpu: int
    points: list[Point] = field(default_factory=list)
    queues: dict[str, QueueResult] = field(default_factory=dict)
    cycles: int = 0
    operations: Counter[str] = field(default_factory=Counter)

    def queue(self, name: str) -> QueueResult:
        """Return a queue's result, empty at first."""
        return self.queues.setdefault(name, QueueResult())

    def note(self, point: Point, held: Mapping[str, int] | None = None) -> None:
        """Add a point, and what queues hold from then on; the last one of a moment counts."""
        span = point.at_ms - self.points[-1].at_ms if self.points else 0
        for queue in self.queues.values():
            queue.gpu_ms += queue.held_milli_gpu * span
        for name, amount in (held or {}).items():
            if name in self.queues:
                self.queues[name].held_milli_gpu = amount
        if self.points and not span:
            self.points.pop()
        self.points.append(point)

    def all_queues(self) -> QueueResult:
        """Return the sum over all queues."""
        whole = QueueResult()
        for queue in self.queues.values():
            whole.arrived += queue.arrived
            whole.started += queue.started
            whole.finished += queue.finished
            whole.failed += queue.failed
            whole.evictions += queue.evictions
            whole.lost += queue.lost
            whole.gpu_ms += queue.gpu_ms
            whole.waits_ms += queue.waits_ms
            whole.large_waits_ms += queue.large_waits_ms
        return whole

    def utilisation(self) -> float:
        """Return the part of all GPU time that was held, between the first point and the last."""
        span = self.points[-1].at_ms - self.points[0].at_ms if self.points else 0
        if not span or not self.total_milli_gpu:
            return 0.0
        held = sum(
            here.held_milli_gpu * (there.at_ms - here.at_ms)
            for here, there in zip(self.points, self.points[1:], strict=False)
        )
        return held / (span * self.total_milli_gpu)

    def series(self, most: int = MOST_POINTS) -> list[Point]:
        """Return at most so many points: of each stretch of time the mean held, the most waiting."""
        points = self.points
        if len(points) <= most:
            return list(points)
        first, span = points[0].at_ms, points[-1].at_ms - points[0].at_ms
        found: list[Point] = []
        index = 0
        for number in range(most):
            begins, ends = (first + span * n // most for n in (number, number + 1))
            while index + 1 < len(points) and points[index + 1].at_ms <= begins:
                index += 1
            found.append(_stretch(points, index, begins, ends))
        return [*found, points[-1]]

    def content(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "gpus": self.total_milli_gpu / 1000,
            "cycles": self.cycles,
            "utilisation": round(self.utilisation(), 4),
            "operations": dict(sorted(self.operations.items())),
            "all": self.all_queues().content(),
            "queues": {name: queue.content() for name, queue in sorted(self.queues.items())},
            "series": [
                {
                    "at_s": point.at_ms / 1000,
                    "gpus": point.held_milli_gpu / 1000,
                    "waiting": point.waiting,
                }
                for point in self.series()
            ],
        }


def _stretch(points: list[Point], index: int, begins: int, ends: int) -> Point:
    """Return one point for a stretch of time; `index` is the point that holds at its begin."""
    held, waiting = 0, 0
    while index < len(points) and points[index].at_ms < ends:
        here = points[index]
        until = points[index + 1].at_ms if index + 1 < len(points) else ends
        held += here.held_milli_gpu * (min(until, ends) - max(here.at_ms, begins))
        waiting = max(waiting, here.waiting)
        index += 1
    return Point(begins, held // max(1, ends - begins), waiting)
