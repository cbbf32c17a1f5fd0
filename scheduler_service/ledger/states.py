"""What each pod state means in the book: one table. Codes are small integers for the columns."""

from __future__ import annotations

from scheduler_service.model.pod import PodState

PENDING, GATED, PIPELINED, BINDING, BOUND, RUNNING, RELEASING, SUCCEEDED, FAILED, STUCK = range(10)

CODE_OF: dict[PodState, int] = {
    PodState.PENDING: PENDING,
    PodState.GATED: GATED,
    PodState.PIPELINED: PIPELINED,
    PodState.BINDING: BINDING,
    PodState.BOUND: BOUND,
    PodState.RUNNING: RUNNING,
    PodState.RELEASING: RELEASING,
    PodState.SUCCEEDED: SUCCEEDED,
    PodState.FAILED: FAILED,
}
STATE_OF: tuple[PodState, ...] = (*CODE_OF, PodState.RELEASING)

HOLDS_NOW = (False, False, False, True, True, True, True, False, False, True)
HOLDS_LATER = (False, False, True, True, True, True, False, False, False, True)
IS_ACTIVE = (False, False, True, True, True, True, False, False, False, False)
"""Counts for its queue and for its group's minimum: promised, binding, bound, running."""
IS_ALLOCATED = (False, False, False, True, True, True, False, False, False, False)
"""The same without promises."""
HAS_PLACE = tuple(now or later for now, later in zip(HOLDS_NOW, HOLDS_LATER, strict=True))
