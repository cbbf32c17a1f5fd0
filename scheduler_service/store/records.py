"""A pod group as it rests in the store: frozen values, one row each.

Rule: what was asked and what happened, nothing derived. Positions, words and sums are made from it when they are shown.
Moments in ms since the epoch.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from scheduler_service.model.gpu import GpuShare
from scheduler_service.model.pod import FINISHED, PodRequest, PodState
from scheduler_service.model.reasons import Reason
from scheduler_service.wire.pod_group import Process, ResultItem, Submit, TimelineEntry
from scheduler_service.wire.runner import Failure

How = Literal[
    "succeeded",
    "failed",
    "cancelled",
    "released",
    "time_over",
    "waited_too_long",
    "evicted",
    "start_failed",
]
OCCUPIED = frozenset({PodState.BINDING, PodState.BOUND, PodState.RUNNING, PodState.RELEASING})


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """That a group ends, and why. `requeue`: it waits again once its pods have left."""

    how: How
    at: int
    by: str = ""
    """Who ended it: a user, "" for the service itself."""
    grace_s: int = 15
    requeue: bool = False
    reason: Reason | None = None
    text: str = ""


class PodRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One worker: its place while it has one, the runner's word on it, and how it ended.

    `incarnation` changes at each start. `gone_at`: its process ended; a restarted kernel may still take over.
    """

    rank: int
    name: str = ""
    """What it is called, where that does not follow from its group and rank (in a cluster)."""
    state: PodState = PodState.PENDING
    incarnation: str | None = None
    node: str | None = None
    address: str | None = None
    """In the cluster's network; a pod on this machine has none."""
    devices: tuple[GpuShare, ...] = ()
    bound_at: int | None = None
    runner: str | None = None
    pid: int | None = None
    start_ticks: int | None = None
    started_at: int | None = None
    gone_at: int | None = None
    ended_at: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    reason_code: str = ""
    reason_text: str = ""
    failure: Failure | None = None
    results: tuple[ResultItem, ...] = ()
    result_signature: str | None = None

    @property
    def is_occupied(self) -> bool:
        """Whether it holds a place on a node."""
        return self.state in OCCUPIED

    @property
    def is_finished(self) -> bool:
        """Whether it has ended for good."""
        return self.state in FINISHED


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A pod group, from its request to its end. `order` sorts groups made in the same millisecond."""

    namespace: str
    name: str
    owner: str
    queue: str
    ask: Submit
    request: PodRequest
    min_members: int
    priority: int
    preemptible: bool
    created_at: int
    order: int
    pods: tuple[PodRecord, ...]
    process: Process | None = None
    granted_at: int | None = None
    expires_at: int | None = None
    ending: Ending | None = None
    ended_at: int | None = None
    used_gpu_ms: int = 0
    """Milli-GPU times seconds held in earlier incarnations and by ended pods."""
    requeues: int = 0
    timeline: tuple[TimelineEntry, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Its identity: namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_over(self) -> bool:
        """Whether it has ended for good; only its history is kept."""
        return self.ended_at is not None

    @property
    def is_external(self) -> bool:
        """Whether a process of the caller holds the lease, not one that a runner starts."""
        return self.process is not None

    def pod_key(self, rank: int) -> str:
        """Return the identity of its pod of that rank."""
        return f"{self.namespace}/{self.name}-{rank}"
