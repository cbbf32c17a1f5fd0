"""`python -m scheduler_service.runner.supervisor <pod folder>`: starts one pod, keeps its log, leaves no orphan.

It has a session of its own. It executes nothing before its runner said go (`gate`), and is gone if the runner is; from
then on it outlives the runner and the service. It writes ``supervisor.json`` once the pod's process runs and
``exit.json`` once all of it is gone. A stop is asked for by ``stop.json`` and SIGTERM.
Rule: standard library only, light imports: a gang starts one for each worker.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from pathlib import Path
from typing import BinaryIO, NamedTuple

from scheduler_service.runner import child, files, gate, processes, start_plan
from scheduler_service.runner.clock import now_ms
from scheduler_service.runner.log_files import STDERR, STDOUT, LineSplitter, LogWriter
from scheduler_service.wire.locate import start_ticks

TICK_S = 1.0
BUSY_TICK_S = 0.05
PARTIAL_LINE_S = 1.0
LEFTOVER_GRACE_S = 5.0
"""For what the pod's main process left behind when it ended by itself."""
READ_BYTES = 64 * 1024
STDIN = 0
OUT_OF_MEMORY = "out_of_memory"


class Ending(NamedTuple):
    """Why the pod is being ended, and when patience is over (monotonic)."""

    reason_code: str
    reason_text: str
    kill_at: float


class Source(NamedTuple):
    """One of the pod's two outputs."""

    pipe: BinaryIO
    stream: str


