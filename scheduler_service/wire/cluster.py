"""Queues, nodes, devices and cycles as people see them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Three resources; None = unlimited."""

    milli_gpu: int | None = 0
    milli_cpu: int | None = 0
    memory_bytes: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """One line of a queue's waiting list. `who` is "you", a name, or "a colleague" where the queue hides names."""

    namespace: str
    """"" when it is not the caller's and names are hidden; so is `name`."""
    name: str
    who: str
    mine: bool
    position: int
    request_text: str
    eta_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """A queue in its tree. `sentence` is like "7.75 of 8 GPUs held, 7.5 asked."."""

    name: str
    parent: str | None
    depth: int
    is_leaf: bool
    priority: int
    quota: Amounts
    limit: Amounts
    over_quota_weight: int
    fair_share: Amounts
    allocated: Amounts
    requested: Amounts
    """Held and waiting together, as the planner counts it."""
    waiting: int
    running: int
    may_submit: bool
    shows_names: bool
    sentence: str
    waiting_rows: tuple[WaitingRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a part of a device."""

    namespace: str
    name: str
    who: str
    mine: bool
    queue: str
    milli: int
    memory_mib: int | None
    releasing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignProcess:
    """A process that uses a GPU without a lease. `user` is its account, "" where that can not be seen."""

    pid: int
    user: str
    since: int
    """When it was first seen there."""
    used_mib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceView:
    """One GPU. `foreign_pids` are processes that use it without a lease of ours: it then counts as taken."""

    id: str
    index: int
    model: str
    memory_mib: int | None
    simulated: bool
    allocated_milli: int
    holders: tuple[Holder, ...] = ()
    foreign_pids: tuple[int, ...] = ()
    used_mib: int | None = None
    busy_percent: int | None = None
    foreign: tuple[ForeignProcess, ...] = ()
    """More of those that `foreign_pids` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node and its devices."""

    name: str
    simulated: bool
    milli_cpu: int
    memory_bytes: int
    max_pods: int
    milli_gpu: int
    allocated_milli_gpu: int
    labels: dict[str, str] = field(default_factory=dict)
    devices: tuple[DeviceView, ...] = ()
    schedulable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleView:
    """One planning cycle as history keeps it."""

    number: int
    at: int
    duration_us: int
    bound: int
    pipelined: int
    evicted: int
    waiting: int
    lines: tuple[str, ...] = ()
    """One sentence per decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the service lives (`ok`) and is ready, and what it is."""

    ok: bool
    ready: bool
    version: str
    backend: str
    simulated: bool
    rev: int
    devices_text: str
    """"2 simulated GPUs, 24 GiB each"."""
    notes: tuple[str, ...] = ()
    """Told, not hidden: "The state file was damaged; it was moved to … and a new one begun."."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerView:
    """Who the service takes the caller for."""

    user: str
    groups: tuple[str, ...]
    scopes: tuple[str, ...]
