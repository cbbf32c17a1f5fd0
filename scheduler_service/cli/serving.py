"""The life of a service process: alone in its state directory, found by its lock file, ended by signal or idleness."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler_service.api.app import create_app
from scheduler_service.api.authenticators import Authenticator, owner_of_token_file
from scheduler_service.api.browsers import LOOPBACK_HOSTS
from scheduler_service.api.guards import Activity
from scheduler_service.api.hub import HubAuthenticator, asks_hub
from scheduler_service.api.server import listen, serve
from scheduler_service.cli.demo import with_demo
from scheduler_service.cli.output import version
from scheduler_service.cli.runner_child import RunnerChild
from scheduler_service.errors import ConfigurationError
from scheduler_service.ports import ADMIN, Caller, SchedulerPort
from scheduler_service.simulate.crowd import Crowd
from scheduler_service.wire import locate
from scheduler_service.wire.pod_group import TERMINAL_STATES

if TYPE_CHECKING:
    from fastapi import FastAPI

    from scheduler_service.settings.table import Settings

log = logging.getLogger("kai.serve")

IDLE_CHECKS = 20
"""How many times in the idle time it is looked whether it is over."""
ITSELF = Caller("kai", scopes=frozenset({ADMIN}))


@contextlib.contextmanager
def only_one(state: Path) -> Iterator[str | None]:
    """Hold the state directory; yield None, or if another service holds it, the sentence that says where it is."""
    descriptor = _opened(state)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield _where_it_is(state)
    else:
        yield None
    finally:
        os.close(descriptor)


def _opened(state: Path) -> int:
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(state / "serving.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigurationError(
            f"The state directory {state} can not be used.",
            why=f"{error.strerror}.",
            hint="Choose another with --state-dir or KAI_STATE_DIR.",
        ) from None


def _where_it_is(state: Path) -> str:
    lock = locate.read_lock(state)
    if lock is None:
        return f"A service for {state} is starting or ending. Try again in a moment."
    return f"The service already runs: {lock.url} (process {lock.pid}). 'kai stop' ends it."


async def run(settings: Settings) -> None:
    """Serve until a signal, or in embedded mode until nobody needs it."""
    from scheduler_service.service import Service

    settings = with_demo(settings)
    refuse_missing(settings.queues)
    state = settings.state_dir
    authenticators: list[Authenticator] = [owner_of_token_file(state / "token")]
    if settings.hub_url:
        authenticators.append(HubAuthenticator(asks_hub(settings.hub_url)))
    listening = _listen(settings)
    service = await Service.open(settings, version=version())
    await service.start()
    try:
        app = create_app(
            service,
            authenticators,
            hosts=LOOPBACK_HOSTS | {settings.host},
            payload_limit_bytes=settings.payload_limit_mib << 20,
            result_limit_bytes=settings.result_limit_mib << 20,
            version=version(),
        )
        await _serve(app, listening, settings)
    finally:
        await service.stop()


def refuse_missing(queues: Path | None) -> None:
    """A queue file that was named and is not there is a slip of the pen, not a wish for the default queue."""
    if queues is not None and not queues.is_file():
        raise ConfigurationError(
            f"There is no queue file {queues}.",
            why="It was named with --queues, KAI_QUEUES or in kai.yaml.",
            hint="Correct the name, or leave it out: then all is one queue.",
        )


def _listen(settings: Settings) -> socket.socket:
    """Return the socket; with no port chosen the last one is taken again, so that old addresses stay good."""
    if settings.port == 0:
        with contextlib.suppress(ConfigurationError):
            return listen(_last_port(settings.state_dir), host=settings.host)
    return listen(settings.port, host=settings.host)


def _last_port(state: Path) -> int:
    try:
        return int((state / "last-port").read_text("ascii"))
    except (OSError, ValueError):
        return 0


async def _serve(app: FastAPI, listening: socket.socket, settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    lock = _lock(settings.state_dir, listening)
    ended = asyncio.ensure_future(stop.wait())
    async with _beside(app, settings, lock, stop=stop):
        ended.add_done_callback(lambda _: _forget(settings.state_dir))
        await serve(
            app, listening, stop=stop, on_listening=lambda: _announce(settings.state_dir, lock)
        )
    ended.cancel()
    log.info("ended")


@contextlib.asynccontextmanager
async def _beside(
    app: FastAPI, settings: Settings, lock: locate.LockFile, *, stop: asyncio.Event
) -> AsyncIterator[None]:
    """Run what goes beside the server: the runner's child process, and the watch for idleness."""
    beside: list[asyncio.Task[None]] = []
    if settings.start_runner:
        child = RunnerChild(settings.state_dir, url=lock.url)
        beside.append(asyncio.create_task(child.keep(stop)))
    crowd = Crowd(app.state.port, scale=settings.time_scale) if settings.demo else None
    if crowd is not None:
        beside.append(asyncio.create_task(crowd.run(stop)))
    if settings.embedded and settings.idle_exit_s:
        idle_s = settings.idle_exit_s
        watch = end_when_idle(
            app.state.port,
            app.state.activity,
            idle_s,
            stop=stop,
            check_s=idle_s / IDLE_CHECKS,
            made_up=crowd.names if crowd else frozenset(),
        )
        beside.append(asyncio.create_task(watch))
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*beside)


async def end_when_idle(
    port: SchedulerPort,
    activity: Activity,
    idle_exit_s: float,
    *,
    stop: asyncio.Event,
    check_s: float,
    made_up: frozenset[str] = frozenset(),
) -> None:
    """Set `stop` once no client has asked for `idle_exit_s` and no request is live; look each `check_s`.

    What the people of a demo (`made_up`) ask for keeps nobody waiting.
    """
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), check_s)
        if activity.idle_s() < idle_exit_s or stop.is_set():
            continue
        listed = await port.groups(ITSELF, queue=None, state=None, mine=False)
        real = [group for group in listed.items if group.owner not in made_up]
        if all(group.state in TERMINAL_STATES for group in real):
            log.info("nobody asked for %s s and nothing runs", round(idle_exit_s))
            stop.set()


def _lock(state: Path, listening: socket.socket) -> locate.LockFile:
    return locate.LockFile(
        pid=os.getpid(),
        start_ticks=locate.start_ticks(os.getpid()) or 0,
        port=listening.getsockname()[1],
        version=version(),
        token_path=str((state / "token").absolute()),
    )


def _announce(state: Path, lock: locate.LockFile) -> None:
    (state / "last-port").write_text(str(lock.port), "ascii")
    locate.write_lock(state, lock)
    click.echo(f"kai {lock.version} listens on {lock.url}, state in {state}. 'kai stop' ends it.")


def _forget(state: Path) -> None:
    """Remove the lock file as soon as the end begins, so that nobody finds a service that is going."""
    lock = locate.read_lock(state)
    if lock is not None and lock.pid == os.getpid():
        locate.lock_path(state).unlink(missing_ok=True)