class Supervisor:
    """One pod from its start to the end of its last process."""

    def __init__(self, folder: Path, plan: start_plan.StartPlan) -> None:
        self._folder = folder
        self._plan = plan
        self._log = LogWriter(
            folder, segment_bytes=plan.log_segment_bytes, segments=plan.log_segments
        )
        self._selector = selectors.DefaultSelector()
        self._splitters = {STDOUT: LineSplitter(), STDERR: LineSplitter()}
        self._partial_since: float | None = None
        self._ending: Ending | None = None
        self._status: int | None = None
        self._heartbeat_mtime = -1.0
        self._heartbeat_seen = time.monotonic()
        self._memory_kills = processes.memory_kills()
        self._started_at = now_ms()
        self._pid = -1
        self._is_asked = False

    def run(self) -> None:
        """Start the pod on go; return when nothing of it is left and ``exit.json`` stands, or no go will come."""
        files.reserve(self._folder / files.EXIT)
        files.reserve(self._folder / files.SUPERVISOR)
        wake = self._watch_signals()
        started = child.obstacle(self._plan) or self._start_on_go(wake)
        if started is None:
            return
        if isinstance(started, child.NotStarted):
            self._write_exit(started.exit_code, None, started.reason_code, started.reason_text)
            return
        self._pid = started.pid
        self._watch_pipe(started.stdout, STDOUT)
        self._watch_pipe(started.stderr, STDERR)
        files.write_reserved(self._folder / files.SUPERVISOR, self._identity())
        while self._status is None or self._is_something_left():
            self._step()
        self._reap()
        self._drain()
        self._write_end()

    def _start_on_go(self, wake: int) -> child.Started | child.NotStarted | None:
        if not gate.until_told(self._folder, self._plan.attempt, gate=STDIN, wake=wake):
            return None
        self._started_at = now_ms()
        self._heartbeat_seen = time.monotonic()
        return child.start(self._plan)

    def _identity(self) -> dict[str, int | None]:
        return {
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "child_pid": self._pid,
            "child_start_ticks": start_ticks(self._pid),
            "started_at": self._started_at,
        }

    def _step(self) -> None:
        for key, _ in self._selector.select(self._patience()):
            if isinstance(key.data, Source):
                self._read(key.data)
            else:
                _empty(key.data)
        self._flush_partial()
        self._reap()
        self._look_for_stop()
        self._look_for_runner()
        self._end_what_is_left()

    def _patience(self) -> float:
        is_waiting = self._status is not None or self._ending is not None
        return BUSY_TICK_S if is_waiting else TICK_S

    def _read(self, source: Source) -> bool:
        """Take one read's worth of output into the log; False if there was none."""
        try:
            data = os.read(source.pipe.fileno(), READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(source.pipe)
            source.pipe.close()
            return False
        for text in self._splitters[source.stream].feed(data):
            self._log.add(source.stream, text, now_ms())
        return True

    def _flush_partial(self) -> None:
        now = time.monotonic()
        if not any(splitter.has_pending for splitter in self._splitters.values()):
            self._partial_since = None
        elif self._partial_since is None:
            self._partial_since = now
        elif now - self._partial_since >= PARTIAL_LINE_S:
            self._partial_since = None
            self._flush()

    def _flush(self) -> None:
        for stream, splitter in self._splitters.items():
            for text in splitter.flush():
                self._log.add(stream, text, now_ms())

    def _reap(self) -> None:
        """Collect what ended, the pod's own orphans too: they were given to this process."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._pid:
                    self._status = status

    def _look_for_stop(self) -> None:
        """Obey a stop order; SIGTERM alone is one too, for a disk so full that no order can be written."""
        order = files.read_json(self._folder / files.STOP) or ({} if self._is_asked else None)
        if order is not None and self._ending is None:
            grace = float(order.get("grace_s", self._plan.grace_s))
            self._end("stopped", str(order.get("reason", "")), grace)

    def _look_for_runner(self) -> None:
        """Note a heartbeat that moved; its age by the wall clock would lie after the machine slept."""
        now = time.monotonic()
        try:
            mtime = Path(self._plan.heartbeat).stat().st_mtime
        except OSError:
            mtime = self._heartbeat_mtime
        if mtime != self._heartbeat_mtime:
            self._heartbeat_mtime, self._heartbeat_seen = mtime, now
        elif now - self._heartbeat_seen > self._plan.lost_after_s and self._ending is None:
            text = "Ended because its runner did not come back."
            self._end("runner_lost", text, self._plan.grace_s)

    def _end(self, reason_code: str, reason_text: str, grace_s: float) -> None:
        if self._status is None:
            self._ending = Ending(reason_code, reason_text, time.monotonic() + grace_s)
            self._signal_all(signal.SIGTERM)

    def _end_what_is_left(self) -> None:
        if self._status is not None and self._ending is None:
            self._ending = Ending("", "", time.monotonic() + LEFTOVER_GRACE_S)
            self._signal_all(signal.SIGTERM)
        if self._ending is not None and time.monotonic() >= self._ending.kill_at:
            self._signal_all(signal.SIGKILL)

    def _is_something_left(self) -> bool:
        if processes.has_proc():
            return bool(processes.descendants(os.getpid()))
        return processes.is_group_alive(
            self._pid
        )  # orphans can not be adopted here: the group is all we know

    def _signal_all(self, number: signal.Signals) -> None:
        """Reach the pod's group, and what left the group or its session."""
        if self._status is None or not processes.has_proc():
            processes.send_group(self._pid, number)
        processes.send(
            (pid for pid in processes.descendants(os.getpid()) if not self._in_group(pid)), number
        )

    def _in_group(self, pid: int) -> bool:
        try:
            return self._status is None and os.getpgid(pid) == self._pid
        except ProcessLookupError:
            return False

    def _drain(self) -> None:
        for key in list(self._selector.get_map().values()):
            while isinstance(key.data, Source) and self._read(key.data):
                pass
        self._flush()

    def _write_end(self) -> None:
        status = self._status or 0
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            code, text = self._reason_of_signal(number)
            self._write_exit(None, signal.Signals(number).name, code, text)
            return
        ending = self._ending or Ending("", "", 0)
        self._write_exit(os.WEXITSTATUS(status), None, ending.reason_code, ending.reason_text)

    def _reason_of_signal(self, number: int) -> tuple[str, str]:
        if self._ending is not None and self._ending.reason_code:
            return self._ending.reason_code, self._ending.reason_text
        name = signal.Signals(number).name
        if number == signal.SIGKILL and processes.memory_kills() > self._memory_kills:
            return OUT_OF_MEMORY, "The machine ran out of memory and the kernel ended this process."
        return "killed", f"Ended by {name}, sent by the process itself or from outside."

    def _write_exit(
        self, exit_code: int | None, signal_name: str | None, code: str, text: str
    ) -> None:
        report = {
            "exit_code": exit_code,
            "signal": signal_name,
            "reason_code": code or None,
            "reason_text": text,
            "started": self._pid > 0,
            "started_at": self._started_at,
            "ended_at": now_ms(),
        }
        files.write_reserved(self._folder / files.EXIT, report)

    def _watch_signals(self) -> int:
        """Let signals wake the loop; return the descriptor through which they do."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else _pipe()
        signal.signal(signal.SIGTERM, self._be_asked)
        signal.signal(signal.SIGCHLD, _woken)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._selector.register(reader, selectors.EVENT_READ, reader)
        return reader

    def _be_asked(self, _number: int, _frame: object) -> None:
        self._is_asked = True

    def _watch_pipe(self, pipe: BinaryIO, stream: str) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, selectors.EVENT_READ, Source(pipe, stream))


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    return reader, writer


def _woken(_number: int, _frame: object) -> None:
    """Wake the loop, which then looks; the wake-up descriptor carries the signal."""


def _empty(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(descriptor, READ_BYTES)


def main(argv: list[str]) -> int:
    """Supervise the pod whose folder is the argument."""
    folder = Path(argv[1])
    data = files.read_json(folder / files.START)
    if data is None:
        sys.stderr.write(f"{folder / files.START} is missing or not whole: nothing to start.\n")
        return 2
    Supervisor(folder, start_plan.from_json(data)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
