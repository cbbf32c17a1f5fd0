"""A companion: the pod that holds a lease for a notebook outside it, and runs the cells that the notebook sends.

Rules: 1. Nothing is run that its owner did not sign for this companion. 2. A cell runs once, however often it is
asked for: what was told of it is told again. 3. Variables stay from cell to cell; when their process ends, it is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scheduler_service.runner import child
from scheduler_service.runner.cell_desk import CellDesk
from scheduler_service.runner.cell_process import CellProcess, Stream
from scheduler_service.runner.connection import ServiceRefused, backoff
from scheduler_service.wire.codec import decode
from scheduler_service.wire.companion import CellAsk, CellOutput, CellReport, CellState
from scheduler_service.wire.pod_group import ResultItem
from scheduler_service.wire.runner import Failure
from scheduler_service.wire.signing import is_signed_cell, sign_result

PAUSE_S = 0.2
"""Between two messages with output."""
PIECE = 1 << 12
MOST_PENDING = 500
"""Pieces of output that are kept for a service that is away; older ones are in the pod's log."""
REMEMBERED = 50
REFUSED_S = 5.0
GREETING = "This pod holds its device until it is released, and runs the cells of its notebook."


@dataclass(frozen=True, slots=True)
class Workroom:
    """Where cells run: a folder of ours for what comes and goes, theirs to work in, and their variables."""

    folder: Path
    cwd: str
    environ: Mapping[str, str]


@dataclass(slots=True)
class Running:
    """The cell that runs now, and what it wrote that was not told yet."""

    id: str
    interrupts: int = 0
    pending: list[CellOutput] = field(default_factory=list)
    seq: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def heard(self, stream: Stream, text: str) -> None:
        """Keep what was written, in pieces."""
        for start in range(0, len(text), PIECE):
            part = text[start : start + PIECE]
            self.pending.append(CellOutput(seq=self.seq, stream=stream, text=part))
            self.seq += 1
        del self.pending[:-MOST_PENDING]
        self.news.set()

    def drop(self, told: tuple[CellOutput, ...]) -> None:
        """Forget what was told."""
        if told:
            self.pending[:] = [piece for piece in self.pending if piece.seq > told[-1].seq]


