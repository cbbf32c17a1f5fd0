"""The listening process: a socket that says in words why it can not be had, and uvicorn that ends when told."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI

from scheduler_service.api.streams import Closing
from scheduler_service.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
GRACE_S = 3
"""Answers under way get so long once the service closes; streams and long polls end at once."""


def listen(port: int, *, host: str = LOOPBACK) -> socket.socket:
    """Return a socket that listens on `port` (0: any free one). Raises `ConfigurationError` if it can not be."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(512)
    except (OSError, OverflowError, UnicodeError) as error:
        listening.close()
        raise _unavailable(host, port, error) from None
    return listening


def _unavailable(host: str, port: int, error: Exception) -> ConfigurationError:
    what = f"The service can not listen on port {port}."
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE or isinstance(error, OverflowError):
        why = "There is no such port." if number is None else "Another program listens there."
        hint = "Choose another with --port, or --port 0 for any free one."
    elif number == errno.EACCES:
        why = "Ports below 1024 are for the system."
        hint = "Choose one above, or --port 0 for any free one."
    else:
        what = f"The service can not listen on the address '{host}'."
        why = f"{error.strerror}." if isinstance(error, OSError) else "It is no name of a machine."
        hint = "Name one of this machine with --host, like 127.0.0.1."
    return ConfigurationError(what, why=why, hint=hint)


class _Server(uvicorn.Server):
    """Uvicorn that leaves the signals to whoever runs it, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self.listening.set()


async def serve(
    app: FastAPI,
    listening: socket.socket,
    *,
    stop: asyncio.Event,
    on_listening: Callable[[], None],
    protocol: type[asyncio.Protocol] | None = None,
) -> None:
    """Serve `app` until `stop`; then end its streams, let answers finish, and return.

    `protocol`: what speaks HTTP on a connection, where it must know more of it than the bytes.
    """
    config = uvicorn.Config(
        app,
        http=protocol or "auto",
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve([listening]))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await _either(serving, asyncio.ensure_future(server.listening.wait()))
        on_listening()
        await _either(serving, stopping)
    finally:
        closing: Closing = app.state.closing
        closing.begin()
        server.should_exit = True
        stopping.cancel()
        await serving


async def _either(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
