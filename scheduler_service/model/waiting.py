"""Why a pod group waits; part of `reasons.Reason`."""

from __future__ import annotations

from typing import Literal

from scheduler_service.model.resources import Resource
from scheduler_service.model.wording import (
    BaseReason,
    amount_words,
    node_amount_words,
    seconds_words,
)

NodeResource = Literal["gpu", "gpu_memory", "devices", "cpu", "memory", "pods", "mig", "extended"]
"""`devices`: GPUs that each have so much left as `detail` says; what several shares ask for."""


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _pods(count: int) -> str:
    return f"{count} pod{'' if count == 1 else 's'}"


class NotEnoughOnNode(BaseReason, frozen=True, gc=False):
    """No node has enough free now; `node` is the one that comes nearest."""

    resource: NodeResource
    wanted: int
    free: int
    node: str
    detail: str = ""

    def __str__(self) -> str:
        wanted = node_amount_words(self.resource, self.wanted, self.detail)
        where = "GPU" if self.resource == "gpu_memory" else "node"
        if self.resource == "devices":
            return f"Needs {wanted} on one node; {self.node} has {self.free or 'none'}."
        free = amount_words(self.resource, self.free) if self.free else "none"
        return f"Needs {wanted} on one {where}; {self.node} has {free} free."


class NeverFits(BaseReason, frozen=True, gc=False):
    """No node is large enough even when empty."""

    resource: NodeResource
    wanted: int
    largest: int
    detail: str = ""

    def __str__(self) -> str:
        wanted = node_amount_words(self.resource, self.wanted, self.detail)
        where = "GPU" if self.resource == "gpu_memory" else "node"
        if not self.largest:
            return f"Never: needs {wanted} on one {where}; none has any."
        if self.resource == "devices":
            return f"Never: needs {wanted} on one node; the largest has {self.largest}."
        largest = amount_words(self.resource, self.largest)
        return f"Never: needs {wanted} on one {where}; the largest has {largest}."


class GangShort(BaseReason, frozen=True, gc=False):
    """Some, not all, of the pods that must start together have room."""

    placed: int
    needed: int
    sub_group: str = ""

    def __str__(self) -> str:
        where = f" of {self.sub_group}" if self.sub_group not in {"", "default"} else ""
        placed = self.placed or "none"
        return f"Room for {placed} of the {self.needed} pods{where} that must start together."


class NotReady(BaseReason, frozen=True, gc=False):
    """Pods that must start together do not exist yet, or are gated."""

    present: int
    needed: int
    gated: int = 0

    def __str__(self) -> str:
        gated = f", {self.gated} gated" if self.gated else ""
        if self.present >= self.needed:
            return f"{_pods(self.present)} there{gated}, but too few in one of its sub-groups."
        if self.needed == 1:
            return f"Its pod is not there{gated}."
        verb = "is" if self.present == 1 else "are"
        return (
            f"{self.present or 'None'} of the {self.needed} pods that start together"
            f" {verb} there{gated}."
        )


class OverLimit(BaseReason, frozen=True, gc=False):
    """The queue (or one above it) is at its limit."""

    queue: str
    resource: Resource
    limit: int
    allocated: int
    requested: int

    def __str__(self) -> str:
        limit, have = (
            amount_words(self.resource, self.limit),
            amount_words(self.resource, self.allocated),
        )
        want = amount_words(self.resource, self.requested)
        if self.requested > self.limit:
            return f"Never: queue {self.queue} is limited to {limit}, {want} wanted."
        return f"Queue {self.queue} is limited to {limit}: {have} used, {want} wanted."


class NonPreemptibleOverQuota(BaseReason, frozen=True, gc=False):
    """Work that may not be preempted has to fit into the quota."""

    queue: str
    resource: Resource
    quota: int
    allocated: int
    requested: int

    def __str__(self) -> str:
        quota, have = (
            amount_words(self.resource, self.quota),
            amount_words(self.resource, self.allocated),
        )
        want = amount_words(self.resource, self.requested)
        if self.requested > self.quota:
            return f"Never if non-preemptible: quota of {self.queue} is {quota}, {want} wanted."
        return f"Non-preemptible: quota of {self.queue} is {quota}, {have} used, {want} wanted."


