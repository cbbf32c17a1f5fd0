"""The last cycles as captures: what each was decided from, by which policy, and what was decided.

Rule: kept in memory only; a capture holds what the planner reads and no command, environment, token or payload.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from scheduler_service.loop import Cycle
from scheduler_service.service.refusals import refusal
from scheduler_service.simulate import capture

KEPT = 50


@dataclass(frozen=True, slots=True)
class _Kept:
    number: int
    cycle: Cycle


class Captures:
    """The newest cycles that history tells of, by number."""

    def __init__(self) -> None:
        self._kept: deque[_Kept] = deque(maxlen=KEPT)

    def note(self, number: int, cycle: Cycle) -> None:
        """Keep a cycle, if the loop kept what it was decided from."""
        if cycle.before is not None:
            self._kept.append(_Kept(number, cycle))

    def content(self, number: int) -> dict[str, object]:
        """Return a cycle as a capture file's content, for `kai replay`."""
        for kept in self._kept:
            before, policy = kept.cycle.before, kept.cycle.policy
            if kept.number == number and before is not None and policy is not None:
                return capture.snapshot_file(before, policy, kept.cycle.plan)
        numbers = ", ".join(str(kept.number) for kept in self._kept) or "none yet"
        raise refusal(
            "no_capture",
            f"Cycle {number} is not kept as a capture.",
            f"Kept since the service started are: {numbers}. GET /cycles lists what each decided.",
        )
