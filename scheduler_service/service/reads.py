"""What can be asked without changing anything: groups, logs, queues, nodes, cycles, health, the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

from scheduler_service.ports import ADMIN, Caller, LogAsk
from scheduler_service.service import access, cluster_view, metrics
from scheduler_service.service.changes import NODES, QUEUES, Since
from scheduler_service.service.core import Core
from scheduler_service.service.refusals import not_found, refusal
from scheduler_service.simulate import capture
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.cluster import CycleView, Health, NodeView, QueueView
from scheduler_service.wire.events import StreamEvent
from scheduler_service.wire.pod_group import GroupState, PodGroupList, PodGroupView
from scheduler_service.wire.runner import LogPage
from scheduler_service.words.group import state_of

LONGEST_WAIT_S = 30.0
STREAM_PAUSE_S = 0.1
"""Changes that come closer together travel as one message."""
STREAM_WAIT_S = 3600.0
MOST_CYCLES = 500


class Reads(Core):
    """The looking side of the service's door."""

    async def _seen_groups(self, caller: Caller) -> list[GroupRecord]:
        """Return the records that the caller may see, newest first."""
        access.require_read(caller)
        seen = [record for record in self.records if access.sees(caller, record)]
        return sorted(seen, key=lambda record: -record.order)

    def _view_for(self, caller: Caller, record: GroupRecord) -> PodGroupView:
        return self.view(record, is_mine=record.owner == caller.user)

    async def group(self, caller: Caller, namespace: str, name: str) -> PodGroupView:
        """Return one group; unknown or not the caller's to see: `NotFound`, alike."""
        return self._view_for(caller, self.seen(caller, namespace, name))

    def seen(self, caller: Caller, namespace: str, name: str) -> GroupRecord:
        """Return a group that the caller may see."""
        access.require_read(caller)
        record = self.records.find(f"{namespace}/{name}")
        if record is None or not access.sees(caller, record):
            raise not_found(namespace, name)
        return record

    async def logs(self, caller: Caller, namespace: str, name: str, ask: LogAsk) -> LogPage:
        """Return log lines, waiting up to `wait_s` for the first new one."""
        record = self.seen(caller, namespace, name)
        loop = asyncio.get_running_loop()
        until = loop.time() + min(max(0.0, ask.wait_s), LONGEST_WAIT_S)
        while True:
            now = self.records.find(record.key)
            page = self.log_store.page(
                record.key,
                rank=ask.rank,
                after=ask.after,
                tail=ask.tail,
                ended=now is None or now.is_over,
            )
            left = until - loop.time()
            if page.lines or page.ended or left <= 0:
                return page
            await self.log_store.wait_for_more(left)

    async def queues(self, caller: Caller) -> tuple[QueueView, ...]:
        """Return the tree of queues, parents before children."""
        access.require_read(caller)
        return cluster_view.queue_views(self._picture(caller))

    async def nodes(self, caller: Caller) -> tuple[NodeView, ...]:
        """Return the nodes with who holds what."""
        access.require_read(caller)
        return (cluster_view.node_view(self.cluster.node, self._picture(caller)),)

    def _picture(self, caller: Caller) -> cluster_view.Picture:
        return cluster_view.Picture(
            caller=caller,
            config=self.queue_source.config,
            records=[record for record in self.records if not record.is_over],
            overview=self.overview,
            node=self.cluster.node,
            usage=self.usage.by_device,
        )

    async def cycles(self, caller: Caller, *, last: int) -> tuple[CycleView, ...]:
        """Return the last cycles, newest first; their lines name others, so they are for admins."""
        access.require_read(caller)
        found = self.history.last(min(last, MOST_CYCLES))
        if caller.is_admin:
            return found
        return tuple(replace(cycle, lines=()) for cycle in found)

    async def snapshot(self, caller: Caller, *, cycle: int | None = None) -> dict[str, object]:
        """Return the ledger, or one of the last cycles with its decision, as a file's content (admin only)."""
        access.require(caller, ADMIN)
        if cycle is not None:
            return self.captures.content(cycle)
        return capture.snapshot_file(self.loop.ledger.snapshot(self.clock()), self.loop.policy)

    async def health(self) -> Health:
        """Return whether the service lives and is ready, and what must be told."""
        notes = [*self.recovery.notes(), *self.notes, *self.cluster.machine.notes]
        notes += [
            note for note in (self.queue_source.note, self.log_store.fault, self.loop.note) if note
        ]
        notes += self.faults.values()
        return Health(
            ok=True,
            ready=self.overview.plan is not None,
            version=self.version,
            backend=self.cluster.name,
            simulated=self.is_simulated,
            rev=self.changes.rev,
            devices_text=cluster_view.devices_text(self.cluster.node),
            notes=tuple(notes),
        )

    def metrics_text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return metrics.text(self)

    async def result(
        self, caller: Caller, namespace: str, name: str, *, rank: int
    ) -> tuple[Path, str]:
        """Return the file of a result and its signature."""
        record = self.seen(caller, namespace, name)
        pod = next((pod for pod in record.pods if pod.rank == rank), None)
        path = None
        if pod is not None and pod.incarnation is not None and pod.result_signature is not None:
            path = await self.files.result(pod.incarnation)
        if pod is None or path is None or pod.result_signature is None:
            raise refusal(
                "no_result",
                f"Worker {rank} of {name} left no result.",
                "It has one when it has finished and was asked for values (--out).",
            )
        return path, pod.result_signature

    async def groups(
        self, caller: Caller, *, queue: str | None, state: str | None, mine: bool
    ) -> PodGroupList:
        """Return the groups the caller may see, newest first."""
        if state is not None and state not in get_args(GroupState):
            raise refusal(
                "bad_filter",
                f"There is no state {state}.",
                f"States are: {', '.join(get_args(GroupState))}.",
            )
        found = [
            record
            for record in await self._seen_groups(caller)
            if (queue is None or record.queue == queue)
            and (state is None or state_of(record) == state)
            and (not mine or record.owner == caller.user)
        ]
        return PodGroupList(
            rev=self.changes.rev, items=tuple(self._view_for(caller, record) for record in found)
        )

    async def events(self, caller: Caller, *, since: int | None) -> AsyncIterator[StreamEvent]:
        """Yield a snapshot (or, if `since` is still known, the updates after it), then updates as they come."""
        access.require_read(caller)
        rev = since
        if rev is None or self.changes.since(rev) is None:
            rev = self.changes.rev
            yield await self._whole(caller, rev)
        while not self.is_stopping:
            if not await self.changes.wait_after(rev, STREAM_WAIT_S):
                continue
            news = self.changes.since(rev)
            rev = self.changes.rev
            message = await (
                self._whole(caller, rev) if news is None else self._update(caller, rev, news)
            )
            if message is not None:
                yield message
            await asyncio.sleep(STREAM_PAUSE_S)

    async def _whole(self, caller: Caller, rev: int) -> StreamEvent:
        records = await self._seen_groups(caller)
        return StreamEvent(
            kind="snapshot",
            rev=rev,
            now=self.clock(),
            groups=tuple(self._view_for(caller, record) for record in records),
            queues=await self.queues(caller),
            nodes=await self.nodes(caller),
        )

    async def _update(self, caller: Caller, rev: int, news: Since) -> StreamEvent | None:
        found = {key: self.records.find(key) for key in news.groups}
        seen = [r for r in found.values() if r is not None and access.sees(caller, r)]
        message = StreamEvent(
            kind="update",
            rev=rev,
            now=self.clock(),
            groups=tuple(self._view_for(caller, record) for record in seen),
            removed=tuple(k for k, r in found.items() if r is None and self._may_know(caller, k)),
            queues=await self.queues(caller) if QUEUES in news.parts else None,
            nodes=await self.nodes(caller) if NODES in news.parts else None,
            notices=tuple(
                item.notice
                for item in news.notices
                if item.group_key.partition("/")[0] == caller.user
            ),
        )
        is_empty = not (message.groups or message.removed or message.notices)
        return None if is_empty and message.queues is None and message.nodes is None else message

    @staticmethod
    def _may_know(caller: Caller, key: str) -> bool:
        return caller.is_admin or key.partition("/")[0] == caller.user
