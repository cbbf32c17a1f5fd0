"""Each queue's fair share in this cycle, from the book's sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from scheduler_service.ledger.capacity import cluster_total
from scheduler_service.ledger.nodes import NodeTable
from scheduler_service.ledger.queues import Amounts, Asked
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.policy import Policy
from scheduler_service.model.resources import Resource
from scheduler_service.planning import fair_share
from scheduler_service.planning.queue_order import UNITS

_CPU: Resource = "cpu"
_MEMORY: Resource = "memory"
_GPU: Resource = "gpu"


@dataclass(frozen=True, slots=True)
class GpuSizes:
    """The smallest and the largest known GPU memory of the cluster, in MiB; 0 = none known."""

    smallest: int
    largest: int

    def careful(self, asked: Asked) -> Amounts:
        """Return what waits, with memory requests as parts of the smallest GPU: order, shares."""
        cpu, memory, gpu, mib = asked
        return (cpu, memory, gpu + _parts(mib, self.smallest)) if mib else (cpu, memory, gpu)

    def least(self, asked: Asked) -> Amounts:
        """Return the same as parts of the largest GPU: limit and quota."""
        cpu, memory, gpu, mib = asked
        return (cpu, memory, gpu + _parts(mib, self.largest)) if mib else (cpu, memory, gpu)


def _parts(mib: int, size: int) -> int:
    # Rounding up the sum is exact for every comparison with a bound in whole milli-GPU.
    return -(-mib * 1000 // size) if mib and size else 0


def gpu_sizes(nodes: NodeTable) -> GpuSizes:
    """Return the sizes of the GPUs that are there."""
    known = {
        node.gpu_memory_mib
        for node in nodes.models
        if node is not None and node.gpus and node.gpu_memory_mib
    }
    for sizes in nodes.sizes.values():
        known |= set(sizes.values())
    return GpuSizes(min(known), max(known)) if known else GpuSizes(0, 0)


class Capacity(NamedTuple):
    """What the cluster offers, and the sizes of its GPUs."""

    total: Amounts
    sizes: GpuSizes


def capacity_of(nodes: NodeTable) -> Capacity:
    """Return both; summed again only after a node was described anew. O(1), then O(nodes)."""
    if nodes.sums is None:
        sizes = gpu_sizes(nodes)
        nodes.sums = (cluster_total(nodes), sizes.smallest, sizes.largest)
    total, smallest, largest = nodes.sums
    return Capacity(total, GpuSizes(smallest, largest))


def fair_shares(ledger: Ledger, policy: Policy, total: Amounts, sizes: GpuSizes) -> list[Amounts]:
    """Return the fair share of every queue row."""
    queues = ledger.queues
    requested = [
        tuple(map(sum, zip(held, sizes.careful(asked), strict=True)))
        for held, asked in zip(queues.allocated, queues.waiting, strict=True)
    ]
    rank = _ages(ledger)
    claims = [_claims(ledger, policy, index, requested, rank) for index in range(3)]
    tree = fair_share.QueueTree(
        parent=[None if row < 0 else row for row in queues.parent],
    )
    by_resource = fair_share.fair_shares(
        total, tree, claims, units=UNITS, usage_weight_milli=max(0, policy.usage_weight_milli)
    )
    return list(zip(*by_resource, strict=True)) if queues.models else []


def _ages(ledger: Ledger) -> list[int]:
    models = ledger.queues.models
    ranks = [0] * len(models)
    by_age = sorted(range(len(models)), key=lambda row: (models[row].created, models[row].name))
    for rank, row in enumerate(by_age):
        ranks[row] = rank
    return ranks


def _claims(
    ledger: Ledger, policy: Policy, index: int, requested: list[tuple[int, ...]], rank: list[int]
) -> fair_share.Claims:
    """Return one resource of all queues as the division takes it."""
    models = ledger.queues.models
    name = (_CPU, _MEMORY, _GPU)[index]
    usage = None
    if policy.usage_weight_milli > 0 and ledger.usage:
        usage = [ledger.usage[q.name].of(name) if q.name in ledger.usage else 0 for q in models]
    return fair_share.Claims(
        quota=[quota[index] for quota in ledger.queues.quota],
        limit=[limit[index] for limit in ledger.queues.limit],
        weight=[queue.share_of(name).over_quota_weight for queue in models],
        request=[amounts[index] for amounts in requested],
        priority=[queue.priority for queue in models],
        rank=rank,
        usage_milli=usage,
    )
