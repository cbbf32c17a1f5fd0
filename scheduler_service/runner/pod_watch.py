"""One pod of a supervisor, from its start to its reported end: its log goes up, then its result, then its end."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from scheduler_service.runner import files, processes, supervision
from scheduler_service.runner.clock import now_ms
from scheduler_service.runner.connection import (
    Connection,
    ServiceAway,
    ServiceRefused,
    until_answered,
)
from scheduler_service.runner.environment import has_real_device
from scheduler_service.runner.group import FIRST, Group
from scheduler_service.runner.log_files import STDERR, LogReader, dropped_lines
from scheduler_service.runner.pod_folder import ExitRecord, PodFolder
from scheduler_service.wire.pod_group import Progress
from scheduler_service.wire.runner import HeldPod, LogChunk, LogLine, PodBeat, Report, StartOrder

LINES_A_CHUNK = 2000
LAST_LINES = 20_000
"""So many lines of what is unsent at the end still go up: the GPU of a pod that flooded its log is free in seconds."""
PORT_CLASH = "port_clash"
LOOK_FIRST_S = 0.05
LOOK_MOST_S = 0.5


class PodWatch:
    """Watches one pod. Whatever is not delivered when the runner ends is delivered by the next."""

    def __init__(
        self, order: StartOrder, folder: PodFolder, connection: Connection, group: Group
    ) -> None:
        self.order = order
        self.folder = folder
        self._connection = connection
        self._group = group
        self._attempt = group.attempt
        self._told: HeldPod | None = None
        self._log = _LogShipping(order, folder, connection)

    def held(self) -> HeldPod | None:
        """Return the identity of the pod's process; None before one ran."""
        running = self.folder.supervisor()
        if running is None:
            return None
        return HeldPod(
            incarnation=self.order.incarnation,
            pid=running.child_pid,
            start_ticks=running.child_start_ticks,
        )

    def progress(self) -> Progress | None:
        """Return what the pod last said of itself."""
        return self.folder.progress()

    def beat(self) -> PodBeat:
        """Return the pod's sign of life."""
        return PodBeat(
            incarnation=self.order.incarnation,
            progress=self.progress(),
            holds_device=self._holds_device(),
        )

    def _holds_device(self) -> bool | None:
        if not has_real_device(self.order):
            return False
        running = self.folder.supervisor()
        return None if running is None else processes.tree_holds_gpu(running.child_pid)

    def stop(self, *, grace_s: float, reason: str) -> bool:
        """Ask the pod to end; False if that had been asked before."""
        is_news = not self.folder.has(files.STOP)
        self._group.is_stopping = True
        supervision.ask_to_stop(self.folder, grace_s=grace_s, reason=reason)
        return is_news

    async def run(self) -> None:
        """Report the start, follow the pod, report its end and forget it."""
        delay = LOOK_FIRST_S
        await self._tell_start()
        while not await self._is_over():
            await self._tell_start()
            delay = LOOK_FIRST_S if await self._log.ship() else min(delay * 1.5, LOOK_MOST_S)
            await asyncio.sleep(delay)
        await self._tell_start()
        await self._log.ship_rest()
        ended = self._end_record()
        note = await self._send_result()
        report = self._report_of(ended, note)
        self._group.tell_end()
        await until_answered(lambda: self._connection.report(report))
        if self.order.incarnation in self._connection.lost:
            self.folder.keep()
        self.folder.remove()

    async def _tell_start(self) -> None:
        """Report the pod's process, once it is known, and the one of a second start."""
        held = self.held()
        if held is None or held == self._told:
            return
        self._told = held
        started = Report(
            incarnation=held.incarnation,
            kind="started",
            at=now_ms(),
            pid=held.pid,
            start_ticks=held.start_ticks,
            reason_code=None if self.folder.begun() == FIRST else PORT_CLASH,
        )
        await until_answered(lambda: self._connection.report(started))

    async def _is_over(self) -> bool:
        if self.folder.is_supervised():
            return False
        again = await self._group.is_started_again(self.order.incarnation, self._attempt)
        self._attempt = self._group.attempt
        return not again

    def _end_record(self) -> ExitRecord:
        """Return how it ended; a supervisor that was killed left no word, and perhaps processes."""
        ended = self.folder.exit()
        if ended is not None:
            return ended
        supervision.end_remains(self.folder, self.order.incarnation)
        refusal = self._group.refusal
        text = "Its supervisor was killed, so the pod was ended with it."
        code, text = (refusal.code, refusal.text) if refusal else ("supervisor_lost", text)
        return ExitRecord(None, None, code, text, started=True, ended_at=now_ms())

    async def _send_result(self) -> str:
        """Send the result up; return a sentence if it was refused."""
        signature = self.folder.result_signature()
        result = self.folder.path / files.RESULT
        if signature is None or not self.folder.has(files.RESULT):
            return ""
        order = self.order
        refusal = await until_answered(
            lambda: self._connection.put_result(order.incarnation, order.token, result, signature)
        )
        return f"Its result was not taken: {refusal.sentence}" if refusal else ""

    def _report_of(self, ended: ExitRecord, note: str) -> Report:
        held = self.held()
        report = Report(
            incarnation=self.order.incarnation,
            kind="ended",
            at=ended.ended_at,
            pid=held.pid if held else None,
            start_ticks=held.start_ticks if held else None,
            exit_code=ended.exit_code,
            signal=ended.signal,
            reason_code=ended.reason_code,
            reason_text=" ".join(text for text in (ended.reason_text, note) if text),
            failure=self.folder.failure(),
            results=() if note else self.folder.results(),
        )
        if self._group.met_clash_twice(self.order.incarnation):
            text = "A port of the gang was taken by another process, twice. Submit it again."
            return replace(report, reason_code=PORT_CLASH, reason_text=text)
        lost = dropped_lines(self.folder.path)
        if lost and report.reason_code is None:
            text = f"Lines of its log that were lost because the disk was full: {lost}."
            return replace(report, reason_code="log_disk_full", reason_text=text)
        return report


