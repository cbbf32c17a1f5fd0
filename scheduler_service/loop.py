"""The loop: what happened goes into the ledger, a plan comes out, its statements go to the backend.

Rules: 1. It plans only when something happened or a moment it waits for has come. 2. A statement is assumed
only after the backend accepted it. 3. A refused one makes its group back off, so that it never stands in
others' way. 4. A fault in planning costs one cycle; an event that can not be entered costs itself, no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from scheduler_service.ledger import events
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Evict, Plan, Statement
from scheduler_service.model.policy import Policy
from scheduler_service.model.reasons import Reason
from scheduler_service.model.snapshot import BackOff, Snapshot
from scheduler_service.ports import Backend, Refused

log = logging.getLogger(__name__)

Planner = Callable[[Ledger, Policy, int], Plan]
SMALLEST_BACK_OFF_MS = 1_000
LARGEST_BACK_OFF_MS = 300_000
AFTER_FAULT_S = 5.0
LONGEST_WAIT_S = 600.0
MOST_PODS_KEPT = 5_000
"""With more pods a cycle does not keep what it was decided from: that costs time and memory."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """One turn of the loop: the plan, and what became of its statements."""

    number: int
    plan: Plan
    duration_us: int
    accepted: tuple[Statement, ...] = ()
    refused: tuple[tuple[Statement, Reason], ...] = ()
    before: Snapshot | None = None
    """What it was decided from; None where there is too much to keep."""
    policy: Policy | None = None


class Loop:
    """Turns events into carried-out plans. The ledger belongs to it; others only read it between turns."""

    def __init__(
        self,
        backend: Backend,
        *,
        planner: Planner,
        policy: Policy,
        clock: Callable[[], int],
        stopwatch_us: Callable[[], int],
        on_cycle: Callable[[Cycle], None],
    ) -> None:
        self.ledger = Ledger()
        self.policy = policy
        self._backend = backend
        self._planner = planner
        self._clock = clock
        self._stopwatch_us = stopwatch_us
        self._on_cycle = on_cycle
        self.most_pods_kept = MOST_PODS_KEPT
        self.before_plan: Callable[[Ledger], None] = lambda _ledger: None
        """Called in each turn with what happened entered: what must be in the book before it is planned from."""
        self._offered: list[events.Event] = []
        self._is_offered = asyncio.Event()
        self._number = 0
        self._stale: frozenset[str] = frozenset()
        self._wake_at: int | None = None
        self._is_in_doubt = False
        self.note = ""
        """What people should know of events that could not be entered; told in health until a restart."""

    def offer(self, *new: events.Event) -> None:
        """Take events that do not come from the backend (queues, usage) into the next turn."""
        self._offered.extend(new)
        self._is_offered.set()

    def plan_again(self) -> None:
        """Make a turn soon, though nothing was observed (the policy changed)."""
        self._is_offered.set()

    async def run(self) -> None:
        """Turn for ever; end it by cancelling the task."""
        while True:
            try:
                await self.turn()
            except Exception:
                log.exception("planning failed; the next try comes in %s s", AFTER_FAULT_S)
                await asyncio.sleep(AFTER_FAULT_S)
            await self._wait()

    async def turn(self) -> Cycle:
        """Make one turn: drain, plan, apply, tell."""
        now = self._clock()
        self._note_usage(now)
        self._drain()
        self.before_plan(self.ledger)
        began = self._stopwatch_us()
        plan = self._planner(self.ledger, self.policy, now)
        self._number += 1
        before = None
        if len(self.ledger.pods.row_of) <= self.most_pods_kept:
            before = self.ledger.snapshot(now)
        self._note_stale(plan)
        accepted, refused = await self._carry_out(plan, now)
        self._wake_at = self._next_moment(plan)
        duration = self._stopwatch_us() - began
        done = (tuple(accepted), tuple(refused))
        cycle = Cycle(self._number, plan, duration, *done, before, self.policy)
        self._on_cycle(cycle)
        return cycle

    def _note_usage(self, now: int) -> None:
        """Book what was held since the last turn, where the policy weighs it."""
        policy = self.policy
        if policy.weighs_usage:
            rule = (policy.usage_half_life_ms, policy.usage_window_ms)
            self.ledger.apply(events.UsageTick(now, *rule, by_owner=policy.user_fairness))

    def _drain(self) -> None:
        self._is_offered.clear()
        offered, self._offered = self._offered, []
        for event in (*offered, *self._backend.observed()):
            self._enter(event)
        if self._is_in_doubt:  # what failed half-way left sums that its parts do not bear out
            self.ledger = Ledger.from_snapshot(self.ledger.snapshot(self._clock()))
            self._is_in_doubt = False

    def _enter(self, event: object) -> None:
        """Enter what happened; what can not be entered is told and left out, so that the rest is not lost with it."""
        try:
            self.ledger.apply(_typed(event))
        except Exception as error:
            log.exception("could not be entered and is left out: %s", type(event).__name__)
            self._is_in_doubt = True
            self.note = (
                f"Something that happened ({type(event).__name__}) could not be entered in the books: {error!r}. "
                "All else was. If a request looks wrong, restart the service; its log says more."
            )

    async def _carry_out(
        self, plan: Plan, now: int
    ) -> tuple[list[Statement], list[tuple[Statement, Reason]]]:
        accepted: list[Statement] = []
        refused: list[tuple[Statement, Reason]] = []
        for statement in plan.statements:
            answer = await self._backend.apply(statement, now)
            if isinstance(answer, Refused):
                refused.append((statement, answer.reason))
                self._back_off(statement.group, now)
                continue
            accepted.append(statement)
            self.ledger.apply(events.Assumed(statement, now, self.policy.hold_ms))
            self._note_evicted(statement, now)
            if statement.group in self.ledger.back_offs:
                self.ledger.apply(events.BackOffEnded(statement.group))
        return accepted, refused

    def _note_evicted(self, statement: Statement, now: int) -> None:
        """Let the preemption delay of groups begin anew that others took something from."""
        if statement.action == "evict_stale_gangs":
            return
        pods = self.ledger.pods
        told = (op.pod for op in statement.operations if isinstance(op, Evict))
        groups = {pods.models[pods.row_of[pod]].group for pod in told if pod in pods.row_of}
        for key in sorted(groups & self.ledger.groups.keys()):
            model = self.ledger.groups[key].model
            if model.preemption_delay_ms:
                self.ledger.apply(events.PodGroupChanged(replace(model, last_evicted_ms=now)))

    def _note_stale(self, plan: Plan) -> None:
        """Remember since when groups are below their minimum, for the next plan."""
        for key in sorted({*self._stale, *plan.stale}):
            group = self.ledger.groups.get(key)
            since = plan.stale.get(key)
            if group is not None and group.model.stale_since_ms != since:
                self.ledger.apply(
                    events.PodGroupChanged(replace(group.model, stale_since_ms=since))
                )
        self._stale = frozenset(plan.stale)

    def _back_off(self, group: str, now: int) -> None:
        before = self.ledger.back_offs.get(group)
        failures = 1 if before is None else before.failures + 1
        first = max(self.policy.back_off_ms, SMALLEST_BACK_OFF_MS)
        longest = self.policy.max_back_off_ms or LARGEST_BACK_OFF_MS
        delay = min(first * 2 ** min(failures - 1, 20), longest)
        self.ledger.apply(events.BackedOff(BackOff(group, failures, now + delay)))

    def _next_moment(self, plan: Plan) -> int | None:
        moments = [w.not_before_ms for w in plan.waiting if w.not_before_ms is not None]
        moments += [back_off.until_ms for back_off in self.ledger.back_offs.values()]
        moments += [hold.until_ms for hold in self.ledger.holds.values()]
        if plan.wake_ms is not None:
            moments.append(plan.wake_ms)
        return min((moment for moment in moments if moment > plan.now_ms), default=None)

    async def _wait(self) -> None:
        left = LONGEST_WAIT_S
        if self._wake_at is not None:
            left = min(left, max(0.0, (self._wake_at - self._clock()) / 1000) + 0.001)
        observed = asyncio.ensure_future(self._backend.wait_observed(left))
        offered = asyncio.ensure_future(self._is_offered.wait())
        try:
            await asyncio.wait({observed, offered}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            observed.cancel()
            offered.cancel()


def _typed(event: object) -> events.Event:
    """Return what a backend observed; anything but a ledger event is a fault of the backend."""
    if not isinstance(event, events.Event):
        raise TypeError(f"{type(event).__name__} is no ledger event.")
    return event
