"""A `SchedulerPort` in memory: one leaf queue, two simulated GPUs, first come first served.

It keeps the port's contract (who may see what, keys, cursors, revisions, long polls), not the planner's wisdom.
For tests of the API and of its clients where the service itself is not the subject.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace

from scheduler_service.ports import (
    Caller,
    ForecastAsk,
    LogAsk,
    NotAllowed,
    NotFound,
    RefusedRequest,
)
from scheduler_service.service.no_companions import NoCompanions
from scheduler_service.wire import cluster, events, explain, pod_group, runner
from scheduler_service.wire.pod_group import TERMINAL_STATES
from scheduler_service.wire.team import ChangeView
from scheduler_service.words.notes import key_taken
from tests.fakes.desk import Book, FakeDesk, problem
from tests.fakes.lead import FakeLead

CAPACITY_MILLI = 2000
QUEUE = "default"


class FakeScheduler(NoCompanions, FakeDesk, FakeLead):
    """See the module. `now` stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        self.rev = 0
        self.books: dict[tuple[str, str], Book] = {}
        self.keys: dict[tuple[str, str], tuple[str, str]] = {}
        self.history: list[events.StreamEvent] = []
        self.history_limit = 50
        self.payloads: dict[str, bytes] = {}
        self.changes_made: dict[int, ChangeView] = {}
        self.beats: list[runner.Beat] = []
        self.polled: list[str] = []
        self._changed = asyncio.Condition()
        self._numbers = itertools.count(1)

    # -- asking ------------------------------------------------------------------------------------------------------
    async def submit(
        self, caller: Caller, ask: pod_group.Submit, *, idempotency_key: str | None
    ) -> tuple[pod_group.PodGroupView, bool]:
        known = self.keys.get((caller.user, idempotency_key)) if idempotency_key else None
        if known is not None:
            book = self.books[known]
            view = self._seen_by(caller, book.view)
            is_same = replace(ask, process=None) == replace(book.ask, process=None)
            notes = view.notes if is_same else (*view.notes, key_taken(view.name))
            return replace(view, notes=notes), False
        milli = _milli(ask)
        name = ask.name or f"{ask.kind}-{next(self._numbers)}"
        view = self._new_view(caller, ask, name)
        self.books[(caller.user, name)] = Book(view, ask, milli)
        if idempotency_key:
            self.keys[(caller.user, idempotency_key)] = (caller.user, name)
        await self._replan({(caller.user, name)})
        return self.books[(caller.user, name)].view, True

    def _new_view(self, caller: Caller, ask: pod_group.Submit, name: str) -> pod_group.PodGroupView:
        pods = tuple(
            pod_group.PodView(name=f"{name}-{rank}", rank=rank, state="Pending")
            for rank in range(ask.workers)
        )
        return pod_group.PodGroupView(
            namespace=caller.user,
            name=name,
            owner=caller.user,
            mine=True,
            kind=ask.kind,
            queue=ask.queue or QUEUE,
            request=pod_group.RequestView(text=f"{ask.gpu or 0} GPU", fraction_milli=_milli(ask)),
            workers=ask.workers,
            min_members=ask.min_members or ask.workers,
            priority=100,
            preemptible=False,
            state="Waiting",
            word="Waiting",
            tone="wait",
            icon="hourglass",
            headline="Waiting",
            detail="",
            sentence="Waiting.",
            rev=0,
            created_at=self.now,
            origin=ask.origin,
            pods=pods,
            simulated=True,
            notes=("simulated",),
        )

    async def groups(
        self, caller: Caller, *, queue: str | None, state: str | None, mine: bool
    ) -> pod_group.PodGroupList:
        items = tuple(
            self._seen_by(caller, book.view)
            for book in reversed(self.books.values())
            if self._may_see(caller, book.view.namespace)
            and queue in (None, book.view.queue)
            and state in (None, book.view.state)
            and (not mine or book.view.owner == caller.user)
        )
        return pod_group.PodGroupList(rev=self.rev, items=items)

    async def group(self, caller: Caller, namespace: str, name: str) -> pod_group.PodGroupView:
        return self._seen_by(caller, self._book(caller, namespace, name).view)

    async def extend(
        self, caller: Caller, namespace: str, name: str, ask: pod_group.Extend
    ) -> pod_group.PodGroupView:
        book = self._book(caller, namespace, name)
        expires = None if ask.by_s is None else (book.view.expires_at or self.now) + ask.by_s * 1000
        book.view = replace(book.view, expires_at=expires)
        await self._publish({(namespace, name)})
        return self._seen_by(caller, book.view)

    async def cancel(
        self, caller: Caller, namespace: str, name: str, _ask: pod_group.Cancel
    ) -> pod_group.PodGroupView:
        self._book(caller, namespace, name)
        await self._end((namespace, name), "Cancelled")
        return await self.group(caller, namespace, name)

    async def move(
        self, caller: Caller, namespace: str, name: str, ask: pod_group.Move
    ) -> pod_group.PodGroupView:
        book = self._book(caller, namespace, name)
        book.ask = replace(book.ask, process=ask.process)
        await self._publish({(namespace, name)})
        return self._seen_by(caller, book.view)

    # -- looking -----------------------------------------------------------------------------------------------------
    async def logs(self, caller: Caller, namespace: str, name: str, ask: LogAsk) -> runner.LogPage:
        book = self._book(caller, namespace, name)

        def something() -> bool:
            return len(book.lines) > ask.after or book.view.state in TERMINAL_STATES

        if ask.wait_s:
            await self._wait(something, ask.wait_s)
        lines = book.lines[ask.after :]
        if ask.rank is not None:
            lines = [line for line in lines if line.rank == ask.rank]
        if ask.tail is not None:
            lines = lines[-ask.tail :]
        return runner.LogPage(
            lines=tuple(lines),
            next=max(ask.after, len(book.lines)),
            ended=book.view.state in TERMINAL_STATES,
        )

    async def explain(self, caller: Caller, namespace: str, name: str) -> explain.ExplainView:
        view = self._book(caller, namespace, name).view
        return explain.ExplainView(
            namespace=namespace,
            name=name,
            headline=view.headline,
            position=view.position,
            waiting_in_queue=view.waiting_in_queue,
            overall=view.overall,
            eta=view.eta,
            reasons=(),
            items=(),
            would_help=(),
        )

    async def forecast(self, _caller: Caller, ask: ForecastAsk) -> explain.ForecastView:
        request = pod_group.RequestView(text=f"{ask.gpu or 0} GPU")
        return explain.ForecastView(
            verdict="now", text="now", queue=QUEUE, request=request, workers=ask.workers
        )

    async def queues(self, _caller: Caller) -> tuple[cluster.QueueView, ...]:
        held = self._held()
        return (
            cluster.QueueView(
                name=QUEUE,
                parent=None,
                depth=0,
                is_leaf=True,
                priority=100,
                quota=cluster.Amounts(milli_gpu=CAPACITY_MILLI),
                limit=cluster.Amounts(milli_gpu=None, milli_cpu=None, memory_bytes=None),
                over_quota_weight=1,
                fair_share=cluster.Amounts(milli_gpu=CAPACITY_MILLI),
                allocated=cluster.Amounts(milli_gpu=held),
                requested=cluster.Amounts(milli_gpu=held),
                waiting=self._count("Waiting"),
                running=self._count("Running"),
                may_submit=True,
                shows_names=False,
                sentence=f"{held / 1000:g} of 2 GPUs held.",
            ),
        )

    async def nodes(self, _caller: Caller) -> tuple[cluster.NodeView, ...]:
        return (
            cluster.NodeView(
                name="this-machine",
                simulated=True,
                milli_cpu=2000,
                memory_bytes=1 << 32,
                max_pods=110,
                milli_gpu=CAPACITY_MILLI,
                allocated_milli_gpu=self._held(),
            ),
        )

    async def cycles(self, _caller: Caller, *, last: int) -> tuple[cluster.CycleView, ...]:
        number = min(last, self.rev)
        return tuple(
            cluster.CycleView(
                number=self.rev - n,
                at=self.now,
                duration_us=1,
                bound=0,
                pipelined=0,
                evicted=0,
                waiting=0,
            )
            for n in range(number)
        )

    async def snapshot(self, caller: Caller, *, cycle: int | None = None) -> dict[str, object]:
        if not caller.is_admin:
            raise NotAllowed(problem(403, "forbidden", "Only an admin may.", "Ask one."))
        return {"version": 1, "now": self.now, "nodes": {}, "queues": {}}

    async def events(
        self, caller: Caller, *, since: int | None
    ) -> AsyncIterator[events.StreamEvent]:
        last = since
        if last is None or not self._in_window(last):
            listed = await self.groups(caller, queue=None, state=None, mine=False)
            last = self.rev
            yield events.StreamEvent(
                kind="snapshot",
                rev=self.rev,
                now=self.now,
                groups=listed.items,
                queues=await self.queues(caller),
                nodes=await self.nodes(caller),
            )
        while True:
            for event in [event for event in self.history if event.rev > last]:
                last = event.rev
                seen = tuple(g for g in event.groups if self._may_see(caller, g.namespace))
                if seen or event.removed:
                    yield replace(event, groups=tuple(self._seen_by(caller, g) for g in seen))
            async with self._changed:
                await self._changed.wait_for(lambda rev=last: self.rev > rev)

    def _in_window(self, since: int) -> bool:
        oldest = self.history[0].rev if self.history else self.rev + 1
        return oldest - 1 <= since <= self.rev

    async def health(self) -> cluster.Health:
        return cluster.Health(
            ok=True,
            ready=True,
            version="0",
            backend="fake",
            simulated=True,
            rev=self.rev,
            devices_text="2 simulated GPUs",
        )

    def metrics_text(self) -> bytes:
        return b"# HELP kai_groups Groups.\n# TYPE kai_groups gauge\nkai_groups %d\n" % len(
            self.books
        )

    # -- inside ------------------------------------------------------------------------------------------------------
    def _may_see(self, caller: Caller, namespace: str) -> bool:
        return caller.is_admin or caller.user == namespace

    def _seen_by(self, caller: Caller, view: pod_group.PodGroupView) -> pod_group.PodGroupView:
        return replace(view, mine=view.owner == caller.user)

    def _book(self, caller: Caller, namespace: str, name: str) -> Book:
        book = self.books.get((namespace, name))
        if book is None or not self._may_see(caller, namespace):
            title = f"There is no request '{namespace}/{name}'."
            raise NotFound(problem(404, "unknown_group", title, "'kai status' lists yours."))
        return book

    def _key_of(self, incarnation: str) -> tuple[str, str] | None:
        pods = ((key, pod) for key, book in self.books.items() for pod in book.view.pods)
        return next((key for key, pod in pods if pod.incarnation == incarnation), None)

    def _held(self) -> int:
        live = ("Starting", "Running", "Stopping")
        return sum(book.milli for book in self.books.values() if book.view.state in live)

    def _count(self, state: str) -> int:
        return sum(book.view.state == state for book in self.books.values())

    async def _end(self, key: tuple[str, str], state: pod_group.GroupState) -> None:
        if self.books[key].view.state not in TERMINAL_STATES:
            await self._set_state(key, state)
            await self._replan(set())

    async def _set_state(self, key: tuple[str, str], state: pod_group.GroupState) -> None:
        book = self.books[key]
        ended = self.now if state in TERMINAL_STATES else None
        book.view = replace(
            book.view,
            state=state,
            word=state,
            headline=state,
            sentence=f"{state}.",
            position=None,
            ended_at=ended,
        )
        await self._publish({key})

    async def _replan(self, changed: set[tuple[str, str]]) -> None:
        waiting = 0
        for key, book in self.books.items():
            if book.view.state != "Waiting":
                continue
            if waiting == 0 and self._held() + book.milli <= CAPACITY_MILLI:
                self._grant(book)
            else:
                waiting += 1
                book.view = replace(book.view, position=waiting, waiting_in_queue=waiting)
            changed = changed | {key}
        await self._publish(changed)

    def _grant(self, book: Book) -> None:
        state = "Running" if book.ask.work is None else "Starting"
        pods = tuple(
            replace(
                pod,
                state="Running" if book.ask.work is None else "Binding",
                incarnation=f"{book.view.namespace}-{book.view.name}-{pod.rank}-1",
                node="this-machine",
            )
            for pod in book.view.pods
        )
        book.view = replace(
            book.view, state=state, word="Granted", granted_at=self.now, position=None, pods=pods
        )

    async def _publish(self, changed: set[tuple[str, str]]) -> None:
        async with self._changed:
            self.rev += 1
            for key in changed:
                self.books[key].view = replace(self.books[key].view, rev=self.rev)
            event = events.StreamEvent(
                kind="update",
                rev=self.rev,
                now=self.now,
                groups=tuple(self.books[key].view for key in sorted(changed)),
            )
            self.history = [*self.history, event][-self.history_limit :]
            self._changed.notify_all()

    async def _wait(self, predicate: object, wait_s: float) -> None:
        async def until() -> None:
            async with self._changed:
                await self._changed.wait_for(predicate)

        try:
            await asyncio.wait_for(until(), wait_s)
        except TimeoutError:
            return


def _milli(ask: pod_group.Submit) -> int:
    try:
        milli = round(float(ask.gpu or 0) * 1000) * ask.workers
    except ValueError:
        milli = -1
    if not 0 <= milli <= CAPACITY_MILLI:
        title = f"'{ask.gpu}' is not an amount of GPU that this fake has."
        raise RefusedRequest(problem(422, "bad_gpu_amount", title, "Ask for up to 2."))
    return milli
