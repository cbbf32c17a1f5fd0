"""What changed in a cluster, as revisions: worked out while somebody listens, and only then.

Rules: 1. Changes are marked always and looked at when a stream is open; one that comes back hears what it missed.
2. All streams together take a small part of the time that the scheduler needs itself. 3. A stream ends after a while:
its reader comes back with its token, which may have been taken from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec

from scheduler_service.errors import BackendError
from scheduler_service.ports import Caller
from scheduler_service.service import news
from scheduler_service.service.changes import NODES, QUEUES
from scheduler_service.service.cluster_core import ClusterCore, ClusterParts
from scheduler_service.service.core import stopwatch_us
from scheduler_service.service.look_ahead import look_ahead
from scheduler_service.service.looking import AT_A_TIME
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.events import StreamEvent

log = logging.getLogger("kai.api")

PACE_S = 0.25
STREAM_PAUSE_S = 0.25
LONGEST_STREAM_S = 1800.0
OUTLOOK_S = 15.0
MOST_PODS_AHEAD = 5_000
"""In a larger cluster nobody looks ahead for all who wait; a forecast is made for who asks."""
REST_FACTOR = 4
_encode = msgspec.json.Encoder().encode


class ClusterStream(ClusterCore):
    """The stream's side of the cluster's door. `tell` runs as long as the scheduler does."""

    def __init__(self, parts: ClusterParts) -> None:
        super().__init__(parts)
        self.open_streams = 0
        self._listened_to = asyncio.Event()
        self._prints: dict[str, int] = {}
        self._told: dict[str, GroupRecord] = {}
        self._waiting: dict[str, object] = {}
        self._parts: set[str] = set()
        self._fair_shares: object = None
        self._cost_us = 0
        self._looked_at = 0.0
        self._is_refreshing = asyncio.Lock()
        self.cluster.listen("nodes", lambda _old, _new: self._parts.add(NODES))
        self.cluster.listen("queues", lambda _old, _new: self._parts.add(QUEUES))

    # -- streams -----------------------------------------------------------------------------------
    async def events(self, caller: Caller, *, since: int | None) -> AsyncIterator[StreamEvent]:
        """Yield a snapshot (or, if `since` is still known, the updates after it), then updates as they come."""
        self.open_streams += 1
        self._listened_to.set()
        ends = asyncio.get_running_loop().time() + LONGEST_STREAM_S
        try:
            await self.refresh()
            async with contextlib.aclosing(super().events(caller, since=since)) as messages:  # type: ignore[type-var]
                async for message in messages:
                    yield message
                    if asyncio.get_running_loop().time() > ends:
                        return
        finally:
            self.open_streams -= 1
            if not self.open_streams:
                self._listened_to.clear()

    def pause_s(self) -> float:
        """Return how long a stream rests between two messages: the longer, the more there are."""
        return max(STREAM_PAUSE_S, self._cost_us * REST_FACTOR * self.open_streams / 1e6)

    async def again(self, caller: Caller) -> Caller:
        """Return a caller with what they may by now; as before while the API server can not be asked."""
        try:
            return await super().again(caller)
        except BackendError as error:
            log.warning("what %s may could not be asked anew: %s", caller.user, error)
            return caller

    # -- what is told ------------------------------------------------------------------------------
    async def tell(self) -> None:
        """Work out what changed for as long as somebody listens; end it by cancelling the task."""
        while True:
            await self._listened_to.wait()
            began = stopwatch_us()
            try:
                await self.refresh()
                await self._look_ahead()
            except Exception:
                log.exception("what changed could not be worked out; the next try comes soon")
            spent_s = (stopwatch_us() - began) / 1e6
            await asyncio.sleep(max(PACE_S, REST_FACTOR * spent_s))

    async def refresh(self) -> None:
        """Make a revision for each group that reads differently than it was told."""
        async with self._is_refreshing:
            await self.freshen()
            keys = self._changed()
            began = stopwatch_us()
            changed = 0
            for number, key in enumerate(keys, 1):
                changed += self._refresh(key)
                if number % AT_A_TIME == 0:
                    await asyncio.sleep(0)
            if changed:
                self._parts |= {QUEUES, NODES}
                self._cost_us = stopwatch_us() - began
            self._tell_parts()

    def _tell_parts(self) -> None:
        """Tell which of the other parts read differently."""
        plan = self.overview.plan
        fair_shares = None if plan is None else plan.fair_shares
        if fair_shares != self._fair_shares:
            self._fair_shares = fair_shares
            self._parts.add(QUEUES)
        parts, self._parts = self._parts, set()
        for part in sorted(parts):
            self.changes.part(part)

    def _changed(self) -> list[str]:
        """Return, and forget, which groups may read differently."""
        records, waiting = self.records, self.overview.waiting
        keys = set(records.dirty)
        if records.is_flooded:
            keys |= {record.key for record in records} | self._prints.keys()
        records.dirty.clear()
        records.is_flooded = False
        etas = self.overview.etas
        places = {
            key: (item.position, item.overall, item.main_reason, etas.get(key))
            for key, item in waiting.items()
        }
        before, self._waiting = self._waiting, dict(places)
        keys |= {key for key, place in places.items() if before.get(key) != place}
        keys |= before.keys() - places.keys()
        return sorted(keys)

    def _refresh(self, key: str) -> bool:
        record = self.records.find(key)
        if record is None:
            self._told.pop(key, None)
            self.revs.pop(key, None)
            self._moves.forget(key)
            if self._prints.pop(key, None) is None:
                return False
            self.changes.group(key)
            return True
        view = replace(self.view(record, is_mine=True), rev=0, gpu_seconds=0)
        mark = hash(_encode(view))
        if self._prints.get(key) == mark:
            return False
        self._prints[key] = mark
        self.revs[key] = self.changes.group(key)
        self._notice(key, record)
        return True

    def _notice(self, key: str, record: GroupRecord) -> None:
        """Tell the owner what happened to a group of theirs."""
        if not record.owner:
            return
        before, self._told[key] = self._told.get(key), record
        if before is not None:
            for notice in news.notices(before, record, self.clock()):
                self.changes.notice(key, notice)

    async def _look_ahead(self) -> None:
        """Look ahead for everybody who waits, now and then."""
        now = asyncio.get_running_loop().time()
        pods = len(self.scheduler.loop.ledger.pods.row_of)
        if not self.overview.waiting or pods > MOST_PODS_AHEAD:
            return
        if now - self._looked_at < OUTLOOK_S:
            return
        self._looked_at = now
        self.take_outlook(await self.ask_ahead(look_ahead))
