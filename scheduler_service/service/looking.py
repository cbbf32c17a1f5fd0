"""What can be seen, over whichever world there is: groups, queues, nodes, the stream, each as one caller may see it.

Rule: this machine (`core`) and a cluster (`cluster_core`) hold the same things under these names, so the words are made
once. Whoever serves a world says where its groups, plan and nodes come from, and nothing else.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar, get_args

from scheduler_service.model.node import GpuDevice, Node
from scheduler_service.model.reasons import Reason
from scheduler_service.ports import Caller
from scheduler_service.service import access, cluster_view
from scheduler_service.service.asking import World
from scheduler_service.service.changes import NODES, QUEUES, Changes, Since
from scheduler_service.service.look_ahead import Scene
from scheduler_service.service.overview import Overview
from scheduler_service.service.refusals import not_found, refusal
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.cluster import NodeView, QueueView
from scheduler_service.wire.events import StreamEvent
from scheduler_service.wire.pod_group import ActionView, GroupState, PodGroupList, PodGroupView
from scheduler_service.words.group import state_of

STREAM_PAUSE_S = 0.1
"""Changes that come closer together travel as one message."""
STREAM_WAIT_S = 3600.0
AT_A_TIME = 20
"""So many views are made before others have their turn."""
T = TypeVar("T")


class Records(Protocol):
    """The groups by namespace/name, live and retained."""

    def find(self, key: str) -> GroupRecord | None:
        """Return the group of that key, if there is one."""
        ...

    def __iter__(self) -> Iterator[GroupRecord]: ...


class Looking(abc.ABC):
    """The looking side of the service's door."""

    records: Records
    overview: Overview
    changes: Changes
    clock: Callable[[], int]
    offered: dict[str, tuple[ActionView, ...]]
    is_stopping: bool = False

    def foreign_lines(self) -> tuple[str, ...]:
        """Return who uses a GPU without a lease, as sentences; none where nobody looks."""
        return ()

    def for_now(self, reason: Reason) -> Reason:
        """Return why a group waits as its person should read it now."""
        return reason

    # -- what each world says of itself ----------------------------------------------------------
    @property
    @abc.abstractmethod
    def world(self) -> World:
        """What requests are judged by now."""

    @property
    @abc.abstractmethod
    def devices(self) -> Mapping[str, GpuDevice]:
        """The devices that are known, by id."""

    @property
    @abc.abstractmethod
    def is_simulated(self) -> bool:
        """Whether the GPUs are simulated."""

    @abc.abstractmethod
    def scene(self) -> Scene:
        """Return what a look ahead is taken from, over the ledger itself."""

    @abc.abstractmethod
    async def ask_ahead(self, question: Callable[[Scene], T]) -> T:
        """Return what `question` finds, without keeping others waiting for long."""

    @abc.abstractmethod
    def view(self, record: GroupRecord, *, is_mine: bool) -> PodGroupView:
        """Return a group as its owner (or lead, or an admin) sees it."""

    @abc.abstractmethod
    def picture(self, caller: Caller) -> cluster_view.Picture:
        """Return what the views of queues and nodes are made of, for one caller."""

    @abc.abstractmethod
    def shown_nodes(self, picture: cluster_view.Picture) -> Sequence[Node]:
        """Return the nodes with their devices."""

    async def freshen(self) -> None:  # noqa: B027 - this machine is told at once
        """Look at what happened since the last question, where that is not done at once."""

    async def again(self, caller: Caller) -> Caller:
        """Return a caller of a long stream with what they may by now."""
        return caller

    def pause_s(self) -> float:
        """Return how long a stream rests between two messages."""
        return STREAM_PAUSE_S

    def may_know(self, caller: Caller, key: str) -> bool:
        """Whether a caller may hear that a group, which is gone, was there."""
        return caller.is_admin or key.partition("/")[0] == caller.user

    def is_owner(self, caller: Caller, key: str) -> bool:
        """Whether a group is (or was) the caller's own."""
        return key.partition("/")[0] == caller.user

    # -- groups ----------------------------------------------------------------------------------
    async def _seen_groups(self, caller: Caller) -> list[GroupRecord]:
        """Return the records that the caller may see, newest first."""
        access.require_read(caller)
        await self.freshen()
        seen = [record for record in self.records if access.sees(caller, record)]
        return sorted(seen, key=lambda record: -record.order)

    def view_for(self, caller: Caller, record: GroupRecord) -> PodGroupView:
        """Return a group as the caller sees it."""
        return self.view(record, is_mine=record.owner == caller.user)

    async def views_for(
        self, caller: Caller, records: Sequence[GroupRecord]
    ) -> tuple[PodGroupView, ...]:
        """Return the groups as the caller sees them, letting others have their turn in between."""
        found: list[PodGroupView] = []
        for number, record in enumerate(records, 1):
            found.append(self.view_for(caller, record))
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)
        return tuple(found)

    async def group(self, caller: Caller, namespace: str, name: str) -> PodGroupView:
        """Return one group; unknown or not the caller's to see: `NotFound`, alike."""
        await self.freshen()
        return self.view_for(caller, self.seen(caller, namespace, name))

    def seen(self, caller: Caller, namespace: str, name: str) -> GroupRecord:
        """Return a group that the caller may see."""
        access.require_read(caller)
        record = self.records.find(f"{namespace}/{name}")
        if record is None or not access.sees(caller, record):
            raise not_found(namespace, name)
        return record

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
        rev = self.changes.rev
        return PodGroupList(rev=rev, items=await self.views_for(caller, found))

    # -- what there is ---------------------------------------------------------------------------
    async def queues(self, caller: Caller) -> tuple[QueueView, ...]:
        """Return the tree of queues, parents before children."""
        access.require_read(caller)
        await self.freshen()
        return cluster_view.queue_views(self.picture(caller))

    async def nodes(self, caller: Caller) -> tuple[NodeView, ...]:
        """Return the nodes with who holds what."""
        access.require_read(caller)
        await self.freshen()
        picture = self.picture(caller)
        return tuple(cluster_view.node_view(node, picture) for node in self.shown_nodes(picture))

    # -- the stream ------------------------------------------------------------------------------
    async def events(self, caller: Caller, *, since: int | None) -> AsyncIterator[StreamEvent]:
        """Yield a snapshot (or, if `since` is still known, the updates after it), then updates as they come."""
        access.require_read(caller)
        await self.freshen()
        rev = since
        if rev is None or self.changes.since(rev) is None:
            rev = self.changes.rev
            yield await self._whole(caller, rev)
        while not self.is_stopping:
            if not await self.changes.wait_after(rev, STREAM_WAIT_S):
                continue
            news = self.changes.since(rev)
            rev = self.changes.rev
            caller = await self.again(caller)
            message = await (
                self._whole(caller, rev) if news is None else self._update(caller, rev, news)
            )
            if message is not None:
                yield message
            await asyncio.sleep(self.pause_s())

    async def _whole(self, caller: Caller, rev: int) -> StreamEvent:
        records = await self._seen_groups(caller)
        return StreamEvent(
            kind="snapshot",
            rev=rev,
            now=self.clock(),
            groups=await self.views_for(caller, records),
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
            groups=await self.views_for(caller, seen),
            removed=tuple(k for k, r in found.items() if r is None and self.may_know(caller, k)),
            queues=await self.queues(caller) if QUEUES in news.parts else None,
            nodes=await self.nodes(caller) if NODES in news.parts else None,
            notices=tuple(
                item.notice for item in news.notices if self.is_owner(caller, item.group_key)
            ),
        )
        is_empty = not (message.groups or message.removed or message.notices)
        return None if is_empty and message.queues is None and message.nodes is None else message
