"""The cluster at one moment, frozen: what a plan is made from, and what a capture holds."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler_service.model.claim import ResourceClaim, ResourceSlice
from scheduler_service.model.node import Node
from scheduler_service.model.pod import Pod
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import Resources
from scheduler_service.model.topology import Topology

SNAPSHOT_VERSION = 1


class StaticVeto(msgspec.Struct, frozen=True, gc=False):
    """A word from outside that a pod can not be on these nodes (None = on any), and why.

    `by`: the person who holds it back, with `why` as a whole sentence; "" = the backend itself.
    """

    pod: str
    why: str
    nodes: tuple[str, ...] | None = None
    by: str = ""


class Hold(msgspec.Struct, frozen=True, gc=False):
    """A freed place kept for the pod it was freed for, until a moment."""

    pod: str
    node: str
    until_ms: int


class BackOff(msgspec.Struct, frozen=True, gc=False):
    """A group whose start keeps failing is not tried before a moment."""

    group: str
    failures: int
    until_ms: int


class Snapshot(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Everything that decides: equal snapshots give equal plans. Order carries no meaning.

    `usage`: queue name -> the part of the cluster it used lately, in thousandths.
    `owner_usage`: queue -> owner -> the part that the owner's work in this queue used, in
    millionths, for fairness among the people of a queue.
    """

    now_ms: int = 0
    version: int = SNAPSHOT_VERSION
    nodes: tuple[Node, ...] = ()
    queues: tuple[Queue, ...] = ()
    pod_groups: tuple[PodGroup, ...] = ()
    pods: tuple[Pod, ...] = ()
    topologies: tuple[Topology, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()
    vetoes: tuple[StaticVeto, ...] = ()
    holds: tuple[Hold, ...] = ()
    back_offs: tuple[BackOff, ...] = ()
    usage: Mapping[str, Resources] = {}
    owner_usage: Mapping[str, Mapping[str, int]] = {}
