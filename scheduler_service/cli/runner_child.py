"""The runner that the embedded service starts: a child in its own session, so that it outlives the service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from pathlib import Path

from scheduler_service.cli.endings import OK, USAGE

log = logging.getLogger("kai.serve")

_RUNNER = (sys.executable, "-c", "from scheduler_service.cli import main; main()", "runner")
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
POLL_S = 0.5
OTHER_PAUSE_S = 10.0
_LEFT = frozenset({OK, USAGE})
"""Sent away, or another runner holds the state directory (it finds a new service by itself)."""


class RunnerChild:
    """Keeps one runner alive. One that survived an earlier service makes ours leave; then we look again later."""

    def __init__(self, state: Path, *, url: str) -> None:
        self._state = state
        self._url = url

    async def keep(self, stop: asyncio.Event) -> None:
        """Start the runner, and start it again when it ended, with growing pauses, until `stop`."""
        pause = FIRST_PAUSE_S
        while not stop.is_set():
            process = self._start()
            code = await _ended(process, stop)
            if code is None:
                return
            log.info("the runner (process %s) ended with code %s", process.pid, code)
            pause = OTHER_PAUSE_S if code in _LEFT else min(2 * pause, LONGEST_PAUSE_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause)

    def _start(self) -> subprocess.Popen[bytes]:
        state = self._state.absolute()
        path = state / "runner.log"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as out:
            return subprocess.Popen(
                [
                    *_RUNNER,
                    "--url",
                    self._url,
                    "--token-file",
                    state / "token",
                    "--state-dir",
                    state,
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=state,
                env={**os.environ, "KAI_STATE_DIR": str(state)},
                start_new_session=True,
            )


async def _ended(process: subprocess.Popen[bytes], stop: asyncio.Event) -> int | None:
    """Return the exit code, or None if the service stops first; the runner then goes on by itself.

    It polls: waiting in a thread, or through asyncio's own subprocesses, would tie the runner's life to ours.
    """
    while not stop.is_set():
        code = process.poll()
        if code is not None:
            return code
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), POLL_S)
    return None
