"""What the rules must know of the cluster, gathered before they are asked. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue as admission sees it. None = no restriction."""

    name: str
    parent: str = ""
    subjects: tuple[str, ...] | None = None
    namespaces: tuple[str, ...] | None = None
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    is_leaving: bool = False


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The pod group that a pod names: whose it is."""

    name: str
    owner_uids: frozenset[str] = frozenset()
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Wants:
    """Which facts a request needs beyond the queues."""

    queues: frozenset[str] = frozenset()
    group: str = ""
    runtime_class: str = ""
    workloads_of: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The queues by name, and what was asked for. `live_groups` are those that hold or ask for something."""

    queues: Mapping[str, QueueFacts] = field(default_factory=dict)
    group: GroupFacts | None = None
    has_runtime_class: bool = False
    live_groups: tuple[str, ...] = ()

    def children(self, name: str) -> list[str]:
        """Return the queues right below one, in order of name."""
        return sorted(
            queue.name
            for queue in self.queues.values()
            if queue.parent == name and not queue.is_leaving
        )


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    deletion_timestamp: str = ""


class _Share(msgspec.Struct, gc=False, rename="camel"):
    quota: float = 0
    limit: float = 0
    over_quota_weight: float = 0


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    parent_queue: str = ""
    subjects: list[str] | None = None
    namespaces: list[str] | None = None
    resources: dict[str, _Share] | None = None


class _Queue(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Queue).decode


def queue_facts(raw: bytes) -> QueueFacts:
    """Return what admission needs of a Queue object."""
    return _facts(_decode(raw))


def queue_facts_of(value: object) -> QueueFacts:
    """Return the same of an object that is decoded already."""
    return _facts(msgspec.convert(value, _Queue))


def _facts(queue: _Queue) -> QueueFacts:
    spec = queue.spec
    return QueueFacts(
        name=queue.metadata.name,
        parent=spec.parent_queue,
        subjects=None if spec.subjects is None else tuple(spec.subjects),
        namespaces=None if spec.namespaces is None else tuple(spec.namespaces),
        shares={name: msgspec.to_builtins(share) for name, share in (spec.resources or {}).items()},
        is_leaving=bool(queue.metadata.deletion_timestamp),
    )
