"""The queues of one node pool, with what its shard says where they say nothing."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from scheduler_service.backends.kubernetes.decode.queues import RawQueue, queues_of
from scheduler_service.backends.kubernetes.decode.stores import Scope
from scheduler_service.model.queue import Queue


def queues_in(scope: Scope, found: Mapping[str, RawQueue]) -> dict[str, Queue]:
    """Return the queues that a scope schedules, by name."""
    in_pool = {name: raw for name, raw in found.items() if scope.has(dict(raw.metadata.labels))}
    queues = queues_of(in_pool, is_flat=scope.is_flat)
    return {name: _with_runtimes(scope, queue) for name, queue in queues.items()}


def _with_runtimes(scope: Scope, queue: Queue) -> Queue:
    """Let queues at the top say what nobody below them says."""
    if queue.parent is not None:
        return queue
    preempt, reclaim = queue.preempt_min_runtime_ms, queue.reclaim_min_runtime_ms
    return replace(
        queue,
        preempt_min_runtime_ms=scope.preempt_min_runtime_ms if preempt is None else preempt,
        reclaim_min_runtime_ms=scope.reclaim_min_runtime_ms if reclaim is None else reclaim,
    )
