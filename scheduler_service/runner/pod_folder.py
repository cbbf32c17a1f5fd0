"""The folder of one pod, as the runner uses it: made, read back after a restart, removed."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from scheduler_service.runner import files, gate, start_plan
from scheduler_service.runner.environment import GangPorts, gang_ports
from scheduler_service.runner.log_files import next_seq
from scheduler_service.runner.start_plan import StartPlan
from scheduler_service.wire import codec
from scheduler_service.wire.pod_group import Progress, ResultItem
from scheduler_service.wire.runner import Failure, StartOrder

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
ATTEMPT_FILES = (
    files.SUPERVISOR,
    files.EXIT,
    files.STOP,
    files.FAILURE,
    files.RESULT,
    files.RESULT_SIGNATURE,
    files.RESULTS,
    files.PROGRESS,
)


class SupervisorRecord(NamedTuple):
    """What the supervisor wrote once the pod's process ran."""

    pid: int
    start_ticks: int
    child_pid: int
    child_start_ticks: int


class ExitRecord(NamedTuple):
    """What the supervisor wrote once nothing of the pod was left."""

    exit_code: int | None
    signal: str | None
    reason_code: str | None
    reason_text: str
    started: bool
    ended_at: int
    started_at: int = 0


def is_safe_name(incarnation: str) -> bool:
    """Whether an incarnation id can name a folder without leaving the pods' own."""
    return _SAFE_NAME.fullmatch(incarnation) is not None


@dataclass(frozen=True, slots=True)
class PodFolder:
    """One pod's files."""

    path: Path

    def make(self, order: StartOrder) -> None:
        """Create the folder (0700) with its order."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.write_json(self.path / files.ORDER, codec.encode(order))

    def remove(self) -> None:
        """Remove the folder and all in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def keep(self) -> None:
        """Move the folder to where its owner finds what nobody else tells of."""
        kept = self.path.parent.with_name(files.KEPT)
        kept.mkdir(mode=0o700, exist_ok=True)
        self.path.rename(kept / self.path.name)

    def order(self) -> StartOrder | None:
        """Return the order, None where it is not whole."""
        data = files.read_json(self.path / files.ORDER)
        try:
            return None if data is None else codec.decode(StartOrder, data)
        except TypeError:
            return None

    def take_lock(self) -> int | None:
        """Return a descriptor that holds the supervisor's lock, None while a supervisor lives."""
        descriptor = os.open(self.path / files.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def is_supervised(self) -> bool:
        """Whether a supervisor lives."""
        if not self.has(files.LOCK):
            return False
        descriptor = self.take_lock()
        if descriptor is None:
            return True
        os.close(descriptor)
        return False

    def supervisor(self) -> SupervisorRecord | None:
        """Return the running process, None before it runs."""
        data = files.read_json(self.path / files.SUPERVISOR)
        return (
            None
            if data is None
            else SupervisorRecord(*(int(data[f] or 0) for f in SupervisorRecord._fields))
        )

    def exit(self) -> ExitRecord | None:
        """Return how the pod ended, None while it has not."""
        data = files.read_json(self.path / files.EXIT)
        return None if data is None else ExitRecord(*(data[f] for f in ExitRecord._fields))

    def begun(self) -> int:
        """Return the last attempt that the pod has begun, 0 while it has not."""
        return gate.begun(self.path)

    def plan(self) -> StartPlan | None:
        """Return what the supervisor was told to start."""
        data = files.read_json(self.path / files.START)
        return None if data is None else start_plan.from_json(data)

    def ports(self) -> GangPorts | None:
        """Return the ports of the pod's gang."""
        plan = self.plan()
        return None if plan is None else gang_ports(plan.env)

    def cores(self) -> tuple[int, ...]:
        """Return the CPUs that the pod stays on."""
        plan = self.plan()
        return () if plan is None else plan.cores

    def failure(self) -> Failure | None:
        """Return what the worker said of its exception."""
        data = files.read_json(self.path / files.FAILURE)
        try:
            return None if data is None else codec.decode(Failure, data)
        except TypeError:
            return None

    def results(self) -> tuple[ResultItem, ...]:
        """Return the values that the worker wants to bring back."""
        data = files.read_any(self.path / files.RESULTS)
        if not isinstance(data, list):
            return ()
        try:
            return tuple(codec.decode(ResultItem, item) for item in data)
        except TypeError:
            return ()

    def progress(self) -> Progress | None:
        """Return what the worker last said of itself."""
        data = files.read_json(self.path / files.PROGRESS)
        try:
            return None if data is None else codec.decode(Progress, data)
        except TypeError:
            return None

    def result_signature(self) -> str | None:
        """Return the signature of the result, None where there is no result."""
        try:
            return (self.path / files.RESULT_SIGNATURE).read_text("ascii").strip()
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def has(self, name: str) -> bool:
        """Whether the mark `name` was set."""
        return (self.path / name).exists()

    def mark(self, name: str) -> None:
        """Set the mark `name`."""
        (self.path / name).touch(0o600)

    def forget_attempt(self) -> None:
        """Remove what the first start left, so that a second one can be told from it; the log stays."""
        for name in ATTEMPT_FILES:
            (self.path / name).unlink(missing_ok=True)

    def retry(self) -> int | None:
        """Return the number of the line with which the log of the second attempt begins; None if there is none."""
        data = files.read_json(self.path / files.RETRIED)
        return None if data is None else int(data["lines"])

    def mark_retry(self) -> None:
        """Note that a second attempt is made, whose log begins here. Raises `OSError` on a full disk."""
        files.write_json(self.path / files.RETRIED, {"lines": next_seq(self.path)})

    def supervisor_errors(self) -> str:
        """Return the last line that a failed supervisor wrote."""
        try:
            text = (self.path / files.SUPERVISOR_ERRORS).read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return text.strip().rpartition("\n")[2]
