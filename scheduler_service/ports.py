"""The three doors of the service, as Protocols: what the API asks, where plans are carried out, and who is calling.

Rule: types only. `api` calls `SchedulerPort`; the loop calls `Backend`; both backends pass one contract suite
(`tests/contracts`).
The port's answers are wire types, because a view is a projection that only exists to travel (ADR 0004).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scheduler_service.errors import RequestError
from scheduler_service.model.plan import Statement
from scheduler_service.model.reasons import Reason
from scheduler_service.wire import cluster, companion, events, pod_group, runner
from scheduler_service.wire.explain import ExplainView, ForecastView
from scheduler_service.wire.problem import Problem
from scheduler_service.wire.team import ChangeView, LeadAsk, TeamView, Undo, WhatIfView

ADMIN = "admin"
READ = "read"
REQUEST = "request"
LEAD_PREFIX = "lead:"
NAMESPACE_PREFIX = "namespace:"
"""Sees the groups of a namespace, where namespaces are not people (in a cluster)."""


class RefusedRequest(RequestError):
    """A request that is not served, with the `Problem` that the caller gets. The status is in it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(
            problem.title,
            why=problem.detail,
            hint=problem.hint,
            status=problem.status,
            code=problem.code,
            facts=problem.facts,
        )
        self.problem = problem


class NotFound(RefusedRequest):
    """No such thing, or not the caller's to know of: told alike (404)."""


class NotAllowed(RefusedRequest):
    """The caller lacks the scope (403)."""


class PayloadTooLarge(RefusedRequest):
    """More bytes than the settings allow (413)."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Made by one authenticator, never from a request's body.

    Scopes: read, request, lead:<queue>, namespace:<name>, admin.
    """

    user: str
    groups: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset({READ, REQUEST})

    @property
    def is_admin(self) -> bool:
        """Whether the caller may see and end everything."""
        return ADMIN in self.scopes

    def may(self, scope: str) -> bool:
        """Whether the caller has `scope`; admin has all, request implies read."""
        if self.is_admin or scope in self.scopes:
            return True
        return scope == READ and REQUEST in self.scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastAsk:
    """A request that has not been made: the parts of `Submit` that decide when it would start."""

    queue: str | None = None
    gpu: str | float | None = None
    gpu_memory: str | None = None
    devices: int = 1
    cpu: str | float | None = None
    memory: str | None = None
    workers: int = 1
    kind: pod_group.Kind = "lease"
    priority: int | None = None
    preemptible: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAsk:
    """Which lines of a group's logs: of one rank or all, after a cursor, or only the last `tail`."""

    rank: int | None = None
    after: int = 0
    tail: int | None = None
    wait_s: float = 0
    """Up to so long for the first new line (long poll of `follow`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLook:
    """A look at a cell: what it wrote from `after` on, waiting up to `wait_s` for news."""

    cell: str
    after: int = 0
    wait_s: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderLook:
    """A companion's look for orders: the cell that it runs ("" = none), and the interrupts of it that it has seen."""

    busy: str = ""
    interrupts: int = 0
    wait_s: float = 0


class CompanionPort(Protocol):
    """Cells that run in a companion. On one machine there are none: a lease is the kernel's own there."""

    async def run_cell(
        self, caller: Caller, namespace: str, name: str, ask: companion.CellAsk
    ) -> companion.CellView:
        """Have the companion run a cell; the same id again is the same cell."""
        ...

    async def cell(
        self, caller: Caller, namespace: str, name: str, ask: CellLook
    ) -> companion.CellView:
        """Return how a cell stands; waits for news."""
        ...

    async def interrupt_cell(
        self, caller: Caller, namespace: str, name: str, cell: str
    ) -> companion.CellView:
        """Interrupt a cell, as Ctrl-C does."""
        ...

    async def cell_result(
        self, caller: Caller, namespace: str, name: str, cell: str
    ) -> tuple[Path, str]:
        """Return the file of a cell's values and its signature."""
        ...

    async def cell_orders(self, incarnation: str, look: OrderLook) -> companion.CellOrders:
        """Return what a companion is to do; waits for it."""
        ...

    async def report_cell(self, incarnation: str, report: companion.CellReport) -> None:
        """Take note of what a companion says of a cell."""
        ...

    async def cell_payload(self, incarnation: str, cell: str) -> Path:
        """Return the payload file of a cell."""
        ...

    async def store_cell_result(
        self, incarnation: str, cell: str, chunks: AsyncIterator[bytes], *, signature: str
    ) -> None:
        """Keep the values of a cell."""
        ...


