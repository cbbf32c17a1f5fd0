"""`kai runner`: one a state directory, until the service sends it away."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from scheduler_service.errors import ConfigurationError
from scheduler_service.runner.options import (
    ALONE_EXIT_SHARED_S,
    LOST_AFTER_S,
    RunnerOptions,
)
from scheduler_service.runner.runner import Runner
from scheduler_service.wire import locate
from scheduler_service.wire.locate import SOCKET_URL

LOCK_NAME = locate.RUNNER_LOCK


def run_runner(
    *, url: str, token_file: Path, state_dir: Path, lost_after_s: float = LOST_AFTER_S
) -> None:
    """Run until sent away or signalled; what runs goes on. Raises `ConfigurationError` if there is a runner already."""
    _run_alone(
        RunnerOptions(
            url=url, token_file=token_file, state_dir=state_dir, lost_after_s=lost_after_s
        )
    )


def run_own_runner(*, socket: Path, state_dir: Path, key_file: Path) -> None:
    """Run this person's runner for the shared service behind `socket`, until signalled; else as `run_runner`."""
    _run_alone(
        RunnerOptions(
            url=SOCKET_URL,
            token_file=None,
            state_dir=state_dir,
            socket=socket,
            key_file=key_file,
            alone_exit_s=ALONE_EXIT_SHARED_S,
        )
    )


def _run_alone(options: RunnerOptions) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    options.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    options.pods_dir.mkdir(mode=0o700, exist_ok=True)
    with only_runner(options.state_dir):
        asyncio.run(_run(options))


@contextlib.contextmanager
def only_runner(state_dir: Path) -> Iterator[None]:
    """Hold the state directory's runner lock, or raise `ConfigurationError`."""
    path = state_dir / LOCK_NAME
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ConfigurationError(
            f"A runner already works in {state_dir}.",
            why="Two would start the same pods twice.",
            hint="It finds a new service by itself; there is nothing to do.",
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


async def _run(options: RunnerOptions) -> None:
    loop = asyncio.get_running_loop()
    work = asyncio.create_task(Runner(options).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work
