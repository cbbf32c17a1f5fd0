"""What may happen to the ledger. Events are the only way in; the loop makes them, tests too.

Rule: an event names a thing and says what it is now. Applying the same event twice changes
nothing more than applying it once, except `Assumed` and `AssumedUndone`, which come in pairs.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler_service.ledger.usage import UsageBook
from scheduler_service.model.claim import ResourceClaim, ResourceSlice
from scheduler_service.model.gpu import GpuShare
from scheduler_service.model.node import Node
from scheduler_service.model.plan import Statement
from scheduler_service.model.pod import Pod, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import Resources
from scheduler_service.model.snapshot import BackOff, Hold, StaticVeto
from scheduler_service.model.topology import Topology


class NodeAdded(msgspec.Struct, frozen=True, gc=False):
    """A node is there."""

    node: Node


class NodeChanged(msgspec.Struct, frozen=True, gc=False):
    """A node is now so; what its pods hold stays booked, even if it is more than it has."""

    node: Node


class NodeRemoved(msgspec.Struct, frozen=True, gc=False):
    """A node is gone; pods on it stay known but hold nothing any more."""

    name: str


class QueueAdded(msgspec.Struct, frozen=True, gc=False):
    """A queue is there."""

    queue: Queue


class QueueChanged(msgspec.Struct, frozen=True, gc=False):
    """A queue is now so."""

    queue: Queue


class QueueRemoved(msgspec.Struct, frozen=True, gc=False):
    """A queue is gone; its groups wait with the reason that it does not exist."""

    name: str


class PodGroupAdded(msgspec.Struct, frozen=True, gc=False):
    """A group is there. Its pods come as `PodAdded`, before or after."""

    group: PodGroup


class PodGroupChanged(msgspec.Struct, frozen=True, gc=False):
    """A group is now so."""

    group: PodGroup


class PodGroupRemoved(msgspec.Struct, frozen=True, gc=False):
    """A group is gone, and with it its pods."""

    key: str


class PodAdded(msgspec.Struct, frozen=True, gc=False):
    """A pod is there, in whatever state it is."""

    pod: Pod


class PodStateChanged(msgspec.Struct, frozen=True, gc=False):
    """A pod is now in this state; `node` and `devices` where it holds something.

    Without a node a pod that holds something keeps the place it has.
    """

    key: str
    state: PodState
    node: str | None = None
    devices: tuple[GpuShare, ...] = ()
    deleted_ms: int | None = None


class PodRemoved(msgspec.Struct, frozen=True, gc=False):
    """A pod is gone."""

    key: str


class Assumed(msgspec.Struct, frozen=True, gc=False):
    """The backend accepted a statement: binds are binding, evictions releasing from now on.

    Promises (pipelines) do not outlive their cycle; with holds on, their place is held.
    """

    statement: Statement
    now_ms: int
    hold_ms: int = 0


class AssumedUndone(msgspec.Struct, frozen=True, gc=False):
    """A statement that was assumed did not happen: its pods are again as they were."""

    statement: Statement


class BackedOff(msgspec.Struct, frozen=True, gc=False):
    """A group is not tried before a moment."""

    back_off: BackOff


class BackOffEnded(msgspec.Struct, frozen=True, gc=False):
    """A group may be tried again, its failures forgotten."""

    group: str


class Held(msgspec.Struct, frozen=True, gc=False):
    """A place is kept for a pod."""

    hold: Hold


class HoldEnded(msgspec.Struct, frozen=True, gc=False):
    """A place is kept no longer."""

    pod: str


class TopologyChanged(msgspec.Struct, frozen=True, gc=False):
    """A topology is now so; with no levels it is gone."""

    topology: Topology


class ClaimChanged(msgspec.Struct, frozen=True, gc=False):
    """A resource claim is now so."""

    claim: ResourceClaim


class ClaimRemoved(msgspec.Struct, frozen=True, gc=False):
    """A resource claim is gone."""

    key: str


class SlicesChanged(msgspec.Struct, frozen=True, gc=False):
    """The devices of all nodes that are handed out through claims."""

    slices: tuple[ResourceSlice, ...]


class VetoesChanged(msgspec.Struct, frozen=True, gc=False):
    """All static vetoes of the backend."""

    vetoes: tuple[StaticVeto, ...]


class UsageChanged(msgspec.Struct, frozen=True, gc=False):
    """Decayed usage of queues (part of the cluster, in thousandths) and of owners in a queue."""

    usage: Mapping[str, Resources]
    owner_usage: Mapping[str, Mapping[str, int]] = {}


class UsageTick(msgspec.Struct, frozen=True, gc=False):
    """Until this moment everything was held as it is; comes before what changes it."""

    now_ms: int
    half_life_ms: int = 0
    window_ms: int = 0
    by_owner: bool = False


class UsageBookFound(msgspec.Struct, frozen=True, gc=False):
    """What was noted of usage before the ledger was made."""

    book: UsageBook


Event = (
    NodeAdded
    | NodeChanged
    | NodeRemoved
    | QueueAdded
    | QueueChanged
    | QueueRemoved
    | PodGroupAdded
    | PodGroupChanged
    | PodGroupRemoved
    | PodAdded
    | PodStateChanged
    | PodRemoved
    | Assumed
    | AssumedUndone
    | BackedOff
    | BackOffEnded
    | Held
    | HoldEnded
    | TopologyChanged
    | ClaimChanged
    | ClaimRemoved
    | SlicesChanged
    | VetoesChanged
    | UsageChanged
    | UsageTick
    | UsageBookFound
)
