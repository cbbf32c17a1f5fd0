"""The runners' counter: hands out what was granted, passes on who must leave, books what runners report.

Rules: 1. A runner gets only pods of its own user. 2. What a runner holds and the books know is adopted, what
they do not know it must prove (`recovery`) or end. 3. A pod whose runner is silent keeps its place until its process
is known to be gone (or could not have outlived its supervisor).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from scheduler_service.backends.local import spec
from scheduler_service.backends.local.cluster import LocalCluster
from scheduler_service.backends.local.tokens import PodTokens, new_incarnation
from scheduler_service.model.pod import PodState
from scheduler_service.store import life
from scheduler_service.store.groups import Groups
from scheduler_service.store.records import Ending, GroupRecord, PodRecord
from scheduler_service.wire.locate import start_ticks
from scheduler_service.wire.pod_group import Process, Progress
from scheduler_service.wire.runner import (
    Beat,
    ClaimAnswer,
    ClaimRequest,
    HeldPod,
    Orders,
    Report,
    StartOrder,
    StopOrder,
)

STOP_AGAIN_MS = 5_000
"""A stop order is repeated so often until the end is reported."""
KERNEL_END_MS = 30_000
"""A kernel that loses its GPU has so long to end, after its grace."""
NO_RUNNER = "No runner of yours took it. Log in to this machine and ask again."


class UnknownIncarnation(Exception):
    """The books know no such live start of a pod of this user."""


@dataclass(slots=True)
class _Runner:
    user: str
    seen_at: int
    told_to_stop: dict[str, int] = field(default_factory=dict)


class RunnerDesk:
    """Serves the runners of this machine. `clock` gives ms since the epoch."""

    def __init__(
        self,
        groups: Groups,
        cluster: LocalCluster,
        tokens: PodTokens,
        *,
        clock: Callable[[], int],
        lost_after_s: int,
        move_wait_s: int,
    ) -> None:
        self._groups = groups
        self._cluster = cluster
        self._tokens = tokens
        self._clock = clock
        self._lost_after_ms = lost_after_s * 1000
        self._move_wait_ms = move_wait_s * 1000
        self._runners: dict[str, _Runner] = {}
        self._seen: dict[str, int] = {}
        self._began_at = clock()
        self._pulse = asyncio.Event()
        self._is_closing = False
        self.unclaimed_s: int | None = None
        """How long a granted pod waits for a runner of its owner, where the service starts none. None: for ever."""
        self.progress: dict[str, Progress] = {}
        self.on_progress: Callable[[str], None] = lambda _key: None
        """Called with the key of a group whose workers said how far they are."""
        groups.subscribe(self._changed)

    # -- what runners ask ----------------------------------------------------------------------
    def claim(self, user: str, ask: ClaimRequest) -> ClaimAnswer:
        """Adopt what the runner holds and give it every granted pod of its user that nobody runs."""
        now = self._meet(user, ask.runner).seen_at
        unknown = tuple(
            held.incarnation for held in ask.held if not self._adopt(user, ask.runner, held, now)
        )
        holding = {held.incarnation for held in ask.held}
        starts = []
        for record in self._of(user):
            if is_watched_here(record):
                continue
            given = [p for p in record.pods if _is_startable(p, ask.runner, holding)]
            if not given:
                continue
            ranks = [pod.rank for pod in given]
            self._groups.put(life.claimed(record, ranks, ask.runner))
            starts += [self._order(record, pod) for pod in given]
        for order in starts:
            self._seen[order.incarnation] = now
        return ClaimAnswer(starts=tuple(starts), unknown=unknown)

    def _order(self, record: GroupRecord, pod: PodRecord) -> StartOrder:
        token = self._tokens.token_of(pod.incarnation or "")
        seal = self._tokens.seal(record, pod)
        return spec.start_order(record, pod, devices=self._cluster.devices, token=token, seal=seal)

    def _adopt(self, user: str, runner: str, held: HeldPod, now: int) -> bool:
        found = self._groups.find_incarnation(held.incarnation)
        if found is None or found[0].owner != user:
            return False
        record, rank = found
        pod = record.pods[rank]
        if not pod.is_occupied:
            return False
        self._seen[held.incarnation] = now
        report = Report(
            incarnation=held.incarnation,
            kind="started",
            at=now,
            pid=held.pid,
            start_ticks=held.start_ticks,
        )
        after = life.adopted(record, rank, runner, report, now)
        if after != record:
            self._groups.put(after)
        return True

    async def orders(self, user: str, runner: str, wait_s: float) -> Orders:
        """Return what the runner must do now, waiting up to `wait_s` for something."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            pulse = self._pulse
            orders = self._orders_now(user, runner)
            left = until - loop.time()
            if orders != Orders() or left <= 0:
                return orders
            try:
                await asyncio.wait_for(pulse.wait(), min(left, STOP_AGAIN_MS / 1000))
            except TimeoutError:
                continue

    def _orders_now(self, user: str, runner: str) -> Orders:
        me = self._meet(user, runner)
        if self._is_closing:
            return Orders(exit=True)
        stops: list[StopOrder] = []
        is_claim = False
        for record in self._of(user):
            is_for_runners = not is_watched_here(record)
            for pod in record.pods:
                is_free = pod.state is PodState.BINDING and pod.runner is None
                is_claim = is_claim or (is_free and is_for_runners)
                if spec.is_leaving(pod) and pod.runner == runner:
                    stops += self._stop(me, record, pod)
        return Orders(claim=is_claim, stops=tuple(stops))

    def _stop(self, runner: _Runner, record: GroupRecord, pod: PodRecord) -> Iterator[StopOrder]:
        incarnation = pod.incarnation or ""
        last = runner.told_to_stop.get(incarnation)
        if last is not None and runner.seen_at - last < STOP_AGAIN_MS:
            return
        runner.told_to_stop[incarnation] = runner.seen_at
        ending = record.ending
        yield StopOrder(
            incarnation=incarnation,
            grace_s=record.ask.grace_s if ending is None else ending.grace_s,
            reason=pod.reason_text if ending is None else ending.text,
        )

    def beat(self, user: str, beat: Beat) -> None:
        """Note that the runner and its pods live, and how far they are."""
        now = self._meet(user, beat.runner).seen_at
        for pod in beat.pods:
            found = self._groups.find_incarnation(pod.incarnation)
            if found is None or found[0].owner != user:
                continue
            self._seen[pod.incarnation] = now
            record, rank = found
            if pod.progress is not None and pod.progress != self.progress.get(pod.incarnation):
                self.progress[pod.incarnation] = pod.progress
                self.on_progress(record.key)
            is_leaving = record.is_external and spec.is_leaving(record.pods[rank])
            if is_leaving and not self._may_save(record):
                self._let_go(record, rank, holds_device=pod.holds_device)

    def _let_go(self, record: GroupRecord, rank: int, *, holds_device: bool | None) -> None:
        now = self._clock()
        grace_ms = 1000 * (record.ending.grace_s if record.ending else record.ask.grace_s)
        asked_at = record.ending.at if record.ending else now
        is_free = holds_device is False or (holds_device is None and now - asked_at >= grace_ms)
        if is_free:
            self._end(record, rank, reason="")

    def report(self, user: str, report: Report) -> None:
        """Book that a pod started or ended. A repeat changes nothing."""
        found = self._groups.find_incarnation(report.incarnation)
        if found is None or found[0].owner != user:
            raise UnknownIncarnation(report.incarnation)
        record, rank = found
        now = self._clock()
        self._seen[report.incarnation] = now
        if report.kind == "started":
            after = life.started(record, rank, report, now)
        elif self._may_save(record):
            return  # its runner looks away once no device is held; the kernel itself is not ended yet
        elif self._may_return(record, rank):
            after = life.process_gone(record, rank, now)
        else:
            after = life.ended(record, rank, report, now)
        if after != record:
            self._groups.put(after)

    def _may_return(self, record: GroupRecord, rank: int) -> bool:
        """Whether a restarted kernel (or the restarted server of one that waited) may still carry this lease over."""
        is_held = record.pods[rank].state in {PodState.BINDING, PodState.RUNNING}
        return record.is_external and is_held and record.ask.origin.kernel_id is not None

    def _may_save(self, record: GroupRecord) -> bool:
        """Whether a kernel or server that loses its GPU is still there to save: its place is free when it has ended.

        Its Jupyter server or hub ends it after the grace; one that nobody ends is not waited for for ever.
        """
        ending = record.ending
        is_whole = record.ask.kind in {"kernel", "server"} and not is_alone(record)
        if ending is None or not is_whole or ending.by == record.owner:
            return False
        return self._clock() - ending.at < 1000 * ending.grace_s + KERNEL_END_MS

    # -- what the service asks -----------------------------------------------------------------
    def move(self, record: GroupRecord, process: Process) -> GroupRecord:
        """Carry a lease over to another process and return its new record."""
        after = life.moved(record, process, new_incarnation(), self._clock())
        self._groups.put(after)
        return after

    def incarnation_of(self, token: str) -> str | None:
        """Return the incarnation whose live token this is."""
        incarnation = self._tokens.incarnation_of(token)
        found = None if incarnation is None else self._groups.find_incarnation(incarnation)
        if found is None or not found[0].pods[found[1]].is_occupied:
            return None
        return incarnation

    def tick(self) -> None:
        """Give up what can not come back: kernels that did not restart, pods whose runner and process are gone."""
        now = self._clock()
        for record in list(self._groups):
            if record.is_over:
                continue
            for pod in record.pods:
                if pod.is_occupied:
                    self._tick_pod(record.key, pod, now)

    def _tick_pod(self, key: str, pod: PodRecord, now: int) -> None:
        record = self._groups.find(key)
        if record is None or record.pods[pod.rank] != pod:
            return
        if pod.gone_at is not None:
            if now - pod.gone_at >= self._move_wait_ms:
                self._end(record, pod.rank, reason="process_gone")
        elif spec.is_leaving(pod) and self._nobody_runs(record, pod):
            self._end(record, pod.rank, reason=life.STOPPED)
        elif pod.state is PodState.BINDING and is_watched_here(record):
            self._hold(record)  # granted as the service before this one ended
        elif self._is_unclaimed(pod, now):
            ending = Ending(how="cancelled", at=now, text=NO_RUNNER)
            self._groups.put(life.stopping(record, ending, line="Withdrawn: nobody took it"))
        elif pod.state is PodState.RUNNING and is_alone(record):
            self._process_ended(record, pod.rank)
        else:
            self._tick_runner(record, pod, now)

    def _is_unclaimed(self, pod: PodRecord, now: int) -> bool:
        """Whether a granted pod waits in vain for a runner of its owner, where the service starts none."""
        if self.unclaimed_s is None or pod.runner is not None or pod.state is not PodState.BINDING:
            return False
        return now - max(pod.bound_at or 0, self._began_at) >= 1000 * self.unclaimed_s

    def _tick_runner(self, record: GroupRecord, pod: PodRecord, now: int) -> None:
        """Give up a pod whose runner is silent and whose process is gone."""
        seen = max(self._seen.get(pod.incarnation or "", 0), self._began_at)
        if pod.runner is None or now - seen < self._lost_after_ms:
            return
        if pod.pid is not None and start_ticks(pod.pid) == pod.start_ticks:
            return
        if pod.state is PodState.BINDING:
            self._groups.put(life.unclaimed(record, pod.rank))
        else:
            self._end(record, pod.rank, reason="runner_lost")

    def _process_ended(self, record: GroupRecord, rank: int) -> None:
        """Book what we saw ourselves: the process that held a lease is gone, whatever became of its runner."""
        if self._may_return(record, rank):
            self._groups.put(life.process_gone(record, rank, self._clock()))
        else:
            self._end(record, rank, reason="process_gone")

    def close(self) -> None:
        """Answer every waiting runner: let go of the service, leave the pods alone."""
        self._is_closing = True
        self._wake()

    # -- inside --------------------------------------------------------------------------------
    def _meet(self, user: str, name: str) -> _Runner:
        now = self._clock()
        runner = self._runners.get(name)
        if runner is None or runner.user != user:
            runner = self._runners[name] = _Runner(user, now)
        runner.seen_at = now
        return runner

    def _of(self, user: str) -> Iterator[GroupRecord]:
        mine = [record for record in self._groups if record.owner == user and not record.is_over]
        return iter(sorted(mine, key=lambda record: record.order))

    def _end(self, record: GroupRecord, rank: int, *, reason: str) -> None:
        now = self._clock()
        incarnation = record.pods[rank].incarnation or ""
        report = Report(
            incarnation=incarnation,
            kind="ended",
            at=now,
            exit_code=None if reason else 0,
            reason_code=reason or None,
        )
        self._groups.put(life.ended(record, rank, report, now))

    def _changed(self, before: GroupRecord | None, after: GroupRecord | None) -> None:
        if after is not None and not after.is_over:
            for pod in after.pods:
                if spec.is_leaving(pod) and self._nobody_runs(after, pod):
                    self._end(after, pod.rank, reason=life.STOPPED)
                    break
        if after is not None and is_watched_here(after):
            self._hold(after)
        for pod in before.pods if before else ():
            if after is None or after.pods[pod.rank].incarnation != pod.incarnation:
                self._forget(pod.incarnation or "")
        self._wake()

    def _hold(self, record: GroupRecord) -> None:
        """Book that the process of a granted server holds it: no runner is needed to see that it lives."""
        process, pod = record.process, record.pods[0]
        if process is None or pod.state is not PodState.BINDING or record.is_over:
            return
        now = self._clock()
        report = Report(
            incarnation=pod.incarnation or "",
            kind="started",
            at=now,
            pid=process.pid,
            start_ticks=process.start_ticks,
        )
        self._groups.put(life.started(record, 0, report, now))

    def _nobody_runs(self, record: GroupRecord, pod: PodRecord) -> bool:
        """Whether a leaving pod's place can be freed at once: never claimed, or no process can hold its devices."""
        if pod.runner is None:
            return not (is_watched_here(record) and self._may_save(record))
        devices = self._cluster.devices
        is_simulated = all(
            (device := devices.get(share.device)) is not None and device.simulated
            for share in pod.devices
        )
        return record.is_external and is_simulated and not self._may_save(record)

    def _forget(self, incarnation: str) -> None:
        self._seen.pop(incarnation, None)
        self.progress.pop(incarnation, None)
        for runner in self._runners.values():
            runner.told_to_stop.pop(incarnation, None)

    def _wake(self) -> None:
        self._pulse.set()
        self._pulse = asyncio.Event()


def is_watched_here(record: GroupRecord) -> bool:
    """Whether we watch the process ourselves: a hub's server, whose person may have no runner before it runs."""
    return record.is_external and record.ask.kind == "server"


def is_alone(record: GroupRecord) -> bool:
    """Whether the process that holds a lease on this machine has ended."""
    process = record.process
    return process is not None and start_ticks(process.pid) != process.start_ticks


def _is_startable(pod: PodRecord, runner: str, holding: set[str]) -> bool:
    """Whether a granted pod is nobody's yet, or this runner's that it does not hold (its answer may have been lost)."""
    if pod.state is not PodState.BINDING or pod.incarnation in holding:
        return False
    return pod.runner is None or pod.runner == runner
