"""The event stream: a snapshot, then what changed, each with the revision to resume from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from scheduler_service.wire.cluster import NodeView, QueueView
from scheduler_service.wire.pod_group import PodGroupView


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """One message of the stream. kind "snapshot" replaces all that is known; "update" carries only what changed since.

    In an update `queues` and `nodes` are None when unchanged and whole otherwise; `removed` are "namespace/name".
    """

    kind: Literal["snapshot", "update"]
    rev: int
    now: int
    """The service's clock, so that a page can count down without trusting its own."""
    groups: tuple[PodGroupView, ...] = ()
    removed: tuple[str, ...] = ()
    queues: tuple[QueueView, ...] | None = None
    nodes: tuple[NodeView, ...] | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something to tell a person once (granted, refused, evicted, lease ends soon, what a lead did), for toasts."""

    at: int
    kind: Literal["granted", "refused", "evicted", "ending", "failed", "finished", "idle", "lead"]
    namespace: str
    name: str
    text: str
    facts: dict[str, str | int | None] = field(default_factory=dict)
