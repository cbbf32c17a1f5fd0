"""When a server is idle, and what to do about it: warn, give leases back, then stop it. Pure.

Rules: 1. Idle is no busy kernel and no work of its GPUs, for so long; what nobody can say is no idleness.
2. Nothing is taken without a warning before it, and whoever comes back in time keeps all.
3. The leases of a server go before the server. A GPU that the server itself holds goes with it, at `release`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

NEVER = None
MARGIN_S = 300
"""Between a warning and what it warns of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """After how many idle seconds a queue's servers are warned, lose their GPUs, and are stopped. None: never."""

    warn_s: int | None = 1800
    release_s: int | None = 3600
    stop_s: int | None = 4 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rule of each queue; of a server without a GPU, and of any other queue, the usual one."""

    usual: Rule = field(default_factory=Rule)
    queues: Mapping[str, Rule] = field(default_factory=dict)

    def of(self, queue: str) -> Rule:
        """Return the rule of a queue."""
        return self.queues.get(queue, self.usual)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one server now. Moments in seconds."""

    is_known: bool = True
    """Whether the server said how its kernels are."""
    is_busy: bool = False
    """Whether a kernel works, or a GPU of the server does."""
    worked_at: float = 0.0
    """When a kernel or terminal last did."""
    queue: str = ""
    holds_gpu: bool = False
    """Whether the server itself holds one."""
    has_leases: bool = False
    """Whether its kernels hold some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What was seen and done about a server before."""

    worked_at: float = 0.0
    warned_at: float | None = None
    warned_of: str = ""


class Step(Enum):
    """What to do now."""

    NOTHING = "nothing"
    WARN_RELEASE = "warn: release"
    WARN_STOP = "warn: stop"
    RELEASE = "release"
    STOP = "stop"


def decide(facts: Facts, past: Past, rule: Rule, now: float) -> tuple[Step, Past]:
    """Return what to do, and what to remember."""
    if not facts.is_known or facts.is_busy:
        return Step.NOTHING, Past(worked_at=now)
    worked_at = max(facts.worked_at, past.worked_at)
    is_new_work = past.warned_at is not None and worked_at > past.warned_at
    seen = Past(worked_at=worked_at) if is_new_work else _since(past, worked_at)
    idle_s = now - worked_at
    if facts.has_leases or facts.holds_gpu:
        step = Step.RELEASE if facts.has_leases else Step.STOP
        return _due(seen, rule, rule.release_s, step, idle_s=idle_s, now=now)
    return _due(seen, rule, rule.stop_s, Step.STOP, idle_s=idle_s, now=now)


def _since(past: Past, worked_at: float) -> Past:
    return Past(worked_at=worked_at, warned_at=past.warned_at, warned_of=past.warned_of)


def _due(
    seen: Past, rule: Rule, limit_s: int | None, step: Step, *, idle_s: float, now: float
) -> tuple[Step, Past]:
    """Return the step when its time has come and it was warned of, before that the warning."""
    if limit_s is None:
        return Step.NOTHING, seen
    warn_s = min(limit_s if rule.warn_s is None else rule.warn_s, max(0, limit_s - MARGIN_S))
    if idle_s < warn_s:
        return Step.NOTHING, seen
    is_warned = seen.warned_at is not None and seen.warned_of == step.value
    if not is_warned:
        warning = Step.WARN_RELEASE if step is Step.RELEASE else Step.WARN_STOP
        warned = Past(worked_at=seen.worked_at, warned_at=now, warned_of=step.value)
        return warning, warned
    margin_s = min(MARGIN_S, limit_s)
    if idle_s >= limit_s and now - (seen.warned_at or now) >= margin_s:
        return step, Past(worked_at=seen.worked_at)
    return Step.NOTHING, seen


def warning_of(step: Step, idle_s: float, left_s: float) -> str:
    """Return the warning as a sentence: what, when, and what to do to keep it."""
    idle, left = _minutes(idle_s), _minutes(max(60.0, left_s))
    what = "its GPUs are given back" if step is Step.WARN_RELEASE else "this server is stopped"
    return f"Idle for {idle}: in {left} {what}. Run any cell to keep it; files are safe either way."


def _minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"  # noqa: PLR2004 - two hours
