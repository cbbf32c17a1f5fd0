"""The operator's choices, as data. `conformance()` is plain; `default()` adds what we do better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Strategy = Literal["pack", "spread"]
NodeStrategy = Literal["pack", "spread", "least_fragmentation"]
Action = Literal["allocate", "consolidate", "reclaim", "preempt", "evict_stale_gangs"]
ACTIONS: tuple[Action, ...] = (
    "allocate",
    "consolidate",
    "reclaim",
    "preempt",
    "evict_stale_gangs",
)
DEFAULT_STUCK_AFTER_MS = 120_000


class Placement(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Fullest or emptiest first: nodes for GPU pods, nodes for CPU-only pods, shared GPUs.

    `least_fragmentation` takes the node, and for parts the GPU, that leaves the least room which
    other requests can not use.
    """

    gpu: NodeStrategy = "pack"
    cpu: NodeStrategy = "pack"
    shared_gpu: Strategy = "pack"


class Policy(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """All settings of the planner. Times in ms.

    `stale_gang_grace_ms` None = never. `max_consolidation_victims` 0 = off, None = no cap.
    Extras, all off under conformance: `hold_ms` keeps a freed place for the pod it was freed for;
    `back_off_ms`/`max_back_off_ms` delay a group whose start keeps failing; `user_fairness` ranks
    a queue's groups by their owners' lately used share; `usage_weight_milli` corrects weights by
    usage (0 = ignore). What was used longer ago than `usage_window_ms` is forgotten (0 = never),
    and counts half after each `usage_half_life_ms` (0 = in full). `restrict_node_roles` keeps CPU
    work off GPU nodes and the reverse; `max_simulations` bounds the what-ifs for one group in one
    action (None = no bound). Room is kept for the first group that has waited `reserve_after_ms`
    (0 = off) for more than is free: as long as it takes where those in its place said how long
    they run, else for `reserve_for_ms`, then after a pause for twice that, and so on. Each
    `age_ms` of waiting (0 = off) lifts a group in its queue by one point, at most `max_age`.
    `queue_depth`: an action looks at the first so many waiting groups of a queue only.
    """

    placement: Placement = Placement()
    actions: tuple[Action, ...] = ACTIONS
    stale_gang_grace_ms: int | None = 60_000
    max_consolidation_victims: int | None = None
    stuck_after_ms: int = DEFAULT_STUCK_AFTER_MS
    hold_ms: int = 0
    back_off_ms: int = 0
    max_back_off_ms: int = 0
    user_fairness: bool = False
    usage_weight_milli: int = 0
    usage_half_life_ms: int = 0
    usage_window_ms: int = 0
    restrict_node_roles: bool = False
    max_simulations: int | None = None
    reserve_after_ms: int = 0
    reserve_for_ms: int = 0
    age_ms: int = 0
    max_age: int = 0
    queue_depth: Mapping[Action, int] = {}

    @property
    def weighs_usage(self) -> bool:
        """Whether anything depends on what was used lately."""
        return self.usage_weight_milli > 0 or self.user_fairness

    @classmethod
    def conformance(cls) -> Policy:
        """Return the fixed settings of the conformance data: every extra off."""
        return cls()

    @classmethod
    def default(cls) -> Policy:
        """Return what an installation runs with unless told otherwise."""
        return cls(
            max_consolidation_victims=16,
            hold_ms=30_000,
            back_off_ms=5_000,
            max_back_off_ms=300_000,
            max_simulations=2_000,
            reserve_after_ms=600_000,
            reserve_for_ms=600_000,
            age_ms=3_600_000,
            max_age=25,
        )
