"""Why a pod group waits, moves or goes: one closed type, and the one place that words it.

Every surface prints `sentence(reason)`: at most 90 characters, with the numbers that decided.
`code(reason)` is the stable name that programs and scenarios compare.
"""

from __future__ import annotations

from scheduler_service.model.leaving import (
    Cancelled,
    MovedFor,
    PreemptedBy,
    ReclaimedBy,
    Refused,
    StaleGang,
    TimeOver,
)
from scheduler_service.model.waiting import (
    AffinityUnmet,
    BackingOff,
    Behind,
    ClaimUnusable,
    FairShareReached,
    GangShort,
    GpuMemoryUnknown,
    HeldBack,
    HeldForOther,
    KeptForOther,
    NeverFits,
    NoMatchingNode,
    NonPreemptibleOverQuota,
    NoScenario,
    NotEnoughOnNode,
    NotMovable,
    NotReady,
    NoVictims,
    OverLimit,
    PlanningFailed,
    PreemptionDelay,
    QueueMissing,
    QueueNotLeaf,
    RoomKept,
    TopologyLevelUnknown,
    TopologyMissing,
    TopologyNoDomainFits,
    TopologyTooSmall,
    WaitsForRelease,
)
from scheduler_service.model.wording import snake

__all__ = [
    "MAX_SENTENCE",
    "AffinityUnmet",
    "BackingOff",
    "Behind",
    "Cancelled",
    "ClaimUnusable",
    "FairShareReached",
    "GangShort",
    "GpuMemoryUnknown",
    "HeldBack",
    "HeldForOther",
    "KeptForOther",
    "MovedFor",
    "NeverFits",
    "NoMatchingNode",
    "NoScenario",
    "NoVictims",
    "NonPreemptibleOverQuota",
    "NotEnoughOnNode",
    "NotMovable",
    "NotReady",
    "OverLimit",
    "PlanningFailed",
    "PreemptedBy",
    "PreemptionDelay",
    "QueueMissing",
    "QueueNotLeaf",
    "Reason",
    "ReclaimedBy",
    "Refused",
    "RoomKept",
    "StaleGang",
    "TimeOver",
    "TopologyLevelUnknown",
    "TopologyMissing",
    "TopologyNoDomainFits",
    "TopologyTooSmall",
    "WaitsForRelease",
    "code",
    "sentence",
]

MAX_SENTENCE = 90

Reason = (
    NotEnoughOnNode
    | NeverFits
    | GangShort
    | NotReady
    | OverLimit
    | NonPreemptibleOverQuota
    | FairShareReached
    | QueueMissing
    | QueueNotLeaf
    | PreemptionDelay
    | TopologyMissing
    | TopologyLevelUnknown
    | TopologyTooSmall
    | TopologyNoDomainFits
    | NoMatchingNode
    | HeldBack
    | AffinityUnmet
    | GpuMemoryUnknown
    | ClaimUnusable
    | NoVictims
    | NoScenario
    | NotMovable
    | Behind
    | HeldForOther
    | KeptForOther
    | RoomKept
    | BackingOff
    | PlanningFailed
    | WaitsForRelease
    | ReclaimedBy
    | PreemptedBy
    | MovedFor
    | StaleGang
    | Cancelled
    | TimeOver
    | Refused
)


def code(reason: Reason) -> str:
    """Return the stable name of a reason, such as "over_limit"."""
    return snake(type(reason).__name__)


def sentence(reason: Reason) -> str:
    """Return what a person reads: one sentence of at most 90 characters."""
    text = str(reason)
    return text if len(text) <= MAX_SENTENCE else f"{text[: MAX_SENTENCE - 1].rstrip()}…"
