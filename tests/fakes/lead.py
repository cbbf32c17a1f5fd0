"""The lead's side of the fake scheduler: one page, and changes that are kept and have no effect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from scheduler_service.ports import LEAD_PREFIX, Caller, NotAllowed, NotFound
from scheduler_service.wire.problem import Problem
from scheduler_service.wire.team import (
    ChangeView,
    LeadAsk,
    TeamView,
    Undo,
    UseSeries,
    WhatIfView,
)


def _problem(status: int, code: str) -> Problem:
    return Problem(
        type=f"urn:kai:problem:{code}", title=code, status=status, detail="", hint="", code=code
    )


class FakeLead:
    """What a fake scheduler says to leads. Its owner has `now` and `rev`."""

    now: int
    rev: int
    changes_made: dict[int, ChangeView]

    def _led(self, caller: Caller) -> tuple[str, ...]:
        names = {scope.removeprefix(LEAD_PREFIX) for scope in caller.scopes if LEAD_PREFIX in scope}
        led = ("default",) if caller.is_admin else tuple(sorted(names))
        if not led:
            raise NotAllowed(_problem(403, "not_allowed"))
        return led

    async def team(self, caller: Caller) -> TeamView:
        led = self._led(caller)
        return TeamView(
            rev=self.rev,
            now=self.now,
            title=f"Queue {led[0]}",
            subtitle="2 GPUs",
            simulated=True,
            user=caller.user,
            led=led,
            may_change=True,
            numbers=(),
            needs=(),
            queues=(),
            people=(),
            people_count=0,
            waiting=(),
            leases=(),
            gangs=(),
            use=UseSeries(),
            changes=tuple(self.changes_made.values()),
        )

    async def team_events(self, caller: Caller) -> AsyncIterator[TeamView]:
        yield await self.team(caller)

    async def what_if(self, caller: Caller, ask: LeadAsk) -> WhatIfView:
        self._led(caller)
        return WhatIfView(
            headline="Nothing changes at once.",
            detail="",
            queues=(),
            gains=(),
            pays=(),
            risk="",
            text=ask.kind,
        )

    async def change(self, caller: Caller, ask: LeadAsk) -> ChangeView:
        self._led(caller)
        made = ChangeView(
            id=len(self.changes_made) + 1,
            kind=ask.kind,
            queue=ask.queue,
            text=ask.kind,
            reason=ask.reason,
            by=caller.user,
            at=self.now,
            in_force=True,
            may_undo=True,
        )
        self.changes_made[made.id] = made
        return made

    async def undo(self, caller: Caller, number: int, ask: Undo) -> ChangeView:
        if number not in self.changes_made:
            raise NotFound(_problem(404, "not_found"))
        self._led(caller)
        made = self.changes_made[number]
        ended = replace(
            made, in_force=False, may_undo=False, ended_at=self.now, ended_why=ask.reason
        )
        self.changes_made[number] = ended
        return ended
