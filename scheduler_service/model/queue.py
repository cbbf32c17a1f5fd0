"""A share of the cluster, in a tree; only leaves hold pod groups."""

from __future__ import annotations

import msgspec

from scheduler_service.model.resources import QueueShare, Resource


class Queue(msgspec.Struct, frozen=True, gc=False):
    """Quota, limit and over-quota weight of each resource, and the place in the tree.

    `created` orders siblings, smaller first. Minimum run times in ms; None = ask the parent.
    """

    name: str
    parent: str | None = None
    priority: int = 100
    created: int = 0
    gpu: QueueShare = QueueShare()
    cpu: QueueShare = QueueShare()
    memory: QueueShare = QueueShare()
    preempt_min_runtime_ms: int | None = None
    reclaim_min_runtime_ms: int | None = None

    def share_of(self, resource: Resource) -> QueueShare:
        """Return quota, limit and weight of one resource."""
        if resource == "gpu":
            return self.gpu
        return self.cpu if resource == "cpu" else self.memory
