"""Whatever becomes of the tests, nothing that they started stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.testbed.binaries import program
from tests.cluster.testbed.namespace import possible
from tests.cluster.testbed.process import Process, wait_until
from tests.cluster.testbed.real_node import ALONE, CGROUP, why_not

ROOT = Path(__file__).resolve().parent.parent.parent
RUN = """
import signal, sys, time
from pathlib import Path
from tests.cluster.testbed.process import Process
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
folder = Path(sys.argv[1])
for name in ("one", "two"):
    code = "import time; time.sleep(1000)  # " + str(folder)
    Process(name, [*sys.argv[2:], sys.executable, "-c", code], log=folder / name).start()
(folder / "started").touch()
time.sleep(1000)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_processes_end_with_who_started_them(tmp_path: Path, how: signal.Signals) -> None:
    """A CI run is cancelled; a person presses Ctrl-C twice; the machine kills for memory."""
    starter = start(tmp_path)
    assert len(naming(tmp_path)) == 3
    starter.send_signal(how)
    starter.wait()
    wait_until(lambda: not naming(tmp_path), "they are gone")


@pytest.mark.skipif(not possible(), reason="namespaces of processes need root")
def test_all_of_a_node_ends_with_who_started_it(tmp_path: Path) -> None:
    """Pods' own processes have no parent that we know; their namespace ends with its first one."""
    starter = start(tmp_path, *ALONE)
    wait_until(lambda: len(naming(tmp_path)) == 5, "both have a process in a namespace of its own")
    wait_until(lambda: len(in_place(tmp_path)) == 2, "they run what they were started for")
    starter.kill()
    starter.wait()
    wait_until(lambda: not naming(tmp_path), "they are gone")


@pytest.mark.slow
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_a_run_that_is_killed_leaves_no_process_of_its_node(tmp_path: Path) -> None:
    """The whole of it: control plane, kubelet, containerd, and a pod that runs on the node."""
    program("kubelet")  # else the run would be building
    command = ["-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/run"]
    tests = ROOT / "tests" / "cluster" / "test_testbed_node.py"
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.Popen(
            [sys.executable, *command, str(tests), "-k", "keeps_its_pods"],
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    wait_until(
        lambda: bool(in_groups(run.pid)) or run.poll() is not None, "a pod runs", fail_safe_s=600
    )
    assert run.poll() is None, (tmp_path / "log").read_text()
    assert len(naming(tmp_path)) > 5
    run.kill()
    run.wait()
    wait_until(lambda: not naming(tmp_path) and not in_groups(run.pid), "all of it is gone")
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


def test_a_process_that_ended_is_never_ended_again(tmp_path: Path) -> None:
    """Its number may belong to somebody else by then."""
    process = Process("short", ["true"], log=tmp_path / "log").start()
    wait_until(lambda: not process.alive, "it ends")
    process.stop()
    successor = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        process._popen.pid = successor.pid
        process.kill()
        assert successor.poll() is None
    finally:
        successor.kill()
        successor.wait()


def test_what_does_not_come_up_says_why(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no such flag'); raise SystemExit(3)"]
    process = Process("broken", command, log=tmp_path / "log").start()
    with pytest.raises(Exception, match=r"broken ended \(3\) before it is ready:\nno such flag"):
        process.wait_until(lambda: False, "it is ready")


def start(folder: Path, *before: str) -> subprocess.Popen[bytes]:
    """Start a program that starts two others, as the tests start a cluster."""
    starter = subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder), *before], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    wait_until((folder / "started").exists, "the processes run")
    return starter


def in_groups(run: int) -> list[str]:
    """Return the processes in the control groups of a run's real node."""
    found: list[str] = []
    for group in Path("/sys/fs/cgroup").glob(f"**/{CGROUP}{run}/**/cgroup.procs"):
        with suppress(OSError):  # groups come and go while we look
            found += group.read_text().split()
    return found


def in_place(folder: Path) -> list[int]:
    """Return those that are past the program that sets their namespace up, and ties them to its end."""
    sleeper = f"{sys.executable}\0-c\0import time; time.sleep(1000)  # {folder}".encode()
    found = []
    for number in naming(folder):
        with suppress(OSError):
            if Path(f"/proc/{number}/cmdline").read_bytes().startswith(sleeper):
                found.append(number)
    return found


def naming(folder: Path) -> list[int]:
    """Return the processes whose command names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in command and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found
