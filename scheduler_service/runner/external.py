"""A lease held by a process that is not ours (a kernel): watched by pid and start time, never signalled.

Ending such a lease is for whoever owns the process: the notebook takes its devices away in place, or its server
restarts the kernel. The runner reports the end when the process is gone, or, once asked to stop, holds no device.
"""

from __future__ import annotations

import asyncio
import contextlib

from scheduler_service.runner import processes
from scheduler_service.runner.clock import now_ms
from scheduler_service.runner.connection import Connection, until_answered
from scheduler_service.runner.environment import has_real_device
from scheduler_service.runner.pod_folder import PodFolder
from scheduler_service.wire.locate import start_ticks
from scheduler_service.wire.pod_group import Process
from scheduler_service.wire.runner import HeldPod, PodBeat, Report, StartOrder

LOOK_S = 0.25


class ExternalWatch:
    """Watches the process of one external lease."""

    def __init__(
        self, order: StartOrder, process: Process, folder: PodFolder, connection: Connection
    ) -> None:
        self.order = order
        self.folder = folder
        self._process = process
        self._connection = connection
        self._stop_reason: str | None = None

    def held(self) -> HeldPod:
        """Return the identity of the process."""
        return HeldPod(
            incarnation=self.order.incarnation,
            pid=self._process.pid,
            start_ticks=self._process.start_ticks,
        )

    def progress(self) -> None:
        """Return nothing: a kernel reports no progress."""

    def beat(self) -> PodBeat:
        """Return whether the process still holds a device."""
        return PodBeat(
            incarnation=self.order.incarnation,
            holds_device=self._holds_device(),
        )

    def stop(self, *, grace_s: float, reason: str) -> bool:  # noqa: ARG002 - the grace is its owner's to keep
        """Note that the lease is to end; False if that was known."""
        is_news = self._stop_reason is None
        self._stop_reason = reason
        return is_news

    async def run(self) -> None:
        """Report the start, watch, report the end and forget it."""
        with contextlib.suppress(OSError):  # without its folder it is claimed again after a restart
            self.folder.make(self.order)
        held = self.held()
        if self._lives():
            await self._report("started")
        while self._lives() and not self._is_released():  # noqa: ASYNC110 - another process decides
            await asyncio.sleep(LOOK_S)
        code, text = (
            ("released", self._stop_reason or "")
            if self._lives()
            else ("process_ended", f"The process {held.pid} that held the lease has ended.")
        )
        await self._report("ended", code, text)
        self.folder.remove()

    def _lives(self) -> bool:
        return start_ticks(self._process.pid) == self._process.start_ticks

    def _is_released(self) -> bool:
        if self._stop_reason is None:
            return False
        return self._holds_device() is False

    def _holds_device(self) -> bool | None:
        if not has_real_device(self.order):
            return False
        return processes.tree_holds_gpu(self._process.pid)

    async def _report(self, kind: str, code: str | None = None, text: str = "") -> None:
        held = self.held()
        report = Report(
            incarnation=held.incarnation,
            kind="started" if kind == "started" else "ended",
            at=now_ms(),
            pid=held.pid,
            start_ticks=held.start_ticks,
            reason_code=code,
            reason_text=text,
        )
        await until_answered(lambda: self._connection.report(report))
