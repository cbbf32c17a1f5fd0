"""Why a pod is asked to leave or a group ends; part of `reasons.Reason`."""

from __future__ import annotations

from scheduler_service.model.wording import BaseReason, seconds_words


class ReclaimedBy(BaseReason, frozen=True, gc=False):
    """Evicted: another queue takes back its share."""

    group: str
    queue: str
    victim_queue: str

    def __str__(self) -> str:
        return f"Stopped: queue {self.queue} takes back its share for {self.group}."


class PreemptedBy(BaseReason, frozen=True, gc=False):
    """Evicted: a group of higher priority in the same queue needs the place."""

    group: str
    priority: int
    victim_priority: int

    def __str__(self) -> str:
        return f"Stopped for {self.group}: priority {self.priority} over {self.victim_priority}."


class MovedFor(BaseReason, frozen=True, gc=False):
    """Evicted to run elsewhere, so that another group fits."""

    group: str
    node: str

    def __str__(self) -> str:
        return f"Moves to {self.node}, so that {self.group} fits."


class StaleGang(BaseReason, frozen=True, gc=False):
    """Evicted: too few pods for too long."""

    present: int
    needed: int
    stale_ms: int

    def __str__(self) -> str:
        since = seconds_words(self.stale_ms)
        if self.present >= self.needed:
            return f"Stopped: one of its sub-groups had too few pods for {since}."
        return f"Stopped: only {self.present} of {self.needed} pods for {since}."


class Cancelled(BaseReason, frozen=True, gc=False):
    """Somebody ended it."""

    by: str

    def __str__(self) -> str:
        return f"Cancelled by {self.by}."


class TimeOver(BaseReason, frozen=True, gc=False):
    """The time it was asked for is over."""

    asked_ms: int

    def __str__(self) -> str:
        return f"Its time of {seconds_words(self.asked_ms)} is over."


class Refused(BaseReason, frozen=True, gc=False):
    """The backend declined to carry it out, or the start failed; in its own words."""

    why: str

    def __str__(self) -> str:
        return self.why
