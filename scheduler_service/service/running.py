"""Time passes: the service starts, watches the clock, forgets what is old, and stops.

Rule: what the clock asks for is done in `tick`, once a second; a test calls it with a clock of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from scheduler_service.backends.local.desk import is_alone
from scheduler_service.backends.local.foreign import ForeignRule
from scheduler_service.ledger.events import Event, UsageBookFound
from scheduler_service.service import news
from scheduler_service.service.changes import NODES, QUEUES
from scheduler_service.service.core import Core, stopwatch_us
from scheduler_service.service.look_ahead import look_ahead
from scheduler_service.store import life
from scheduler_service.store.records import Ending, GroupRecord
from scheduler_service.words.group import state_of
from scheduler_service.words.recovery import TOLD_FOR_MS

log = logging.getLogger(__name__)

TICK_S = 1.0
NODE_REFRESH_S = 5
VIEW_REFRESH_S = 15
HOUSEKEEPING_S = 60
REST_FACTOR = 5
"""Looking ahead takes at most a sixth of the time."""


class Running(Core):
    """The service as something that lives."""

    _looking: asyncio.Task[None] | None = None
    _rest = 0
    """Rounds of the timers before the next look ahead."""

    async def start(self) -> None:
        """Read everything into the ledger, and keep planning and watching the clock."""
        await self.load()
        self._tasks = [
            asyncio.create_task(self.loop.run(), name="loop"),
            asyncio.create_task(self._tick_for_ever(), name="timers"),
        ]

    async def load(self) -> None:
        """Read everything into the ledger. The first turn of the loop makes the first plan."""
        self.loop.offer(*self.queue_source.first_events())
        if (book := self.usage_file.read()) is not None:
            self.loop.offer(UsageBookFound(book))
        await self.cluster.start()
        if not self.is_simulated:
            await self._read_machine()
        for record in list(self.records):
            self.refresh(record.key)

    async def stop(self) -> None:
        """Stop planning and let runners go. Everything that runs goes on."""
        self.is_stopping = True
        self.desk.close()
        self.changes.wake()
        self.log_store.wake()
        tasks = [*self._tasks, *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        with self.told_in_health("record of usage"):
            self.usage_file.write(self.loop.ledger.usage_book)
        await self.cluster.stop()
        self.log_store.close()
        self._connection.close()

    # -- timers --------------------------------------------------------------------------------
    async def _tick_for_ever(self) -> None:
        while True:
            try:
                await self.tick()
            except Exception:
                log.exception("a round of timers failed")
            await asyncio.sleep(TICK_S)

    async def tick(self) -> None:
        """Do what the clock asks for: leases that end, waits too long, files that changed, what is forgotten."""
        self._ticks += 1
        self.desk.tick()
        for record in [record for record in self.records if not record.is_over]:
            self._tick_group(record)
        for then in self.on_tick:
            then()
        if (events := self.queue_source.poll()) is not None:
            self._queues_changed(events)
        if self._ticks % NODE_REFRESH_S == 0 and not self.is_simulated:
            await self._read_machine()
        self._refresh_views(is_round=self._ticks % VIEW_REFRESH_S == 0)
        if self._ticks % HOUSEKEEPING_S == 1:
            self.housekeep()

    async def _read_machine(self) -> None:
        answer = await asyncio.to_thread(self.read_devices)
        rule = ForeignRule(self.settings.shared, self.cluster.holders())
        foreign = self.usage.foreign
        is_other = self.usage.look(answer, self.clock(), rule)
        if await self.cluster.refresh_node() or is_other:
            self.changes.part(NODES)
        if foreign != self.usage.foreign:
            for key in sorted(self.overview.waiting):
                self.refresh(key)

    def _refresh_views(self, *, is_round: bool) -> None:
        """Make new what the clock alone changes: expected starts, times left."""
        is_looking = self._looking is not None and not self._looking.done()
        is_wanted = self.is_outlook_due or (is_round and bool(self.overview.waiting))
        if is_wanted and not is_looking and self._rest == 0:
            self._looking = asyncio.create_task(self._look_aside())
        self._rest = max(0, self._rest - 1)
        if is_round:
            for record in [record for record in self.records if not record.is_over]:
                self.refresh(record.key)

    async def _look_aside(self) -> None:
        """Look ahead for everybody who waits, then rest in proportion to what it cost."""
        self.is_outlook_due = False
        began = stopwatch_us()
        ahead = await self.ask_ahead(look_ahead)
        self._rest = round(REST_FACTOR * (stopwatch_us() - began) / 1_000_000 / TICK_S)
        self.take_outlook(ahead)
        for key in sorted(self.overview.waiting):
            self.refresh(key)

    def _queues_changed(self, events: Iterable[Event]) -> None:
        self.loop.policy = self.queue_source.config.policy
        self.loop.offer(*events)
        self.changes.part(QUEUES)

    def _tick_group(self, record: GroupRecord) -> None:
        now = self.clock()
        if record.ending is None and record.expires_at is not None:
            self._tick_lease(record, record.expires_at, now)
        self._tick_place(record, now)
        longest = record.ask.max_wait_s
        is_waiting = state_of(record) == "Waiting" and record.requeues == 0
        if longest is not None and is_waiting and now - record.created_at >= longest * 1000:
            ending = Ending(how="waited_too_long", at=now)
            self.records.put(life.stopping(record, ending, line="Not granted in time; withdrawn"))

    def _tick_place(self, record: GroupRecord, now: int) -> None:
        """Withdraw what waits for a process that is gone: a kernel that ended, a Jupyter server that stays away."""
        if state_of(record) != "Waiting" or not is_alone(record):
            self._alone_since.pop(record.key, None)
            return
        since = self._alone_since.setdefault(record.key, now)
        is_lease = record.ask.kind == "lease"
        wait_s = self.settings.move_wait_s if is_lease else self.settings.place_wait_s
        if now - since >= wait_s * 1000:
            del self._alone_since[record.key]
            who = "hub" if record.ask.kind == "server" else "kernel"
            ending = Ending(how="cancelled", at=now, text=f"Its {who} is gone.")
            self.records.put(life.stopping(record, ending, line=f"Withdrawn: its {who} is gone"))

    def _tick_lease(self, record: GroupRecord, expires_at: int, now: int) -> None:
        if now >= expires_at:
            ending = Ending(
                how="time_over", at=now, grace_s=record.ask.grace_s, text="Its time is over."
            )
            self.records.put(life.stopping(record, ending, line="Its time is over"))
        elif now >= expires_at - self.settings.ending_notice_s * 1000:
            mark = f"{record.key} {expires_at}"
            if mark not in self._told_ending:
                self._told_ending.add(mark)
                self.changes.notice(record.key, news.ends_soon(record, now))

    def housekeep(self) -> None:
        """Keep what a restart should know, forget what its retention no longer covers."""
        with self.told_in_health("record of usage"):
            self.usage_file.write(self.loop.ledger.usage_book)
        now = self.clock()
        self.books.forget_before(now - TOLD_FOR_MS)
        over = sorted((r for r in self.records if r.is_over), key=lambda r: r.ended_at or 0)
        oldest = now - self.settings.retention_days * 86_400_000
        for forget in self.on_housekeeping:
            forget(oldest)
        surplus = max(0, len(over) - self.settings.retention_groups)
        gone = [r for i, r in enumerate(over) if i < surplus or (r.ended_at or 0) < oldest]
        gone += self._for_log_space([r for r in over if r not in gone])
        if not gone:
            return
        self.records.forget(record.key for record in gone)
        self.log_store.forget([record.key for record in gone])
        self.files.forget_results(
            pod.incarnation for record in gone for pod in record.pods if pod.incarnation
        )
        self._forget_payloads(gone)
        self.audit.forget_before(oldest)

    def _for_log_space(self, over: list[GroupRecord]) -> list[GroupRecord]:
        """Return the oldest ended groups to drop when all logs together are too large: a tenth at a time."""
        if self.log_store.size_bytes() <= self.settings.log_limit_mib * 2**20:
            return []
        return over[: max(1, len(over) // 10)]

    def _forget_payloads(self, gone: list[GroupRecord]) -> None:
        kept = {_payload(record) for record in self.records}
        self.files.forget_payloads(
            sorted({pair for record in gone if (pair := _payload(record)) and pair not in kept})
        )


def _payload(record: GroupRecord) -> tuple[str, str] | None:
    work = record.ask.work
    if work is None or work.payload_sha256 is None:
        return None
    return record.owner, work.payload_sha256
