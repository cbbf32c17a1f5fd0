from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.runner import files, gate, processes, start_plan, supervision
from scheduler_service.runner.log_files import LogReader, dropped_lines, segments_of
from scheduler_service.runner.pod_folder import PodFolder
from scheduler_service.wire.locate import start_ticks
from tests.process.conftest import FAIL_SAFE_S, RunnerWorld, wait_until

pytestmark = pytest.mark.process

BEAT = "beat"


@contextlib.contextmanager
def supervise(folder: Path, *argv: str, **changes: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a supervisor on a folder made for `argv`, told to go, and be sure that it is gone afterwards."""
    with ready(folder, *argv, **changes) as process:
        assert gate.say_go(folder)
        look(process)
        yield process
        process.wait(FAIL_SAFE_S)


def look(process: subprocess.Popen[bytes]) -> None:
    """End the pipe of a supervisor that stands ready."""
    assert process.stdin is not None
    process.stdin.close()


@contextlib.contextmanager
def ready(folder: Path, *argv: str, **changes: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a supervisor until it waits for go (or is over), and be sure that it is gone afterwards."""
    bounds = changes.pop("preexec_fn", None)
    folder.mkdir(exist_ok=True)
    plan = start_plan.StartPlan(
        argv=argv,
        env={"PATH": os.environ["PATH"], "KAI_INCARNATION": folder.name},
        cwd=str(folder),
        heartbeat=str(folder / BEAT),
    )._replace(**changes)
    files.write_json(folder / files.START, start_plan.to_json(plan))
    process = subprocess.Popen(
        [sys.executable, "-P", "-S", "-m", "scheduler_service.runner.supervisor", str(folder)],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.PIPE,
        preexec_fn=bounds,  # noqa: PLW1509 - the test has no other thread
    )
    try:
        wait_until("ready", lambda: gate.is_ready(folder) or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(folder: Path) -> dict[str, Any]:
    wait_until("the end", (folder / files.EXIT).exists)
    return json.loads((folder / files.EXIT).read_text())


def lines_of(folder: Path) -> list[str]:
    lines, _ = LogReader(folder).read(10**6, max_bytes=10**9)
    return [line.text for line in lines]


def test_nothing_is_executed_before_go(tmp_path: Path) -> None:
    """The runner is killed while the supervisor waits: it ends, and whoever comes next can not let it begin."""
    folder = tmp_path / "pod"
    with ready(folder, "touch", "ran") as supervisor:
        assert processes.descendants(supervisor.pid) == []
        look(supervisor)
        assert supervisor.wait(FAIL_SAFE_S) == 0
    assert not gate.say_go(folder)
    assert (gate.begun(folder), (folder / files.EXIT).exists()) == (0, False)
    assert not (folder / "ran").exists()


def test_a_signal_ends_one_that_waits(tmp_path: Path) -> None:
    """The machine is shut down."""
    folder = tmp_path / "pod"
    with ready(folder, "touch", "ran") as supervisor:
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(FAIL_SAFE_S) == 0
    assert not gate.say_go(folder)
    assert not (folder / "ran").exists()


def test_go_holds_though_its_runner_is_killed_at_once(tmp_path: Path) -> None:
    """Killed between go and the end of the pipe: the pipe ends with the runner."""
    folder = tmp_path / "pod"
    with ready(folder, "touch", "ran") as supervisor:
        assert gate.say_go(folder)
        assert not gate.give_up(folder)
        assert gate.begun(folder) == 1
        look(supervisor)
        assert ended(folder)["exit_code"] == 0
        supervisor.wait(FAIL_SAFE_S)
    assert (folder / "ran").exists()


def test_the_word_of_a_killed_supervisor_is_not_taken_for_the_next_ones(tmp_path: Path) -> None:
    folder = tmp_path / "pod"
    with ready(folder, "true") as killed:
        killed.kill()
        killed.wait(FAIL_SAFE_S)
    assert gate.is_ready(folder)
    child = supervision.spawn(PodFolder(folder))
    assert isinstance(child, subprocess.Popen)
    wait_until("ready", lambda: gate.is_ready(folder))
    assert (files.read_json(folder / files.WAITING) or {})["pid"] == child.pid
    look(child)
    assert child.wait(FAIL_SAFE_S) == 0


def test_what_can_not_start_is_told_before_it_is_ready(tmp_path: Path) -> None:
    """So the other workers of its gang never begin."""
    folder = tmp_path / "pod"
    with ready(folder, "./no-such-program") as supervisor:
        assert supervisor.wait(FAIL_SAFE_S) == 0
    assert ended(folder)["reason_code"] == "command_not_found"
    assert not gate.is_ready(folder)


def test_the_log_is_rotated_and_the_numbers_go_on(tmp_path: Path) -> None:
    """A chatty program: the newest lines stay, the reader is told how many it missed."""
    folder = tmp_path / "pod"
    script = "for n in range(5000): print('line', n)"
    with supervise(folder, sys.executable, "-c", script, log_segment_bytes=4096, log_segments=3):
        assert ended(folder)["exit_code"] == 0
    assert len(segments_of(folder)) == 3
    assert all(path.stat().st_size <= 4096 for _, path in segments_of(folder))
    lines, lost = LogReader(folder).read(10**6, max_bytes=10**9)
    assert lines[-1].text == "line 4999"
    assert [line.seq for line in lines] == list(range(lost, 5000))


def own_lines_of(folder: Path) -> list[str]:
    """Return what the program wrote, without what the supervisor says of it."""
    return [text for text in lines_of(folder) if not text.startswith("kai: ")]


def _accounted(folder: Path) -> int:
    return len(own_lines_of(folder)) + dropped_lines(folder)


def fill(disk: Path) -> Path:
    """Take all the room there is; return the file that holds it."""
    hog = disk / "hog"
    with hog.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    assert shutil.disk_usage(disk).free == 0
    return hog


def test_a_full_disk_drops_lines_tells_it_and_the_pod_goes_on(full_disk: Path) -> None:
    """The disk fills while the program writes, room is made, and it goes on writing."""
    folder = full_disk / "pod"
    folder.mkdir()
    os.mkfifo(folder / "go")
    script = (
        "print('before', flush=True); open('go').read();"
        "print('\\n'.join(f'during {n} ' + 70 * '.' for n in range(200)), flush=True);"
        "open('go').read(); print('after', flush=True)"
    )
    with supervise(folder, sys.executable, "-c", script):
        wait_until("the first line", lambda: "before" in lines_of(folder))
        hog = fill(full_disk)
        (folder / "go").write_text("x")
        wait_until("the last line", lambda: _accounted(folder) == 201)
        hog.unlink()
        (folder / "go").write_text("x")
        assert ended(folder)["exit_code"] == 0
    lost = dropped_lines(folder)
    during = [f"during {n} " + 70 * "." for n in range(200 - lost)]
    assert lost > 100
    assert own_lines_of(folder) == ["before", *during, "after"]
    notes = [text for text in lines_of(folder) if text.startswith("kai: ")]
    assert sum(int(text.split()[1]) for text in notes) == lost
    assert "of output lost here, because the disk for logs was full." in notes[-1]


def test_a_file_size_limit_drops_lines_and_the_end_is_still_told(tmp_path: Path) -> None:
    folder = tmp_path / "pod"

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))

    script = "for n in range(3000): print('line', n)"
    with supervise(folder, sys.executable, "-c", script, preexec_fn=bound):
        assert ended(folder)["exit_code"] == 0
    kept = own_lines_of(folder)
    assert 0 < len(kept) < 3000
    assert dropped_lines(folder) == 3000 - len(kept)