class SchedulerPort(CompanionPort, Protocol):
    """What the API may ask of the service.

    Every method authorises `caller` itself and raises subclasses of `scheduler_service.errors.RequestError`.
    """

    async def submit(
        self, caller: Caller, ask: pod_group.Submit, *, idempotency_key: str | None
    ) -> tuple[pod_group.PodGroupView, bool]:
        """Return the group and whether it is new. The same key by the same owner returns the first group again."""
        ...

    async def groups(
        self, caller: Caller, *, queue: str | None, state: str | None, mine: bool
    ) -> pod_group.PodGroupList:
        """Return the groups the caller may see."""
        ...

    async def group(self, caller: Caller, namespace: str, name: str) -> pod_group.PodGroupView:
        """Return one group; unknown or not the caller's to see: `NotFound`, alike."""
        ...

    async def extend(
        self, caller: Caller, namespace: str, name: str, ask: pod_group.Extend
    ) -> pod_group.PodGroupView:
        """Lengthen a lease and return it."""
        ...

    async def cancel(
        self, caller: Caller, namespace: str, name: str, ask: pod_group.Cancel
    ) -> pod_group.PodGroupView:
        """End or withdraw a group and return it."""
        ...

    async def move(
        self, caller: Caller, namespace: str, name: str, ask: pod_group.Move
    ) -> pod_group.PodGroupView:
        """Carry a lease over to the new process of the same kernel (after its restart)."""
        ...

    async def logs(self, caller: Caller, namespace: str, name: str, ask: LogAsk) -> runner.LogPage:
        """Return log lines of the group, older ones first."""
        ...

    async def explain(self, caller: Caller, namespace: str, name: str) -> ExplainView:
        """Return why the group stands as it does, action by action."""
        ...

    async def forecast(self, caller: Caller, ask: ForecastAsk) -> ForecastView:
        """Return when a request that is not made yet would start."""
        ...

    async def queues(self, caller: Caller) -> tuple[cluster.QueueView, ...]:
        """Return the tree of queues the caller may see."""
        ...

    async def nodes(self, caller: Caller) -> tuple[cluster.NodeView, ...]:
        """Return the nodes with their devices and who holds what."""
        ...

    async def cycles(self, caller: Caller, *, last: int) -> tuple[cluster.CycleView, ...]:
        """Return the last cycles, newest first."""
        ...

    async def snapshot(self, caller: Caller, *, cycle: int | None = None) -> dict[str, object]:
        """Return the ledger as a snapshot file's content (admin only), or that cycle's capture; no secrets."""
        ...

    def events(self, caller: Caller, *, since: int | None) -> AsyncIterator[events.StreamEvent]:
        """Yield a snapshot (or, if `since` is still in the window, the updates after it), then updates as they come."""
        ...

    async def health(self) -> cluster.Health:
        """Return how the service is, without secrets."""
        ...

    # a team's lead
    async def team(self, caller: Caller) -> TeamView:
        """Return the page of a lead: all queues they answer for. Who answers for none: `NotAllowed`."""
        ...

    def team_events(self, caller: Caller) -> AsyncIterator[TeamView]:
        """Yield that page, and again whenever it reads differently."""
        ...

    async def what_if(self, caller: Caller, ask: LeadAsk) -> WhatIfView:
        """Return what a change would do at once; nothing is changed."""
        ...

    async def change(self, caller: Caller, ask: LeadAsk) -> ChangeView:
        """Make a change, keep it, and tell those concerned why."""
        ...

    async def undo(self, caller: Caller, number: int, ask: Undo) -> ChangeView:
        """Take a change back."""
        ...

    # payloads and results
    async def store_payload(
        self, caller: Caller, chunks: AsyncIterator[bytes], *, limit: int | None = None
    ) -> pod_group.PayloadStored:
        """Store a payload while it streams in; over the limit (bytes): `PayloadTooLarge`, nothing kept."""
        ...

    async def result(
        self, caller: Caller, namespace: str, name: str, *, rank: int
    ) -> tuple[Path, str]:
        """Return the file of a result and its signature."""
        ...

    # the runner's side
    async def claim(self, caller: Caller, ask: runner.ClaimRequest) -> runner.ClaimAnswer:
        """Return what was granted and nobody runs yet."""
        ...

    async def prove(self, caller: Caller, ask: runner.ProofRequest) -> runner.ProofAnswer:
        """Enter into books that were lost what a runner can prove; return what it can not."""
        ...

    async def orders(self, caller: Caller, *, runner_name: str, wait_s: float) -> runner.Orders:
        """Return what the runner must do; waits up to `wait_s` for it."""
        ...

    async def beat(self, caller: Caller, beat: runner.Beat) -> None:
        """Take note that the runner and its pods live."""
        ...

    async def report(self, caller: Caller, report: runner.Report) -> None:
        """Take note of a start or an end that a runner saw."""
        ...

    async def append_logs(self, incarnation: str, chunk: runner.LogChunk) -> None:
        """Keep log lines of an incarnation (its token was checked by the API)."""
        ...

    async def payload_of(self, incarnation: str) -> Path:
        """Return the payload file of an incarnation."""
        ...

    async def store_result(
        self, incarnation: str, chunks: AsyncIterator[bytes], *, signature: str
    ) -> None:
        """Keep the result of an incarnation."""
        ...

    async def incarnation_of_token(self, token: str) -> str | None:
        """Return the incarnation whose live token this is."""
        ...

    def metrics_text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        ...


@dataclass(frozen=True, slots=True)
class Accepted:
    """The backend carries the statement out; observed events confirm it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The backend declines the whole statement, and why; the loop undoes what it had assumed and backs off."""

    reason: Reason


class Backend(Protocol):
    """Where plans are carried out. Feeds observed events to the ledger's loop, applies statements, is idempotent."""

    name: str

    async def start(self) -> None:
        """Begin to observe. After it returns, `observed` yields at least the nodes."""
        ...

    def observed(self) -> Sequence[object]:
        """Return, and forget, the ledger events observed since the last call, in order (`ledger.events.Event`)."""
        ...

    async def wait_observed(self, timeout_s: float) -> bool:
        """Wait until `observed` has something; False after `timeout_s`."""
        ...

    async def apply(self, statement: Statement, now: int) -> Accepted | Refused:
        """Carry a statement out, whole or not at all."""
        ...

    async def stop(self) -> None:
        """Stop observing. What runs goes on running."""
        ...
