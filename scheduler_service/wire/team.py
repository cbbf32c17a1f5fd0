"""What a team's lead sees and does: one page of numbers, lists and changes, and what a change would do.

Amounts are milli-GPU, moments ms since the epoch. None = not known, or unlimited where it is a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scheduler_service.wire.pod_group import Tone

LeadKind = Literal["priority", "cap", "release", "ask", "lend", "drain"]
"""Move a waiting request; bound what a person holds; end a lease; ask its owner to; lend quota; start nothing new."""
NeedKind = Literal["never", "idle", "late", "held_back"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadAsk:
    """A change that a lead wants. `queue` is theirs: of the group, of the person, the one that lends or is drained."""

    kind: LeadKind
    queue: str
    reason: str
    """Shown to those concerned and kept in the audit."""
    group: str | None = None
    """"namespace/name" (priority, release, ask)."""
    person: str | None = None
    """Whom the cap is for."""
    gpu: str | float | None = None
    """How much is lent, or how much the person may hold at most: `2`, `"0.5"`."""
    to: str | None = None
    """The queue that is lent to."""
    until: int | None = None
    """When it ends by itself; lending needs it."""
    place: Literal["first", "last"] | None = None
    """Where a request is moved among those of its queue that wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """Take a change back, and say why."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeView:
    """A change that was made. `text` says what, without the reason."""

    id: int
    kind: LeadKind
    queue: str
    text: str
    reason: str
    by: str
    at: int
    until: int | None = None
    ended_at: int | None = None
    ended_by: str = ""
    ended_why: str = ""
    in_force: bool = False
    may_undo: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeAfter:
    """What a queue holds now, and what it would hold once the change has worked. `delta_text`: "+1.25" or "same"."""

    queue: str
    before_milli: int
    after_milli: int
    delta_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfView:
    """What a change would do at once, by the planner. Nothing was changed."""

    headline: str
    detail: str
    queues: tuple[BeforeAfter, ...]
    gains: tuple[str, ...]
    """Who starts now that would wait, a line each."""
    pays: tuple[str, ...]
    """Who is asked to leave that would stay, or waits that would start."""
    risk: str
    text: str
    """What is about to be done, for the question before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamNumber:
    """One of the four numbers with its trend. `points`: the line beside it, oldest first."""

    id: Literal["allocated", "waiting", "wait", "idle"]
    label: str
    value: str
    unit: str
    trend: Literal["up", "down", "level", "unknown"]
    trend_text: str
    points: tuple[float, ...] = ()
    points_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedRow:
    """Something that a person has to look at. `groups` are the keys that its buttons act on."""

    kind: NeedKind
    word: str
    tone: Tone
    icon: str
    title: str
    text: str
    queue: str
    who: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamQueue:
    """A queue with its shares. `leads`: the caller may change it."""

    name: str
    parent: str | None
    depth: int
    is_leaf: bool
    leads: bool
    allocated: int
    quota: int | None
    fair_share: int
    requested: int
    limit: int | None
    borrowed: int
    waiting: int
    sentence: str
    lent: int = 0
    """What others lend it (or, negative, it lends others)."""
    drained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    """A person in one queue."""

    who: str
    queue: str
    holds: int
    waits: int
    since: int | None = None
    idle_percent: int | None = None
    """How much of what they hold does nothing now, where that is measured."""
    busy_percent: int | None = None
    today_milli_hours: int = 0
    cap: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamWaiting:
    """A request that waits."""

    group: str
    name: str
    who: str
    queue: str
    position: int
    asks: int
    asks_text: str
    reason: str
    since: int
    eta_text: str
    late: bool
    priority: int
    first: bool
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """A lease that is held."""

    group: str
    name: str
    who: str
    queue: str
    holds: int
    since: int
    idle_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRow:
    """A gang: how many of its workers run."""

    group: str
    name: str
    who: str
    queue: str
    workers: int
    running: int
    state: str
    word: str
    tone: Tone
    icon: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UseSeries:
    """Use over the last 24 h, oldest first; a point is the mean of its part of the day."""

    at: tuple[int, ...] = ()
    allocated: tuple[int, ...] = ()
    requested: tuple[int, ...] = ()
    capacity: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamView:
    """Everything on a lead's page, consistent at `rev`."""

    rev: int
    now: int
    title: str
    subtitle: str
    simulated: bool
    user: str
    led: tuple[str, ...]
    may_change: bool
    """False where changes are made elsewhere (in a cluster, on its Queue objects)."""
    numbers: tuple[TeamNumber, ...]
    needs: tuple[NeedRow, ...]
    queues: tuple[TeamQueue, ...]
    people: tuple[PersonRow, ...]
    people_count: int
    waiting: tuple[TeamWaiting, ...]
    leases: tuple[LeaseRow, ...]
    gangs: tuple[GangRow, ...]
    use: UseSeries
    changes: tuple[ChangeView, ...]