class FairShareReached(BaseReason, frozen=True, gc=False):
    """Reclaim is not open: with this work the queue would be above its fair share."""

    queue: str
    resource: Resource
    fair_share: int
    allocated: int
    requested: int

    def __str__(self) -> str:
        share, have = (
            amount_words(self.resource, self.fair_share),
            amount_words(self.resource, self.allocated),
        )
        want = amount_words(self.resource, self.requested)
        return f"Fair share of {self.queue} is {share}: {have} used, {want} wanted."


class QueueMissing(BaseReason, frozen=True, gc=False):
    """There is no such queue."""

    queue: str

    def __str__(self) -> str:
        return f"Queue {self.queue} does not exist."


class QueueNotLeaf(BaseReason, frozen=True, gc=False):
    """The queue has children; only leaves run work."""

    queue: str

    def __str__(self) -> str:
        return f"Queue {self.queue} has queues below it; use one of those."


class PreemptionDelay(BaseReason, frozen=True, gc=False):
    """Nobody is evicted for it before its delay is over."""

    left_ms: int

    def __str__(self) -> str:
        left = seconds_words(self.left_ms)
        return f"Waits for free room only; others may be asked to leave in {left}."


class TopologyMissing(BaseReason, frozen=True, gc=False):
    """The named topology is not there."""

    topology: str

    def __str__(self) -> str:
        return f"Topology {self.topology} does not exist."


class TopologyLevelUnknown(BaseReason, frozen=True, gc=False):
    """The word names no level of the topology."""

    topology: str
    level: str

    def __str__(self) -> str:
        return f"Topology {self.topology} has no level {self.level}."


class TopologyTooSmall(BaseReason, frozen=True, gc=False):
    """Even the widest common domain can not hold the group."""

    topology: str
    level: str
    needed: int
    room: int

    def __str__(self) -> str:
        if self.needed == 1:
            return f"Topology {self.topology} has no room for its pod."
        room = self.room or "none"
        return f"Topology {self.topology} has room for {room} of its {self.needed} pods."


class TopologyNoDomainFits(BaseReason, frozen=True, gc=False):
    """No single domain of the wanted level can hold the group; `tied_to`: where the rest runs."""

    topology: str
    level: str
    needed: int
    room: int
    domain: str = ""
    tied_to: str = ""

    def __str__(self) -> str:
        level = self.level.rpartition("/")[2]
        if self.tied_to:
            more = _pods(self.needed)
            return f"Its others run in {level} {self.tied_to}, which has no room for {more} more."
        if self.needed == 1:
            return f"No {level} has room for its pod."
        best = f"the best, {self.domain}, has room for {self.room}"
        if not self.room or not self.domain:
            best = "none has room for even one"
        return f"No {level} holds all {self.needed} pods; {best}."


class NoMatchingNode(BaseReason, frozen=True, gc=False):
    """Labels, taints, node roles or the GPU type rule out every node.

    `why`: what rules out most, `count` of all `nodes`.
    """

    why: str
    count: int = 0
    nodes: int = 0

    def __str__(self) -> str:
        most = f" ({self.count} of {self.nodes})" if self.count < self.nodes else ""
        return f"No node is allowed: {self.why.removesuffix('.')}{most}."


class HeldBack(BaseReason, frozen=True, gc=False):
    """Whoever answers for its queue lets nothing like it start now; `why` is their sentence."""

    by: str
    why: str

    def __str__(self) -> str:
        return self.why


class AffinityUnmet(BaseReason, frozen=True, gc=False):
    """Required pod affinity or anti-affinity rules out every node with room."""

    anti: bool
    topology_key: str

    def __str__(self) -> str:
        kind = "apart from" if self.anti else "beside"
        return f"Must run {kind} certain pods ({self.topology_key}); no node with room allows it."