def test_no_room_to_begin_with_is_told(full_disk: Path) -> None:
    world = RunnerWorld(full_disk)
    try:
        fill(full_disk)
        world.start_runner()
        world.service.grant(world.order("a", "true"))
        end = world.service.wait_ended("a")
        assert end.reason_code == "disk_full"
        assert "Make room there" in end.reason_text
    finally:
        world.close()


def test_sigterm_alone_is_an_order_to_stop(tmp_path: Path) -> None:
    """The disk is so full that no order could be written."""
    folder = tmp_path / "pod"
    with supervise(
        folder, "sh", "-c", "trap '' TERM; echo up; sleep 1000", grace_s=0.2
    ) as supervisor:
        wait_until("its line", lambda: "up" in lines_of(folder))
        supervisor.send_signal(signal.SIGTERM)
        assert ended(folder)["signal"] == "SIGKILL"
    assert processes.marked("KAI_INCARNATION", folder.name) == []


def test_a_signal_from_outside_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "pod"
    with supervise(folder, "sh", "-c", "kill -SEGV $$"):
        end = ended(folder)
    assert (end["exit_code"], end["signal"], end["reason_code"]) == (None, "SIGSEGV", "killed")
    assert "SIGSEGV" in end["reason_text"]


def test_a_child_that_left_the_session_and_its_parent_is_found(tmp_path: Path) -> None:
    """A daemon: two forks and a session of its own, its environment wiped."""
    folder = tmp_path / "pod"
    script = (
        "import os\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.execve('/bin/sleep', ['sleep', '1000'], {})\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print('up', flush=True)\n"
        "import time; time.sleep(1000)\n"
    )
    with supervise(folder, sys.executable, "-c", script) as supervisor:
        wait_until("its line", lambda: "up" in lines_of(folder))
        family = processes.descendants(supervisor.pid)
        assert len(family) == 2
        files.write_json(folder / files.STOP, {"grace_s": 5, "reason": "cancelled"})
        supervisor.send_signal(signal.SIGTERM)
        assert ended(folder)["reason_code"] == "stopped"
        supervisor.wait(FAIL_SAFE_S)
    assert [pid for pid in family if start_ticks(pid) is not None] == []


def test_prompts_and_progress_bars_are_seen_before_their_line_ends(tmp_path: Path) -> None:
    folder = tmp_path / "pod"
    script = r"printf 'step 1\rstep 2\rstep 3'; sleep 1000"
    with supervise(folder, "sh", "-c", script) as supervisor:
        wait_until("its last redraw", lambda: lines_of(folder) == ["step 3"])
        supervisor.send_signal(signal.SIGTERM)
        ended(folder)


def test_files_are_the_persons_alone(tmp_path: Path) -> None:
    folder = tmp_path / "pod"
    with supervise(folder, "echo", "secret"):
        ended(folder)
    modes = {path.name: path.stat().st_mode & 0o077 for path in folder.iterdir()}
    assert set(modes.values()) == {0}, modes


def test_a_start_that_is_not_whole_is_told(tmp_path: Path) -> None:
    (tmp_path / files.START).write_text('{"argv": ["true"')
    answer = subprocess.run(
        [sys.executable, "-m", "scheduler_service.runner.supervisor", str(tmp_path)],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert answer.stderr == f"{tmp_path / files.START} is missing or not whole: nothing to start.\n"
