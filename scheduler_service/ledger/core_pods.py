"""Which pods of a semi-preemptible group count as non-preemptible: the first of each leaf.

The minimum of a leaf (less the members that have succeeded) is booked as firm, in the order in
which pods start, whatever the order in which they were booked; the others are surplus. So a book
that grew event by event says the same as one that was read from a snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler_service.ledger import states
from scheduler_service.model.pod_group import Preemptibility

if TYPE_CHECKING:
    from scheduler_service.ledger.groups import Group, Leaf
    from scheduler_service.ledger.store import Ledger


def settle(ledger: Ledger, group: Group, leaf: Leaf) -> None:
    """Book anew which pods of a leaf are its minimum, after one of them came, went or moved."""
    if group.model.preemptibility is not Preemptibility.SEMI_PREEMPTIBLE or group.queue < 0:
        return
    pods = ledger.pods
    active = [pod for pod in leaf.pods if states.IS_ACTIVE[pods.state[pod]]]
    minimum = leaf.spec.min_members - leaf.counts[states.SUCCEEDED]
    active.sort(key=lambda pod: _order(ledger, pod))
    for number, pod in enumerate(active):
        is_core = number < minimum
        if is_core == pods.is_core[pod]:
            continue
        shape, charge = ledger.shape_of(pod), pods.charge[pod]
        held = (shape.milli_cpu, shape.memory_bytes, charge)
        back = (-shape.milli_cpu, -shape.memory_bytes, -charge)
        ledger.journal.entries.append((pods, pod, pods.old(pod)))
        ledger.queues.add_allocated(group.queue, back, non_preemptible=not is_core)
        pods.is_core[pod] = is_core
        ledger.queues.add_allocated(group.queue, held, non_preemptible=is_core)


def _order(ledger: Ledger, pod: int) -> tuple[bool, int, str]:
    model = ledger.pods.models[pod]
    return model.precedence is None, -(model.precedence or 0), model.name
