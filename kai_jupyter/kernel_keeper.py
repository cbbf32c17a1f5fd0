"""Ends the GPU kernels of a Jupyter server that was killed and does not come back (`python -m`, beside the server).

A kernel of our provisioner outlives its server, so that the next one takes it up. Nobody would end it otherwise.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kai_jupyter.kernel_records import KernelRecord, lives, read_all, remove
from scheduler_service.wire.pod_group import Process

TURN_S = 1.0
TERM_S = 10.0


def keep(
    server: Process, where: Path, keep_s: float, pause: Callable[[float], None] = time.sleep
) -> None:
    """Wait until `server` has ended, leave its kernels `keep_s` for another server, then end those that are left."""
    while lives(server):
        pause(TURN_S)
    waited = 0.0
    while waited < keep_s and _left(server, where):
        pause(TURN_S)
        waited += TURN_S
    left = _left(server, where)
    for record in left:
        _signal(record, signal.SIGTERM)
    waited = 0.0
    while waited < TERM_S and any(record.is_running for record in left):
        pause(TURN_S)
        waited += TURN_S
    for record in left:
        _signal(record, signal.SIGKILL)
        remove(record.kernel_id, where)


def _left(server: Process, where: Path) -> list[KernelRecord]:
    """Return the kernels of `server` that nobody has taken up. One that ended by itself is none."""
    mine = [record for record in read_all(where) if record.server == server]
    return [record for record in mine if record.process is None or record.is_running]


def _signal(record: KernelRecord, number: signal.Signals) -> None:
    if record.process is None or not record.is_running:
        return
    with contextlib.suppress(OSError):
        group = os.getpgid(record.process.pid)
        if group == record.process.pid:  # a kernel leads its group
            os.killpg(group, number)


def main() -> None:
    """Read the server and the folder from the command line."""
    where, pid, ticks, keep_s = sys.argv[1:]
    keep(Process(pid=int(pid), start_ticks=int(ticks)), Path(where), float(keep_s))


if __name__ == "__main__":
    main()
