"""The machine-wide Unix socket: every local account may connect, and each request says which one did.

Rule: a socket appears whole, by a rename, and is left where it is when the service ends: a machine whose shared service
is away must not look like one that has none, or people would start services of their own beside it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from pathlib import Path
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from scheduler_service.errors import ConfigurationError

PEER_UID = "peer_uid"
"""Where a request's scope holds the caller's user number, in its `state`."""
HOSTS = frozenset({"kai.localhost", "localhost"})
"""Names under which the socket is spoken to; none of them is looked up."""
EVERYBODY_MAY_CONNECT = 0o666
_BACKLOG = 512
_PEER = struct.Struct("3i")


class PeerProtocol(H11Protocol):
    """HTTP over a Unix socket that notes, for every request of a connection, which account made it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask the kernel who connected."""
        super().connection_made(cast("asyncio.Transport", transport))
        connected = transport.get_extra_info("socket")
        self.app_state = {**self.app_state, PEER_UID: peer_uid(connected)}


def peer_uid(connected: socket.socket) -> int:
    """Return the user number of the process that made a connection, as the kernel noted it then."""
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _pid, uid, _gid = _PEER.unpack(raw)
    return int(uid)


def listen_at(path: Path) -> socket.socket:
    """Return a socket that listens at `path`. Raises `ConfigurationError` if it can not be had."""
    if not hasattr(socket, "SO_PEERCRED"):
        raise ConfigurationError(
            "The shared service needs Linux.",
            why="Only there a socket says which account connected.",
            hint="Let everybody run their own: 'kai serve --embedded'.",
        )
    if _is_served(path):
        raise ConfigurationError(
            f"Another service listens at {path}.",
            why="One machine has one shared service.",
            hint="'systemctl status kai' shows it; choose another place with --socket to try something out.",
        )
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        temporary.unlink(missing_ok=True)
        listening.bind(str(temporary))
        temporary.chmod(EVERYBODY_MAY_CONNECT)
        listening.listen(_BACKLOG)
        temporary.replace(path)
    except OSError as error:
        listening.close()
        raise _unavailable(path, error) from None
    return listening


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        try:
            trial.connect(str(path))
        except OSError:
            return False
    return True


def _unavailable(path: Path, error: OSError) -> ConfigurationError:
    hint = (
        f"Make the folder {path.parent} for the service's account (the file deploy/systemd/kai.tmpfiles.conf does),"
        " or choose another place with --socket or KAI_SOCKET."
    )
    return ConfigurationError(
        f"The service can not listen at {path}.", why=f"{error.strerror or error}.", hint=hint
    )
