"""Capacity: what a queue may hold, whatever its fair share says.

Two checks, from the queue itself up to the top: the limit, for all work; the quota, for work
that cannot be preempted, counted together with other such work only. Resources of which nothing
is asked are not looked at. Amounts are tuples with one integer a resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scheduler_service.planning.queue_order import Amounts, Bounds


class Exceeded(NamedTuple):
    """The first bound that a request would exceed."""

    row: int
    """The queue's."""
    resource: int
    bound: int
    allocated: int


def first_exceeded(
    path: Iterable[int], bounds: Sequence[Bounds], allocated: Sequence[Amounts], requested: Amounts
) -> Exceeded | None:
    """Return the first bound on `path` (rows, leaf first) that `requested` would exceed, or None.

    `bounds` and `allocated` are columns by row: limits with all that is held, or quotas with what
    non-preemptible work holds.
    """
    for row in path:
        held = allocated[row]
        for resource, bound in enumerate(bounds[row]):
            asked = requested[resource]
            if bound is not None and asked and held[resource] + asked > bound:
                return Exceeded(row, resource, bound, held[resource])
    return None
