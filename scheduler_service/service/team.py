"""The lead's page as the door gives it: made from what is known now, and pushed while somebody looks.

Rule: one page is one answer, made from one plan; a stream sends the whole page again, at most twice a second, and only
if it reads differently.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from scheduler_service.ports import ADMIN, LEAD_PREFIX, Caller
from scheduler_service.service import access, team_view
from scheduler_service.service.lead_asks import led
from scheduler_service.service.looking import Looking
from scheduler_service.service.refusals import refusal
from scheduler_service.service.team_parts import Promise, Scene
from scheduler_service.store.overlays import Overlay
from scheduler_service.store.records import GroupRecord
from scheduler_service.store.use_lately import Sample
from scheduler_service.wire.team import TeamView
from scheduler_service.words.group import Standing, state_of

TEAM_PAUSE_S = 0.5
CLOCK_S = 30.0
"""What only the clock changes (waits, the line of the day) is told so often."""


class Team(Looking):
    """The page of those who answer for queues."""

    may_change = False
    clock_s = CLOCK_S
    _promises: dict[str, Promise] | None = None

    def standing_of(self, record: GroupRecord) -> Standing:
        """Return where a group stands, with how long it has been idle where that is measured."""
        return self.overview.standing(record.key)

    def lead_overlays(self) -> Sequence[Overlay]:
        """Return the changes that leads made, where they are kept here."""
        return ()

    def use_samples(self) -> Sequence[Sample]:
        """Return what is known of the last day."""
        return ()

    async def team(self, caller: Caller) -> TeamView:
        """Return the page of a lead: all queues they answer for. 403 for who answers for none."""
        access.require_read(caller)
        await self.freshen()
        return team_view.team_view(self.team_scene(caller))

    def team_scene(self, caller: Caller) -> Scene:
        """Return what the page is made of."""
        picture = self.picture(caller)
        queues = {queue.name: queue for queue in picture.config.queues}
        if not led(caller, queues):
            raise refusal(
                "not_allowed",
                f"{caller.user} leads no queue here.",
                "Ask whoever runs this service, if you answer for a team.",
                scope=f"{LEAD_PREFIX}QUEUE",
            )
        return Scene(
            picture=replace(picture, nodes=tuple(self.shown_nodes(picture))),
            ended=[record for record in self.records if record.is_over],
            overlays=self.lead_overlays(),
            samples=self.use_samples(),
            promises=self.promises(),
            standing=self.standing_of,
            now=self.clock(),
            rev=self.changes.rev,
            is_simulated=self.is_simulated,
            may_change=self.may_change,
        )

    def promises(self) -> dict[str, Promise]:
        """Return the first start that each group that waits was told; not kept over a restart."""
        known = self._promises or {}
        now = self.clock()
        for key, eta in self.overview.etas.items():
            if key not in known and eta.likely_at is not None and eta.latest_at is not None:
                known[key] = Promise(now, eta.likely_at, eta.latest_at)
        waiting = {r.key for r in self.records if not r.is_over and state_of(r) == "Waiting"}
        self._promises = {key: told for key, told in known.items() if key in waiting}
        return self._promises

    async def team_events(self, caller: Caller) -> AsyncIterator[TeamView]:
        """Yield the page, and again whenever it reads differently."""
        before: TeamView | None = None
        while not self.is_stopping:
            rev = self.changes.rev
            caller = await self.again(caller)
            page = await self.team(caller)
            if before is None or replace(page, rev=0, now=0) != replace(before, rev=0, now=0):
                before = page
                yield page
            await asyncio.sleep(TEAM_PAUSE_S)
            await self.changes.wait_after(rev, self.clock_s)

    def sample_now(self) -> Sample:
        """Return how all queues stand, to be kept for the lines of the page."""
        everything = Caller("kai", scopes=frozenset({ADMIN}))
        return team_view.sample_of(self.team_scene(everything))