class Companion:
    """Serves one pod until it is told to end."""

    def __init__(self, desk: CellDesk, room: Workroom, key: bytes) -> None:
        self._desk, self._room, self._key = desk, room, key
        self._process: CellProcess | None = None
        self._running: Running | None = None
        self._told: OrderedDict[str, CellReport] = OrderedDict()
        self._ending = asyncio.Event()

    async def serve(self) -> int:
        """Run cells until SIGTERM; return the exit code of the pod."""
        child.adopt_orphans()
        self._room.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGCHLD, self._collect)
        print(GREETING, flush=True)  # noqa: T201 - the pod's log
        serving = asyncio.create_task(self._serve())
        ending = asyncio.create_task(self._ending.wait())
        await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
        if self._running is None:
            serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        ending.cancel()
        if self._process is not None:
            self._process.close()
        await self._desk.close()
        return 0

    def _end(self) -> None:
        """Have the cell that runs end as its program wants; nothing more is begun."""
        self._ending.set()
        if self._process is not None:
            self._process.signal(signal.SIGTERM)

    def _collect(self) -> None:
        """Collect what ended: in a container all orphans end up with its first process."""
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if self._process is not None and ended.si_pid == self._process.pid:
                    assert self._process.is_over  # noqa: S101 - which collects it
                else:
                    os.waitpid(ended.si_pid, 0)

    async def _serve(self) -> None:
        delays = backoff()
        while not self._ending.is_set():
            try:
                orders = await self._desk.orders("", 0)
            except ServiceRefused:  # not known (yet): its pod may not have been seen
                await asyncio.sleep(next(delays))
                continue
            delays = backoff()
            if orders.cell is not None:
                await self._one(orders.cell)

    async def _one(self, ask: CellAsk) -> None:
        known = self._told.get(ask.id)
        if known is not None:
            await self._tell_end(known)
            return
        self._running = running = Running(ask.id)
        cell = asyncio.create_task(self._run(ask, running))
        helpers = [asyncio.create_task(part(running)) for part in (self._tell, self._listen)]
        try:
            report = await cell
        finally:
            for task in helpers:
                task.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
        report = replace(report, output=tuple(running.pending))
        self._told[ask.id] = report
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        await self._tell_end(report)
        self._running = None

    async def _tell_end(self, report: CellReport) -> None:
        """Tell how a cell ended, in fewer words where that is too much for the service."""
        short = replace(report, output=(), text=report.text or "Its output is in the pod's log.")
        for told in (report, short):
            if await self._desk.report(told) is None:
                return
        await asyncio.sleep(REFUSED_S)

    # -- beside the cell -----------------------------------------------------------------------------
    async def _tell(self, running: Running) -> None:
        """Send what the cell writes, a few times a second at most."""
        while True:
            told = tuple(running.pending)
            await self._desk.report(CellReport(id=running.id, state="running", output=told))
            running.drop(told)
            await asyncio.sleep(PAUSE_S)
            await running.news.wait()
            running.news.clear()

    async def _listen(self, running: Running) -> None:
        """Pass interrupts on."""
        while True:
            orders = await self._desk.orders(running.id, running.interrupts)
            if orders.interrupts > running.interrupts:
                running.interrupts = orders.interrupts
                if self._process is not None and self._process.began.is_set():
                    self._process.signal(signal.SIGINT)

    # -- the cell ------------------------------------------------------------------------------------
    async def _run(self, ask: CellAsk, running: Running) -> CellReport:
        payload, result = (self._room.folder / name for name in ("cell", "values"))
        result.unlink(missing_ok=True)
        refused = await self._checked(ask, payload)
        if refused:
            return _report(ask.id, "failed", failure=Failure(message=refused, traceback=""))
        if running.interrupts:
            return _report(ask.id, "interrupted")
        if self._process is None:
            self._process = CellProcess(self._room.cwd, self._room.environ, self._hear)
        answer = await self._answer(self._process, running, payload, result)
        if answer is None or self._ending.is_set():
            return self._lost(ask.id, self._process)
        report = _told_of(ask.id, answer)
        if report.failure is not None:
            print(report.failure.traceback, file=sys.stderr, flush=True)  # noqa: T201 - the pod's log
        if report.state == "succeeded" and report.results:
            return await self._brought(report, result)
        return report

    async def _checked(self, ask: CellAsk, payload: Path) -> str:
        """Have the payload of a cell here, checked; return why it is not run ("" = it is)."""
        if not is_signed_cell(
            self._key,
            self._desk.incarnation,
            ask.id,
            ask.payload_sha256,
            signature=ask.signature,
        ):
            return "This cell is not signed with your key, so it is not run. Run it from your own notebook."
        refused = await self._desk.fetch(ask.id, payload)
        if refused is not None:
            return f"The cell could not be had: {refused.sentence}"
        body = await asyncio.to_thread(payload.read_bytes)
        if hashlib.sha256(body).hexdigest() != ask.payload_sha256:
            return "The cell that came is not the one that was signed. Run it again."
        return ""

    @staticmethod
    async def _answer(
        process: CellProcess, running: Running, payload: Path, result: Path
    ) -> dict[str, Any] | None:
        """Run the payload; an interrupt that came before it began is passed on then."""

        async def interrupt_at_once() -> None:
            await process.began.wait()
            if running.interrupts:
                process.signal(signal.SIGINT)

        process.began.clear()
        early = asyncio.create_task(interrupt_at_once())
        try:
            return await process.run(payload, result)
        finally:
            early.cancel()

    def _hear(self, stream: Stream, text: str) -> None:
        if self._running is not None:
            self._running.heard(stream, text)

    def _lost(self, cell: str, process: CellProcess) -> CellReport:
        if self._ending.is_set():
            text = "The companion was told to end while the cell ran."
        else:
            how = process.how_it_ended()
            text = f"The companion's Python ended ({how}): its variables are gone. Run the cells again that set them."
        process.close()
        self._process = None
        return _report(cell, "lost", text=text)

    async def _brought(self, report: CellReport, file: Path) -> CellReport:
        body = await asyncio.to_thread(file.read_bytes)
        signature = sign_result(self._key, f"{self._desk.incarnation}/{report.id}", body)
        refused = await self._desk.bring(report.id, file, signature)
        if refused is None:
            return report
        text = f"The values could not be kept: {refused.sentence}"
        return _report(report.id, "failed", failure=Failure(message=text, traceback=""))


def _report(
    cell: str, state: CellState, *, failure: Failure | None = None, text: str = ""
) -> CellReport:
    return CellReport(id=cell, state=state, failure=failure, text=text)


def _told_of(cell: str, answer: dict[str, Any]) -> CellReport:
    failure = answer.get("failure")
    return CellReport(
        id=cell,
        state=answer["state"],
        failure=None if failure is None else decode(Failure, failure),
        results=tuple(decode(ResultItem, item) for item in answer.get("results", ())),
    )
