"""The one process of a pod in a cluster: its output is the container's, signals reach all of it, orphans are collected.

Rule: standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from types import FrameType

from scheduler_service.runner import child
from scheduler_service.runner.start_plan import StartPlan

PASSED_ON = (signal.SIGTERM, signal.SIGINT)
BY_SIGNAL = 128
LEFTOVER_GRACE_S = 5.0
"""For what the main process left behind, as on one machine."""
LOOK_S = 0.02


def run(plan: StartPlan) -> tuple[int, str | None]:
    """Run the plan's process to its end; return its exit code as a shell tells it, and the signal that ended it."""
    child.adopt_orphans()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    process = subprocess.Popen(
        plan.argv,
        env=plan.env,
        cwd=plan.cwd,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, blocked),  # noqa: PLW1509 - one thread
    )

    def pass_on(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    try:
        code = os.waitstatus_to_exitcode(_status_of(process.pid))
        _end_what_is_left(process.pid)
    finally:
        process.returncode = 0  # collected here
        for number, handler in before.items():
            signal.signal(number, handler)
    return (code, None) if code >= 0 else (BY_SIGNAL - code, signal.Signals(-code).name)


def _status_of(pid: int) -> int:
    """Wait for a process, collecting every other that ends meanwhile: in a container they all end up with us."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return status


def _end_what_is_left(group: int) -> None:
    """End the rest of a process group; where this is no container's first process, nobody else would."""
    end = time.monotonic() + LEFTOVER_GRACE_S
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)
        while time.monotonic() < end:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
            os.killpg(group, 0)
            time.sleep(LOOK_S)
        os.killpg(group, signal.SIGKILL)
