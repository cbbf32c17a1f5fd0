"""The real API on a real loopback socket, around the fake scheduler: in a thread, or as a process of this module.

As a process it writes the lock file and the token into `KAI_STATE_DIR`, as `kai serve` does, and ends on SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from scheduler_service.api.app import create_app
from scheduler_service.api.authenticators import TokenAuthenticator, owner_of_token_file
from scheduler_service.api.server import listen, serve
from scheduler_service.ports import ADMIN, READ, REQUEST, Caller
from scheduler_service.wire import locate
from tests.fakes.scheduler import FakeScheduler

ANA = Caller("ana", groups=frozenset({"vision"}))
BEN = Caller("ben")
EVE = Caller("eve", scopes=frozenset({READ}))
ROOT = Caller("root", scopes=frozenset({READ, REQUEST, ADMIN}))
TOKENS = {"ana-token": ANA, "ben-token": BEN, "eve-token": EVE, "root-token": ROOT}
"""Two users who may ask, one who may only look, one admin."""


class RunningApi:
    """A served fake. `call` runs a coroutine of the fake's in the server's loop and returns what it returns."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        self.scheduler = FakeScheduler()
        self.app = create_app(self.scheduler, [TokenAuthenticator(TOKENS)], **self._options)
        self.loop = asyncio.get_running_loop()
        self.stopping = asyncio.Event()
        listening = listen(0)
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        await serve(self.app, listening, stop=self.stopping, on_listening=self._ready.set)

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=30)

    def begin_stop(self) -> None:
        self.loop.call_soon_threadsafe(self.stopping.set)

    def join(self) -> None:
        self._thread.join(timeout=30)
        assert not self._thread.is_alive(), "the server did not end"

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(timeout=30), "the server did not start"


@contextmanager
def running_api(**options: Any) -> Iterator[RunningApi]:
    """Yield a served fake scheduler, ended afterwards."""
    api = RunningApi(**options)
    api.start()
    try:
        yield api
    finally:
        if api._thread.is_alive():
            api.begin_stop()
        api.join()


async def main() -> None:
    """Serve the fake until SIGTERM."""
    state = locate.state_dir()
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    token = state / "token"
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    listening = listen(int(os.environ.get("KAI_PORT", "0")))
    app = create_app(FakeScheduler(), [owner_of_token_file(token)])
    lock = locate.LockFile(
        pid=os.getpid(),
        start_ticks=locate.start_ticks(os.getpid()) or 0,
        port=listening.getsockname()[1],
        version="0",
        token_path=str(token),
    )
    await serve(app, listening, stop=stop, on_listening=lambda: locate.write_lock(state, lock))


if __name__ == "__main__":
    asyncio.run(main())
