"""The loop: what it does with refused statements, faults and what is no event."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from scheduler_service.ledger import apply, events
from scheduler_service.ledger.store import Ledger
from scheduler_service.loop import Cycle, Loop
from scheduler_service.model.gpu import WholeGpus
from scheduler_service.model.node import GpuDevice, Node
from scheduler_service.model.plan import Plan, Statement
from scheduler_service.model.pod import Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.reasons import Refused as RefusedReason
from scheduler_service.planning.cycle import plan
from scheduler_service.ports import Accepted, Refused
from tests.fakes.machine import ManualClock

NODE = Node("node-0", gpus=1, milli_cpu=8000, devices=(GpuDevice("G0", 0),))


class RefusingBackend:
    """Keeps `ports.Backend`; declines every statement of the groups in `declines`."""

    name = "refusing"

    def __init__(self, *declines: str) -> None:
        self.declines = set(declines)
        self.happened: list[object] = [events.NodeAdded(NODE)]
        self.asked: list[str] = []
        self.seen = asyncio.Event()

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def observed(self) -> Sequence[object]:
        taken, self.happened = self.happened, []
        return taken

    async def wait_observed(self, timeout_s: float) -> bool:
        await self.seen.wait()
        self.seen.clear()
        return True

    async def apply(self, statement: Statement, now: int) -> Accepted | Refused:
        self.asked.append(statement.group)
        if statement.group in self.declines:
            return Refused(RefusedReason("The device is gone."))
        return Accepted()


def group(name: str, created: int) -> tuple[events.Event, events.Event]:
    key = f"n/{name}"
    return (
        events.PodGroupAdded(PodGroup(name=name, namespace="n", queue="q", created=created)),
        events.PodAdded(Pod(f"{name}-0", "n", key, request=PodRequest(gpu=WholeGpus(1)))),
    )


def loop_over(backend: RefusingBackend, clock: ManualClock, *, planner=plan) -> Loop:
    loop = Loop(
        backend,
        planner=planner,
        policy=Policy.default(),
        clock=clock,
        stopwatch_us=lambda: 0,
        on_cycle=lambda _cycle: None,
    )
    loop.offer(events.QueueAdded(Queue("q")), *group("a", 1), *group("b", 2))
    return loop


def test_a_group_that_is_always_refused_never_holds_up_the_next() -> None:
    """One device, two groups; the first one's start fails again and again."""

    async def story() -> None:
        clock = ManualClock()
        backend = RefusingBackend("n/a")
        loop = loop_over(backend, clock)
        first = await loop.turn()
        assert [(s.group, str(reason)) for s, reason in first.refused] == [
            ("n/a", "The device is gone.")
        ]
        second = await loop.turn()
        assert [statement.group for statement in second.accepted] == ["n/b"]
        assert loop.ledger.pods.row_of["n/b-0"] is not None
        third = await loop.turn()
        assert third.accepted == ()
        assert backend.asked == ["n/a", "n/b"]

    asyncio.run(story())


def test_tries_grow_apart_and_a_success_forgets_them() -> None:
    async def story() -> None:
        clock = ManualClock()
        backend = RefusingBackend("n/a", "n/b")
        loop = loop_over(backend, clock)
        gaps: list[int] = []
        for _ in range(4):
            await loop.turn()
            back_off = loop.ledger.back_offs["n/a"]
            gaps.append(back_off.until_ms - clock())
            clock.now = back_off.until_ms
        assert gaps == [5_000, 10_000, 20_000, 40_000]
        backend.declines.clear()
        await loop.turn()
        assert "n/a" not in loop.ledger.back_offs

    asyncio.run(story())


def test_an_undone_statement_leaves_the_ledger_as_it_was() -> None:
    async def story() -> None:
        clock = ManualClock()
        loop = loop_over(RefusingBackend("n/a", "n/b"), clock)
        await loop.turn()
        states = {pod.key: pod.state for pod in loop.ledger.snapshot(0).pods}
        assert set(states.values()) == {PodState.PENDING}

    asyncio.run(story())


def test_a_fault_of_the_planner_costs_one_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_service.loop.AFTER_FAULT_S", 0.0)

    async def story() -> list[Cycle]:
        clock = ManualClock()
        calls = 0
        called = asyncio.Event()

        def planner(ledger: Ledger, policy: Policy, now: int) -> Plan:
            nonlocal calls
            calls += 1
            called.set()
            if calls == 1:
                raise IndexError("a fault of ours")
            return plan(ledger, policy, now)

        backend = RefusingBackend()
        loop = loop_over(backend, clock, planner=planner)
        done: list[Cycle] = []
        turned = asyncio.Event()
        loop._on_cycle = lambda cycle: (done.append(cycle), turned.set())[0]
        running = asyncio.create_task(loop.run())
        await asyncio.wait_for(called.wait(), timeout=60)
        backend.seen.set()
        await asyncio.wait_for(turned.wait(), timeout=60)
        running.cancel()
        return done

    (cycle,) = asyncio.run(story())[:1]
    assert [statement.group for statement in cycle.accepted] == ["n/a"]


@pytest.mark.parametrize("bad", ["hello", events.NodeAdded("no node")])
def test_what_can_not_be_entered_is_told_and_costs_nothing_else(
    bad: object, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of the backend, or of ours: what came with it is still taken."""

    async def story() -> tuple[Loop, Cycle]:
        backend = RefusingBackend()
        backend.happened.insert(0, bad)
        loop = loop_over(backend, ManualClock())
        return loop, await loop.turn()

    loop, cycle = asyncio.run(story())
    assert [statement.group for statement in cycle.accepted] == ["n/a"]
    assert type(bad).__name__ in loop.note
    assert "could not be entered" in caplog.text


def test_an_event_that_fails_half_way_leaves_no_wrong_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def half(ledger: Ledger, event: events.Event) -> None:
        ledger.leave(ledger.pods.row_of["n/a-0"])
        raise IndexError("a fault of ours")

    monkeypatch.setitem(apply._HANDLERS, events.HoldEnded, half)

    async def story() -> Cycle:
        loop = loop_over(RefusingBackend(), ManualClock())
        loop.offer(events.HoldEnded("n/a-0"))
        return await loop.turn()

    assert [statement.group for statement in asyncio.run(story()).accepted] == ["n/a"]


def test_a_preemption_delay_ends_by_itself_and_begins_anew_with_an_eviction() -> None:
    """Nothing else happens: the loop wakes when the delay is over, and notes whom it told to go."""

    async def story() -> tuple[int | None, int | None]:
        clock = ManualClock()
        backend = RefusingBackend()
        loop = loop_over(backend, clock)
        low, high = group("low", 1), group("high", 2)
        delay = {"preemption_delay_ms": 5_000, "made_ms": clock()}
        loop.ledger.apply_all(backend.observed())
        loop.offer(*(replaced(event, **delay) for event in low))
        await loop.turn()
        loop.ledger.apply(events.PodStateChanged("n/low-0", PodState.RUNNING, "node-0"))
        loop.offer(*(replaced(event, priority=60, **delay) for event in high))
        await loop.turn()
        wakes = loop._wake_at
        clock.pass_s(5)
        await loop.turn()
        return wakes, loop.ledger.groups["n/low"].model.last_evicted_ms

    wakes, evicted = asyncio.run(story())
    assert wakes is not None
    assert evicted == wakes


def replaced(event: events.Event, **fields: object) -> events.Event:
    """Return the event with other fields of its group, if it has one."""
    if isinstance(event, events.PodGroupAdded):
        return events.PodGroupAdded(msgspec.structs.replace(event.group, **fields))
    return event
