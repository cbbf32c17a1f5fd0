"""The binder's figures in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160)


class Metrics:
    """Counts tries and measures how long they take."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._tries = Counter(
            "kai_binder_tries",
            "Tries to carry a bind request out.",
            ["result"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "kai_binder_bind_seconds",
            "From taking a decision up to the pod on its node.",
            buckets=SECONDS,
            registry=self.registry,
        )

    def tried(self, result: Literal["bound", "failed"]) -> None:
        """Count a try."""
        self._tries.labels(result).inc()

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure what happens inside."""
        begun = perf_counter()
        try:
            yield
        finally:
            self._seconds.observe(perf_counter() - begun)

    def text(self) -> bytes:
        """Return all figures."""
        return generate_latest(self.registry)