class _LogShipping:
    """Sends the lines of one pod up, each once as far as it can tell; the service ignores repeats by their number."""

    def __init__(self, order: StartOrder, folder: PodFolder, connection: Connection) -> None:
        cursor = files.read_json(folder.path / files.CURSOR) or {}
        self._order = order
        self._folder = folder
        self._connection = connection
        self._reader = LogReader(folder.path, int(cursor.get("next", 0)))
        self._dropped_told = int(cursor.get("dropped", 0))
        self._passed_over = 0
        self._unsent: LogChunk | None = None
        self._is_refused = False

    async def ship(self) -> bool:
        """Send one chunk; True if there may be more at once."""
        chunk = self._unsent or self._next_chunk()
        if chunk is None or self._is_refused:
            return False
        self._unsent = chunk
        try:
            await self._connection.logs(self._order.incarnation, self._order.token, chunk)
        except ServiceAway:
            return False
        except ServiceRefused:
            self._is_refused = True
            return False
        self._unsent = None
        self._remember()
        return True

    async def ship_rest(self) -> None:
        """Send what is left, of a flood its last lines, waiting for a service that is away."""
        self._passed_over = self._reader.skip_to_last(LAST_LINES)
        if not self._is_refused:
            await until_answered(self._send_rest)

    async def _send_rest(self) -> None:
        while True:
            self._unsent = self._unsent or self._next_chunk()
            if self._unsent is None:
                return
            await self._connection.logs(self._order.incarnation, self._order.token, self._unsent)
            self._unsent = None

    def _next_chunk(self) -> LogChunk | None:
        lines, lost = self._reader.read(LINES_A_CHUNK)
        dropped = dropped_lines(self._folder.path)
        lost += dropped - self._dropped_told
        self._dropped_told = dropped
        lost, self._passed_over = lost + self._passed_over, 0
        if not lines and not lost:
            return None
        return LogChunk(
            dropped=lost,
            lines=tuple(
                LogLine(
                    seq=line.seq,
                    at=line.at,
                    rank=self._order.rank,
                    stream="stderr" if line.stream == STDERR else "stdout",
                    text=line.text,
                )
                for line in lines
            ),
        )

    def _remember(self) -> None:
        cursor = {"next": self._reader.next, "dropped": self._dropped_told}
        with contextlib.suppress(OSError):  # without it the lines are sent again and ignored
            files.write_json(self._folder.path / files.CURSOR, cursor)
