"""Who is calling: from what a connection brings to a `Caller`.

Rule: the user's name comes from here and nowhere else; a token is compared in constant time and never logged.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scheduler_service.errors import ConfigurationError
from scheduler_service.ports import ADMIN, READ, REQUEST, Caller

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a connection brings: a bearer token, or on a Unix socket the peer's user id."""

    token: str | None = None
    peer_uid: int | None = None


class Authenticator(Protocol):
    """One way of knowing who calls."""

    async def caller_of(self, credentials: Credentials) -> Caller | None:
        """Return the caller, or None if this way does not know them.

        The last way of all may raise a `RequestError` (401) that says more.
        """
        ...


class TokenAuthenticator:
    """Knows callers by bearer token; keeps digests only."""

    def __init__(self, caller_by_token: Mapping[str, Caller]) -> None:
        self._caller_by_digest = {
            _digest(token): caller for token, caller in caller_by_token.items()
        }

    async def caller_of(self, credentials: Credentials) -> Caller | None:
        """Return whose token it is."""
        if not credentials.token:
            return None
        digest = _digest(credentials.token)
        known: Caller | None = None
        for candidate, caller in self._caller_by_digest.items():
            if hmac.compare_digest(candidate, digest):
                known = caller
        return known


def owner_of_token_file(path: Path) -> TokenAuthenticator:
    """Return the authenticator of the embedded default: who can read the token file is its owner, and admin."""
    owner = Caller(getpass.getuser(), scopes=frozenset({READ, REQUEST, ADMIN}))
    return TokenAuthenticator({token_in(path): owner})


def token_in(path: Path) -> str:
    """Return the token in `path`, made (mode 0600) if it is not there or empty.

    Raises `ConfigurationError` if others may read the file: then everybody on the machine is its owner.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _existing_token(path)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
    return token


def _existing_token(path: Path) -> str:
    if path.stat().st_mode & 0o077:
        raise ConfigurationError(
            f"The token file {path} can be read by others.",
            why="Whoever reads it can end your work.",
            hint=f"Delete it ('rm {path}') and start again: a new one is made.",
        )
    token = path.read_text("ascii", errors="replace").strip()
    if token:
        return token
    path.unlink()  # a crash between creating and writing left it empty
    return token_in(path)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
