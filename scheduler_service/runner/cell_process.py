"""The process in which a companion's cells run, with its three pipes: started, told, interrupted, heard to its end."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

MODULE = "scheduler_service.runner.cells"
AT_ONCE = 1 << 16
LOOK_S = 1.0
Stream = Literal["stdout", "stderr"]
Heard = Callable[[Stream, str], None]


class CellProcess:
    """One Python. What it writes goes to `heard` and on to the container's log."""

    def __init__(self, cwd: str, environ: Mapping[str, str], heard: Heard) -> None:
        self._heard = heard
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(orders), str(answers)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(orders, answers),
            cwd=cwd,
            env={**environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        os.close(orders)
        os.close(answers)
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        assert self._process.stderr is not None  # noqa: S101
        self._streams: dict[int, tuple[Stream, Any, int]] = {}
        decoder = codecs.getincrementaldecoder("utf-8")
        for name, pipe, log in (
            ("stdout", self._process.stdout, 1),
            ("stderr", self._process.stderr, 2),
        ):
            self._streams[pipe.fileno()] = (name, decoder("replace"), log)  # type: ignore[assignment]
        self._answer: asyncio.Future[dict[str, Any] | None] | None = None
        self._read = b""
        self.began = asyncio.Event()
        """Set once the cell that was asked for runs: from then on it can be interrupted."""
        self._watch()

    # -- hearing -------------------------------------------------------------------------------------
    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        for descriptor in self._streams:
            os.set_blocking(descriptor, False)
            loop.add_reader(descriptor, self._hear, descriptor)
        os.set_blocking(self._answers, False)
        loop.add_reader(self._answers, self._answered)

    def _hear(self, descriptor: int) -> bool:
        """Pass on what was written; False where there is nothing (more)."""
        try:
            data = os.read(descriptor, AT_ONCE)
        except BlockingIOError:
            return False
        name, decoder, log = self._streams[descriptor]
        if not data:
            asyncio.get_running_loop().remove_reader(descriptor)
            return False
        with contextlib.suppress(OSError):
            os.write(log, data)
        text = decoder.decode(data)
        if text:
            self._heard(name, text)
        return True

    def _answered(self) -> None:
        """Hear that a cell began, or how it went: all that it wrote before that is heard first."""
        try:
            data = os.read(self._answers, AT_ONCE)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._answers)
            self._settle(None)
            return
        *whole, self._read = (self._read + data).split(b"\n")
        for line in whole:
            answer = json.loads(line)
            if answer["state"] == "running":
                self.began.set()
            else:
                self._settle(answer)

    def _settle(self, answer: dict[str, Any] | None) -> None:
        for descriptor in self._streams:
            while self._hear(descriptor):
                pass
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    # -- telling -------------------------------------------------------------------------------------
    async def run(self, payload: Path, result: Path) -> dict[str, Any] | None:
        """Run one payload and return what is told of it; None when the process ended meanwhile."""
        self.began.clear()
        self._answer = asyncio.get_running_loop().create_future()
        line = json.dumps({"payload": str(payload), "result": str(result)}) + "\n"
        try:
            os.write(self._orders, line.encode())
        except OSError:
            return None
        while not self._answer.done():
            await asyncio.wait({self._answer}, timeout=LOOK_S)
            if self.is_over:  # also where a child of it keeps the pipe open
                self._answered_last()
        return self._answer.result()

    def _answered_last(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._answered()
        self._settle(None)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process (SIGINT), or to all that it started too."""
        with contextlib.suppress(ProcessLookupError):
            if number is signal.SIGINT:
                os.kill(self._process.pid, number)
            else:
                os.killpg(self._process.pid, number)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def how_it_ended(self) -> str:
        """Return how it ended, in words."""
        code = self._process.wait()
        return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"

    def close(self) -> None:
        """End it, if it still runs, and let go of its pipes."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        loop = asyncio.get_running_loop()
        for descriptor in (*self._streams, self._answers):
            loop.remove_reader(descriptor)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        os.close(self._orders)
        os.close(self._answers)
