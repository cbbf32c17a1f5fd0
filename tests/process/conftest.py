from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler_service.runner import processes
from scheduler_service.wire.locate import LockFile, start_ticks, write_lock
from scheduler_service.wire.pod_group import Work
from scheduler_service.wire.runner import StartOrder
from scheduler_service.wire.signing import load_or_create_key, sign_work
from tests.fakes import runner_killed, runner_process
from tests.fakes.runner_service import FAIL_SAFE_S, FakeRunnerService

MARK = "KAI_TEST_MARK"
LOOK_S = 0.02


class RunnerWorld:
    """One person's machine: a service (fake), a state directory, and runners that come and go."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.state.mkdir(mode=0o700)
        self.workdir = folder / "work"
        self.workdir.mkdir()
        self.token_file = folder / "token"
        self.token = uuid.uuid4().hex  # ports come back: no runner of another world may be heard
        self.token_file.write_text(self.token)
        self.key = load_or_create_key(self.state / "signing.key")
        self.service = FakeRunnerService(self.token)
        self.port = self.service.open()
        self.mark = uuid.uuid4().hex
        self.lost_after_s = 600.0
        self.runner: subprocess.Popen[bytes] | None = None

    def start_runner(self, *killed_at: str) -> subprocess.Popen[bytes]:
        """Start a runner; `killed_at` = step, number, moment of `tests.fakes.killed_at`."""
        program = runner_killed if killed_at else runner_process
        environ = {name: value for name, value in os.environ.items() if not name.startswith("KAI_")}
        with (self.state / "runner.out").open("ab") as out:
            self.runner = subprocess.Popen(
                [
                    sys.executable,
                    str(program.__file__),
                    f"http://127.0.0.1:{self.port}",
                    str(self.token_file),
                    str(self.state),
                    str(self.lost_after_s),
                    *killed_at,
                ],
                env=environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return self.runner

    def kill_runner(self) -> None:
        """Kill it, as a machine that has no memory left would."""
        if self.runner is not None:
            self.runner.kill()
            self.runner.wait()
            self.runner = None

    def order(self, incarnation: str, *command: str, **changes: object) -> StartOrder:
        """Return a signed order for `command`; `changes` are fields of it."""
        work = Work(command=command, workdir=str(self.workdir), env={MARK: self.mark})
        order = StartOrder(
            incarnation=incarnation,
            namespace="ada",
            group=incarnation,
            pod=f"{incarnation}-0",
            kind="batch",
            rank=0,
            workers=1,
            node="here",
            devices=(),
            fraction_milli=0,
            share_mib=None,
            cpu_milli=0,
            memory_bytes=0,
            grace_s=15,
            token=f"token-{incarnation}",
            work=work,
        )
        order = replace(order, **changes)
        return order if order.work is None else self.sign(order)

    def sign(self, order: StartOrder) -> StartOrder:
        assert order.work is not None
        return replace(order, signature=sign_work(self.key, order.work))

    def gang(self, name: str, workers: int, *command: str, **changes: object) -> list[StartOrder]:
        return [
            self.order(
                f"{name}-{rank}",
                *command,
                group=name,
                kind="gang",
                rank=rank,
                workers=workers,
                **changes,
            )
            for rank in range(workers)
        ]

    def folder(self, incarnation: str) -> Path:
        return self.state / "pods" / self.name(incarnation)

    def name(self, incarnation: str) -> str:
        """Return what runners call a pod."""
        return incarnation + self.service.ending

    def move_service(self) -> None:
        """The service ends and another takes its place on another port, as its lock file says."""
        self.service.close()
        self.port = self.service.open()
        lock = LockFile(
            pid=os.getpid(),
            start_ticks=start_ticks(os.getpid()) or 0,
            port=self.port,
            version="test",
            token_path=str(self.token_file),
        )
        write_lock(self.state, lock)

    def remains(self) -> list[int]:
        """Return the living processes of this world's pods."""
        return processes.marked(MARK, self.mark)

    def close(self) -> None:
        self.kill_runner()
        self.service.close()
        for pid in (*_supervisors(self.state), *self.remains()):
            processes.send((pid,), signal.SIGKILL)


def _supervisors(state: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                argv = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if "scheduler_service.runner.supervisor" in argv and str(state) in argv[-2]:
                found.append(int(entry.name))
    return found


def wait_until(what: str, ask: object) -> None:
    """Wait for something that only the operating system knows of, with a generous fail-safe."""
    give_up = time.monotonic() + FAIL_SAFE_S
    while not ask():  # type: ignore[operator]
        if time.monotonic() > give_up:
            raise AssertionError(f"never seen: {what}")
        time.sleep(LOOK_S)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RunnerWorld]:
    if not processes.has_proc():
        pytest.skip("needs /proc to look for orphans")
    world = RunnerWorld(tmp_path)
    yield world
    world.close()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    mount = shutil.which("mount")
    target = tmp_path / "small"
    target.mkdir()
    size = ["-t", "tmpfs", "-o", "size=1m,mode=700", "kai-test", str(target)]
    if mount is None or subprocess.run([mount, *size], capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system here")
    yield target
    subprocess.run([shutil.which("umount") or "umount", "-l", str(target)], check=True)
