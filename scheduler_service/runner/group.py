"""The pods of one group on this machine: all begin or none does, and a gang once more when a port was taken.

A pod begins once (`gate`). The one exception is a port that another program took: then the whole gang is ended and
begins a second time on other ports, if it had begun just now, no worker's end was told and none joined it later.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from scheduler_service.runner import clash, files, gate, supervision
from scheduler_service.runner.cores import CoreBook
from scheduler_service.runner.environment import GangPorts
from scheduler_service.runner.pod_folder import PodFolder
from scheduler_service.runner.ports import PortReservation
from scheduler_service.runner.preparation import Preparation
from scheduler_service.runner.supervision import Refusal
from scheduler_service.wire.runner import StartOrder

END_OTHERS_GRACE_S = 2.0
FIRST, SECOND = 1, 2


@dataclass(slots=True)
class Member:
    """One pod of the group."""

    order: StartOrder
    folder: PodFolder


@dataclass(slots=True)
class Group:
    """The pods of a group that this runner started or adopted."""

    preparation: Preparation
    cores: CoreBook
    children: list[subprocess.Popen[bytes]]
    """Supervisors that are this process's children, for it to collect."""
    members: dict[str, Member] = field(default_factory=dict)
    ports: GangPorts | None = None
    attempt: int = FIRST
    refusal: Refusal | None = None
    """Why a second start failed."""
    is_stopping: bool = False
    """It was asked to end, so it is not started again."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def start(self, orders: Sequence[StartOrder]) -> dict[str, Refusal]:
        """Start all of `orders`, or none: then return for each of them why."""
        prepared = await asyncio.gather(*(self.preparation.prepare(order) for order in orders))
        refusals = {
            order.incarnation: outcome
            for order, outcome in zip(orders, prepared, strict=True)
            if isinstance(outcome, Refusal)
        }
        members = [
            Member(order, outcome)
            for order, outcome in zip(orders, prepared, strict=True)
            if isinstance(outcome, PodFolder)
        ]
        if self.members:
            self._make_final(members)
        refusals = refusals or await self._launch(members)
        if refusals:
            return _for_all(orders, refusals)
        self.members |= {member.order.incarnation: member for member in members}
        return {}

    def adopt(self, members: Sequence[Member]) -> None:
        """Go on with pods that a runner before this one began."""
        self.members = {member.order.incarnation: member for member in members}
        is_retried = any(member.folder.retry() is not None for member in members)
        latest = sorted(members, key=lambda member: -member.folder.begun())
        self.attempt = SECOND if is_retried else max(FIRST, latest[0].folder.begun())
        self.ports = next(filter(None, (member.folder.ports() for member in latest)), None)

    async def finish_retry(self) -> None:
        """Do what is left to do of a second start that the runner before this one had decided on."""
        async with self._lock:
            begun = [member.folder.begun() for member in self.members.values()]
            if self.attempt == SECOND and min(begun) < SECOND:
                await self._start_again()

    async def is_started_again(self, incarnation: str, attempt: int) -> bool:
        """Whether a pod that ended runs again: its gang met a taken port and had not yet had a second try."""
        async with self._lock:
            if attempt < self.attempt:
                return self.refusal is None
            if not self._may_start_again() or not self._met_clash(incarnation):
                return False
            try:
                self.members[incarnation].folder.mark_retry()  # decided, whoever is killed now
            except OSError:
                return False
            self.attempt = SECOND
            await self._start_again()
            return self.refusal is None

    def met_clash_twice(self, incarnation: str) -> bool:
        """Whether the pod failed on a taken port in the second try."""
        return self.attempt == SECOND and self._met_clash(incarnation)

    def tell_end(self) -> None:
        """Note, before a worker's end is told, that from now on this gang can not be started again."""
        if len(self.members) > 1:
            self._make_final(list(self.members.values()))

    def _make_final(self, members: Sequence[Member]) -> None:
        for member in members:
            with contextlib.suppress(OSError):  # its folder is gone, or the disk is full
                member.folder.mark(files.FINAL)

    def _may_start_again(self) -> bool:
        folders = [member.folder for member in self.members.values()]
        is_final = any(not folder.has(files.ORDER) or folder.has(files.FINAL) for folder in folders)
        return self.attempt == FIRST and not self.is_stopping and not is_final

    def _met_clash(self, incarnation: str) -> bool:
        """Whether this pod failed and it, or another of the gang, says that a port was taken."""
        member = self.members[incarnation]
        folders = [each.folder for each in self.members.values()]
        return _is_gang(member.order) and clash.is_met(member.folder, folders)

    async def _start_again(self) -> None:
        """Let those begin a second time that have not. Killed anywhere in it, the next runner calls it again."""
        members = list(self.members.values())
        behind = [member for member in members if member.folder.begun() < SECOND]
        await _end(behind)
        try:
            for member in behind:
                member.folder.forget_attempt()
                member.folder.mark_retry()
        except OSError as error:
            self.refusal = Refusal("disk_full", f"No second start: {error.strerror}.")
            return
        clash.note(members[0].folder)
        refusals = await self._launch(behind)
        self.refusal = next(iter(refusals.values()), None)

    async def _launch(self, members: Sequence[Member]) -> dict[str, Refusal]:
        """Let all of `members` begin, or none; return who could not."""
        refusals = await self._make_ready_and_go(members)
        if refusals:
            for member in members:
                await supervision.until_unsupervised(member.folder)
            return refusals
        refusals = await self._until_all(supervision.until_running, members)
        if refusals:
            await _end(members)
        return refusals

    async def _make_ready_and_go(self, members: Sequence[Member]) -> dict[str, Refusal]:
        """Start the supervisors, and say go once all are ready. Those that were not told to go end."""
        with self._reserve(members) as reservation, contextlib.ExitStack() as gates:
            self.ports = reservation.ports or self.ports
            refusals = self._spawn(members, gates)
            refusals = refusals or await self._until_all(supervision.until_ready, members)
            if not refusals:
                reservation.release()
                for member in members:
                    gate.say_go(member.folder.path)
        return refusals

    def _spawn(self, members: Sequence[Member], gates: contextlib.ExitStack) -> dict[str, Refusal]:
        for member in members:
            refusal = self._write_plan(member)
            if refusal is not None:
                return {member.order.incarnation: refusal}
        for member in members:
            child = supervision.spawn(member.folder)
            if isinstance(child, Refusal):
                return {member.order.incarnation: child}
            self.children.append(child)
            if child.stdin is not None:
                gates.enter_context(child.stdin)
        return {}

    def _reserve(self, members: Sequence[Member]) -> PortReservation:
        """Hold ports for the whole gang; a worker that joins later gets the number its gang was told."""
        order = members[0].order
        launched = {member.order.incarnation for member in members}
        joins = not launched.issuperset(self.members)
        return PortReservation(order.workers if _is_gang(order) and not joins else None)

    def _write_plan(self, member: Member) -> Refusal | None:
        order = member.order
        chosen = self.cores.take(order.incarnation, order.cpu_milli)
        return self.preparation.write_plan(
            order, member.folder, ports=self.ports, cores=chosen, attempt=self.attempt
        )

    async def _until_all(
        self,
        until: Callable[..., Awaitable[Refusal | None]],
        members: Sequence[Member],
    ) -> dict[str, Refusal]:
        timeout_s = self.preparation.options.start_timeout_s
        outcomes = await asyncio.gather(
            *(until(member.folder, timeout_s=timeout_s) for member in members)
        )
        return {
            member.order.incarnation: outcome
            for member, outcome in zip(members, outcomes, strict=True)
            if outcome is not None
        }


def _is_gang(order: StartOrder) -> bool:
    return order.kind == "gang" or order.workers > 1


async def _end(members: Sequence[Member]) -> None:
    for member in members:
        if member.folder.is_supervised():
            supervision.ask_to_stop(
                member.folder, grace_s=END_OTHERS_GRACE_S, reason="Another worker could not start."
            )
    for member in members:
        await supervision.until_unsupervised(member.folder)


def _for_all(orders: Sequence[StartOrder], refusals: dict[str, Refusal]) -> dict[str, Refusal]:
    """Return a refusal for every order: its own, or that of the first that has one."""
    first = next(order for order in orders if order.incarnation in refusals)
    why = refusals[first.incarnation]
    others = Refusal("gang_not_started", f"Worker {first.rank} could not start: {why.text}")
    return {order.incarnation: refusals.get(order.incarnation, others) for order in orders}
