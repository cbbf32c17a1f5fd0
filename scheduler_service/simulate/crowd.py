"""The demo's other people at work: they ask as people do, and their pods start and end by the clock alone.

They use the service's own door, like everybody: queue, places, evictions and words are real, only no process of theirs
runs. Nothing of the visitor's is touched: each of them is a runner for their own name.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from scheduler_service.errors import RequestError
from scheduler_service.ports import Caller, SchedulerPort
from scheduler_service.simulate.busy import Habit, Turn, people, turns
from scheduler_service.wire.pod_group import TERMINAL_STATES, Cancel
from scheduler_service.wire.runner import (
    Beat,
    ClaimRequest,
    LogChunk,
    LogLine,
    PodBeat,
    Report,
    StartOrder,
)

log = logging.getLogger("kai.demo")
LOOK_S = 0.5
STARTS_IN_S = 1.0
TRY_AGAIN_S = 10.0
LINE = "This is a demo: nothing runs here."


def wall_clock_s() -> float:
    """Return seconds since the epoch."""
    return time.time()


@dataclass(slots=True)
class _Pod:
    order: StartOrder
    starts_at: float
    ends_at: float
    is_started: bool = False


@dataclass(slots=True)
class _Member:
    """One of them: what comes next, when, and the pods of theirs that have a place."""

    caller: Caller
    turns: Iterator[Turn]
    next: Turn
    due_at: float
    group: str | None = None
    run_s: float = 0.0
    pods: dict[str, _Pod] = field(default_factory=dict)

    @property
    def runner(self) -> str:
        return f"{self.caller.user}@demo"


class Crowd:
    """Lives beside the service. `scale`: so many of their minutes pass in one of the visitor's."""

    def __init__(
        self,
        port: SchedulerPort,
        *,
        scale: float,
        visitor: str | None = None,
        clock_s: Callable[[], float] = wall_clock_s,
    ) -> None:
        self._port = port
        self._clock_s = clock_s
        self._members = [
            self._member(habit, scale) for habit in people(visitor or getpass.getuser())
        ]

    @property
    def names(self) -> frozenset[str]:
        """Who is made up."""
        return frozenset(member.caller.user for member in self._members)

    def _member(self, habit: Habit, scale: float) -> _Member:
        script = turns(habit, scale=scale)
        first = next(script)
        return _Member(Caller(habit.user), script, first, self._clock_s() + first.pause_s)

    async def run(self, stop: asyncio.Event) -> None:
        """Live until `stop`. What they did in an earlier life of the service is ended first."""
        for member in self._members:
            await self._end_earlier(member)
        while not stop.is_set():
            try:
                await self.step()
            except RequestError as error:  # the visitor may have changed the queues
                log.info("the demo's people were refused: %s", error)
            try:
                await asyncio.wait_for(stop.wait(), LOOK_S)
            except TimeoutError:
                continue

    async def step(self) -> None:
        """Do what is due now."""
        for member in self._members:
            await self._ask(member)
            await self._take_places(member)
            await self._live(member)
            await self._obey(member)

    async def _end_earlier(self, member: _Member) -> None:
        listed = await self._port.groups(member.caller, queue=None, state=None, mine=True)
        for group in listed.items:
            if group.state not in TERMINAL_STATES:
                await self._port.cancel(
                    member.caller, group.namespace, group.name, Cancel(grace_s=0)
                )
        await self._obey(member)

    async def _ask(self, member: _Member) -> None:
        now = self._clock_s()
        if member.group is not None and await self._is_over(member, member.group):
            member.group = None
            member.next = next(member.turns)
            member.due_at = now + member.next.pause_s
        if member.group is not None or now < member.due_at:
            return
        member.due_at = now + TRY_AGAIN_S  # where it is refused
        view, _ = await self._port.submit(member.caller, member.next.ask, idempotency_key=None)
        member.group, member.run_s = view.name, member.next.run_s

    async def _is_over(self, member: _Member, name: str) -> bool:
        try:
            view = await self._port.group(member.caller, member.caller.user, name)
        except RequestError:  # it was forgotten
            return True
        return view.state in TERMINAL_STATES

    async def _take_places(self, member: _Member) -> None:
        claim = ClaimRequest(runner=member.runner, host="demo")
        answer = await self._port.claim(member.caller, claim)
        now = self._clock_s()
        for order in answer.starts:
            begins = now + STARTS_IN_S
            pod = _Pod(order, begins, begins + member.run_s)
            member.pods.setdefault(order.incarnation, pod)

    async def _live(self, member: _Member) -> None:
        now = self._clock_s()
        for pod in list(member.pods.values()):
            if not pod.is_started and now >= pod.starts_at:
                pod.is_started = True
                await self._report(member, pod.order.incarnation, kind="started")
                line = LogLine(seq=0, at=_ms(now), rank=pod.order.rank, stream="stdout", text=LINE)
                await self._port.append_logs(pod.order.incarnation, LogChunk(lines=(line,)))
            elif pod.is_started and now >= pod.ends_at:
                await self._report(member, pod.order.incarnation, kind="ended")
        beats = tuple(PodBeat(incarnation=name, holds_device=False) for name in member.pods)
        await self._port.beat(member.caller, Beat(runner=member.runner, pods=beats))

    async def _obey(self, member: _Member) -> None:
        orders = await self._port.orders(member.caller, runner_name=member.runner, wait_s=0)
        for order in orders.stops:
            await self._report(member, order.incarnation, kind="stopped")

    async def _report(self, member: _Member, incarnation: str, *, kind: str) -> None:
        if kind != "started":
            member.pods.pop(incarnation, None)
        report = Report(
            incarnation=incarnation,
            kind="started" if kind == "started" else "ended",
            at=_ms(self._clock_s()),
            exit_code=0 if kind == "ended" else None,
            signal="SIGTERM" if kind == "stopped" else None,
        )
        await self._port.report(member.caller, report)


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