class GpuMemoryUnknown(BaseReason, frozen=True, gc=False):
    """Memory requests need nodes whose GPU memory is known."""

    def __str__(self) -> str:
        return "Asks for GPU memory, but no node says how much its GPUs have."


class ClaimUnusable(BaseReason, frozen=True, gc=False):
    """A resource claim is missing, full, of another queue or on another node."""

    claim: str
    why: str

    def __str__(self) -> str:
        return f"Claim {self.claim} {self.why}."


class NoVictims(BaseReason, frozen=True, gc=False):
    """The action found nobody whose place may be taken."""

    action: str

    def __str__(self) -> str:
        who = {
            "preempt": "Nothing of lower priority in this queue may be stopped",
            "reclaim": "No other queue holds more than its share that may be stopped",
            "consolidate": "Nothing that runs may be moved",
        }
        return f"{who.get(self.action, 'Nobody may be asked to leave')}."


class NoScenario(BaseReason, frozen=True, gc=False):
    """The action tried; no allowed set of victims makes room. `victims`: losses looked at."""

    action: str
    victims: int
    simulations: int

    def __str__(self) -> str:
        what, done = (
            ("Moving", "moved") if self.action == "consolidate" else ("Stopping", "stopped")
        )
        whom = f"any of the {self.victims} others that may be {done}"
        if self.victims <= 1:
            whom = f"the one other that may be {done}"
        return f"{what} {whom} makes no room that it may have."


class NotMovable(BaseReason, frozen=True, gc=False):
    """Consolidation does not work for this group."""

    why: str

    def __str__(self) -> str:
        return f"Others are not moved for it: {self.why}."


class Behind(BaseReason, frozen=True, gc=False):
    """Groups before it in the order took the room."""

    groups: int

    def __str__(self) -> str:
        return f"{self.groups} group{'' if self.groups == 1 else 's'} before it took the free room."


class HeldForOther(BaseReason, frozen=True, gc=False):
    """The free room is kept for pods it was freed for."""

    pods: int

    def __str__(self) -> str:
        return f"Free room is kept for {_pods(self.pods)} that it was freed for."


class RoomKept(BaseReason, frozen=True, gc=False):
    """Free room is kept for it until there is enough; `left_ms`: when, if those there said it."""

    node: str
    nodes: int
    left_ms: int | None = None

    def __str__(self) -> str:
        where = self.node if self.nodes == 1 else f"{self.node} and {self.nodes - 1} more"
        left = "" if self.left_ms is None else f"; enough in {seconds_words(self.left_ms)}"
        return f"What gets free on {where} is kept for it{left}."


class KeptForOther(BaseReason, frozen=True, gc=False):
    """Free room is kept for a group that has waited long for more; short work may use it."""

    group: str
    left_ms: int | None = None

    def __str__(self) -> str:
        kept = "Free room is kept for one that waits longer"
        if self.left_ms is None:
            return f"{kept}."
        return f"{kept}; what ends within {seconds_words(self.left_ms)} may use it."


class BackingOff(BaseReason, frozen=True, gc=False):
    """Starting it failed lately; the next try comes later."""

    failures: int
    left_ms: int

    def __str__(self) -> str:
        times = _times(self.failures)
        return f"Starting failed {times}; next try in {seconds_words(self.left_ms)}."


class PlanningFailed(BaseReason, frozen=True, gc=False):
    """An internal error hit this group alone; the cycle went on without it."""

    error: str

    def __str__(self) -> str:
        return f"Internal error while planning it ({self.error}); please report this."


class WaitsForRelease(BaseReason, frozen=True, gc=False):
    """It has a promised place; its holder is leaving."""

    node: str
    pods: int

    def __str__(self) -> str:
        others = f" ({_pods(self.pods)})" if self.pods > 1 else ""
        return f"Has a place on {self.node}{others}: starts when pods there have left."
