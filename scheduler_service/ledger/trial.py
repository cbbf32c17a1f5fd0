"""A group that is not there, booked for the length of a question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scheduler_service.ledger import apply, bulk, load
from scheduler_service.model.pod import Pod
from scheduler_service.model.pod_group import PodGroup

if TYPE_CHECKING:
    from scheduler_service.ledger.store import Ledger


@contextmanager
def added(ledger: Ledger, group: PodGroup, pods: Sequence[Pod]) -> Iterator[None]:
    """Book a group and its pods (of names that are free); afterwards they were never there."""
    load.add_group(ledger, group)
    for pod in pods:
        bulk.add_pod(ledger, pod)
    ledger.journal.forget()
    try:
        yield
    finally:
        for pod in pods:
            apply.remove_pod(ledger, pod.key)
        del ledger.groups[group.key]
        ledger.open_groups.pop(group.key, None)
        ledger.gangs.pop(group.key, None)
        ledger.closed.clear()
        ledger.journal.forget()
