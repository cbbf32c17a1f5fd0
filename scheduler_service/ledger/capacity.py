"""What all ready nodes offer together."""

from __future__ import annotations

from scheduler_service.ledger.nodes import NodeTable
from scheduler_service.ledger.queues import Amounts
from scheduler_service.model.gpu import mig_compute_slices


def cluster_total(nodes: NodeTable) -> Amounts:
    """Return what all ready nodes offer; MIG slices count their compute slices as GPUs."""
    there = [
        (row, node) for row, node in enumerate(nodes.models) if node is not None and node.ready
    ]
    gpus = sum([nodes.gpus[row] for row, _ in there])
    for _, node in there:
        if node.mig:
            gpus += sum(mig_compute_slices(name) * count for name, count in node.mig.items())
    return (
        sum([node.milli_cpu - node.foreign_milli_cpu for _, node in there]),
        sum([node.memory_bytes - node.foreign_memory_bytes for _, node in there]),
        gpus * 1000,
    )


def known_total(nodes: NodeTable) -> Amounts:
    """Return the same, from the last summing where no node was described anew since."""
    return nodes.sums[0] if nodes.sums is not None else cluster_total(nodes)
