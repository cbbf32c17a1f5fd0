"""The runner: claims what was granted to its person, starts it, follows it, obeys. Its memory is the folders."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Sequence

from scheduler_service.runner import adoption
from scheduler_service.runner.clock import now_ms
from scheduler_service.runner.connection import (
    Connection,
    ServiceAway,
    ServiceRefused,
    backoff,
    until_answered,
)
from scheduler_service.runner.cores import CoreBook
from scheduler_service.runner.external import ExternalWatch
from scheduler_service.runner.group import Group, Member
from scheduler_service.runner.options import RunnerOptions
from scheduler_service.runner.pod_watch import PodWatch
from scheduler_service.runner.preparation import Preparation
from scheduler_service.runner.supervision import Refusal
from scheduler_service.wire.runner import (
    Beat,
    ClaimRequest,
    Proof,
    Report,
    StartOrder,
    StopOrder,
)

LOG = logging.getLogger("kai.runner")
BEAT_S = 5.0
LOOK_S = 1.0
NO_NEWS_PAUSE_S = 0.5
UNKNOWN_GRACE_S = 15.0

GroupKey = tuple[str, str]


class Runner:
    """One person's runner on one machine."""

    def __init__(self, options: RunnerOptions) -> None:
        self._options = options
        self._connection = Connection(options)
        self._preparation = Preparation(options, self._connection)
        self._cores = CoreBook()
        self._children: list[subprocess.Popen[bytes]] = []
        self._groups: dict[GroupKey, Group] = {}
        self._watches: dict[str, PodWatch | ExternalWatch] = {}
        self._starting: dict[str, StartOrder] = {}
        self._unreadable: tuple[str, ...] = ()
        """What had begun and was ended because its order can not be read; the service is told."""
        self._connection.proofs_of = self._proofs_of
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Work until the service sends the runner away, or is away itself and nothing runs. Pods are left alone."""
        await self._adopt()
        beating = asyncio.create_task(self._beat_for_ever())
        try:
            await self._obey()
        finally:
            beating.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(beating, *self._tasks, return_exceptions=True)
            await self._connection.close()

    async def _obey(self) -> None:
        """Claim and take orders; after the service was away, claim first, to tell it what is held."""
        delays = backoff()
        away_since: float | None = None
        must_claim = True
        while True:
            try:
                if must_claim:
                    await self._claim()
                orders = await self._connection.orders(self._options.name)
            except (ServiceAway, ServiceRefused) as trouble:
                away_since = away_since or time.monotonic()
                if self._is_alone(away_since):
                    LOG.info("nothing runs and the service is away; leaving: %s", trouble)
                    return
                must_claim = True
                await asyncio.sleep(next(delays))
                continue
            if orders.exit:
                return
            delays, away_since = backoff(), None
            must_claim = orders.claim
            has_news = self._stop(orders.stops)
            if orders.stops and not has_news:
                await asyncio.sleep(NO_NEWS_PAUSE_S)  # they are repeated until the pod has ended

    def _is_alone(self, away_since: float) -> bool:
        is_idle = not self._watches and not self._starting
        return is_idle and time.monotonic() - away_since > self._options.alone_exit_s

    async def _claim(self) -> None:
        held = tuple(held for watch in self._watches.values() if (held := watch.held()) is not None)
        mine = {*self._starting, *self._watches}
        ask = ClaimRequest(runner=self._options.name, host=self._options.host, held=held)
        answer = await self._connection.claim(ask)
        for incarnation in answer.unknown:
            if not await self._connection.vouch(incarnation):
                self._end_unknown(incarnation)
        await self._tell_unreadable()
        # An answer may be older than an end that was told meanwhile: what was ours when we asked is not begun again.
        known = {*mine, *self._starting, *self._watches}
        groups: dict[GroupKey, list[StartOrder]] = defaultdict(list)
        for order in answer.starts:
            if order.incarnation not in known:
                groups[_key_of(order)].append(order)
        for key, orders in groups.items():
            self._starting.update((order.incarnation, order) for order in orders)
            self._keep(self._start(key, orders))
        if answer.starts and not groups:
            await asyncio.sleep(NO_NEWS_PAUSE_S)  # all of them are being started

    async def _start(self, key: GroupKey, orders: Sequence[StartOrder]) -> None:
        try:
            for order in orders:
                if order.process is not None:
                    folder = self._preparation.folder_of(order.incarnation)
                    watch = ExternalWatch(order, order.process, folder, self._connection)
                    self._watch(watch)
            own = [order for order in orders if order.process is None]
            if own:
                await self._start_own(key, own)
        finally:
            for order in orders:
                self._starting.pop(order.incarnation, None)

    async def _start_own(self, key: GroupKey, orders: Sequence[StartOrder]) -> None:
        group = self._groups.setdefault(key, Group(self._preparation, self._cores, self._children))
        refusals = await group.start(orders)
        outcome = "not started" if refusals else "started"
        LOG.info("group %s/%s %s, pods: %d", *key, outcome, len(orders))
        for order in orders:
            if refusals:
                await self._report_refused(order, refusals[order.incarnation])
            else:
                folder = group.members[order.incarnation].folder
                self._watch(PodWatch(order, folder, self._connection, group))

    async def _report_refused(self, order: StartOrder, refusal: Refusal) -> None:
        folder = self._preparation.folder_of(order.incarnation)
        ended = folder.exit() if folder.path.is_dir() else None
        report = Report(
            incarnation=order.incarnation,
            kind="ended",
            at=now_ms(),
            exit_code=ended.exit_code if ended and not ended.started else None,
            reason_code=refusal.code,
            reason_text=refusal.text,
        )
        await until_answered(lambda: self._connection.report(report))
        self._cores.release(order.incarnation)
        folder.remove()

    def _watch(self, watch: PodWatch | ExternalWatch) -> None:
        self._watches[watch.order.incarnation] = watch
        self._keep(self._follow(watch))

    async def _follow(self, watch: PodWatch | ExternalWatch) -> None:
        await watch.run()
        order = watch.order
        LOG.info("pod %s of %s/%s ended", order.incarnation, order.namespace, order.group)
        self._cores.release(order.incarnation)
        del self._watches[order.incarnation]
        key = _key_of(order)
        if not any(_key_of(w.order) == key for w in self._watches.values()):
            self._groups.pop(key, None)

    def _stop(self, orders: Iterable[StopOrder]) -> bool:
        """Pass the stop orders on; False if none was news."""
        has_news = False
        for order in orders:
            watch = self._watches.get(order.incarnation)
            if watch is not None:
                has_news |= watch.stop(grace_s=order.grace_s, reason=order.reason)
            elif order.incarnation not in self._starting:
                self._keep(self._report_unknown(order))
        return has_news

    async def _report_unknown(self, order: StopOrder) -> None:
        report = Report(
            incarnation=order.incarnation,
            kind="ended",
            at=now_ms(),
            reason_code="runner_lost",
            reason_text="The runner knows of no process of this pod.",
        )
        with contextlib.suppress(
            ServiceAway, ServiceRefused
        ):  # the order is repeated until it is answered
            await self._connection.report(report)

    def _end_unknown(self, incarnation: str) -> None:
        watch = self._watches.get(incarnation)
        if watch is not None:
            LOG.info("pod %s is not in the service's books; ending it", incarnation)
            watch.stop(grace_s=UNKNOWN_GRACE_S, reason="The service does not know this pod.")

    def _proofs_of(self, incarnation: str) -> tuple[Proof, ...]:
        """Return what the service wrote of a pod and of the others of its group."""
        orders = self._starting | {name: watch.order for name, watch in self._watches.items()}
        if incarnation not in orders:
            return ()
        key = _key_of(orders[incarnation])
        return tuple(self._proof(order) for order in orders.values() if _key_of(order) == key)

    def _proof(self, order: StartOrder) -> Proof:
        watch = self._watches.get(order.incarnation)
        held = None if watch is None else watch.held()
        return Proof(
            incarnation=order.incarnation,
            pod=f"{order.namespace}/{order.pod}",
            seal=order.seal,
            pid=None if held is None else held.pid,
            start_ticks=None if held is None else held.start_ticks,
        )

    async def _tell_unreadable(self) -> None:
        if self._unreadable:
            await self._connection.prove(tuple(Proof(incarnation=i) for i in self._unreadable))
            self._unreadable = ()

    async def _adopt(self) -> None:
        """Go on with the pods of the runner before this one."""
        begun, self._unreadable = await adoption.take_stock(self._options.pods_dir)
        await asyncio.gather(*(self._adopt_group(key, members) for key, members in begun.items()))

    async def _adopt_group(self, key: GroupKey, members: Sequence[Member]) -> None:
        group = self._groups[key] = Group(self._preparation, self._cores, self._children)
        group.adopt(members)
        for member in members:
            self._cores.hold(member.order.incarnation, member.folder.cores())
        await group.finish_retry()
        for member in members:
            order = member.order
            if order.process is not None:
                watch = ExternalWatch(order, order.process, member.folder, self._connection)
                self._watch(watch)
            else:
                self._watch(PodWatch(order, member.folder, self._connection, group))

    async def _beat_for_ever(self) -> None:
        last = 0.0
        told: dict[str, object] = {}
        while True:
            with contextlib.suppress(OSError):  # a full disk ends no pod before its patience does
                self._options.heartbeat.touch(0o600)
            self._children[:] = [child for child in self._children if child.poll() is None]
            progress = {name: watch.progress() for name, watch in self._watches.items()}
            if time.monotonic() - last >= BEAT_S or progress != told:
                beats = tuple(watch.beat() for watch in self._watches.values())
                with contextlib.suppress(ServiceAway, ServiceRefused):  # the next one tells as much
                    await self._connection.beat(Beat(runner=self._options.name, pods=beats))
                    last, told = time.monotonic(), dict(progress)
            await asyncio.sleep(LOOK_S)

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            LOG.error("a task of the runner failed", exc_info=task.exception())


def _key_of(order: StartOrder) -> GroupKey:
    return order.namespace, order.group
