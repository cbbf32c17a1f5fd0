"""Tokens of pod incarnations: derived, so that none is stored and a restart changes none.

A token opens the routes of its own incarnation (payload, result, logs) while that incarnation lives.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets


class PodTokens:
    """Makes and checks tokens with a key that only the service has."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def token_of(self, incarnation: str) -> str:
        """Return the token of an incarnation; always the same one."""
        return f"{incarnation}.{self._mac(incarnation)}"

    def incarnation_of(self, token: str) -> str | None:
        """Return whose token this is, or None for one that we did not make."""
        incarnation, _, mac = token.rpartition(".")
        if not incarnation or not mac.isascii():
            return None
        return incarnation if hmac.compare_digest(mac, self._mac(incarnation)) else None

    def _mac(self, incarnation: str) -> str:
        return hmac.new(self._key, b"pod\0" + incarnation.encode(), hashlib.sha256).hexdigest()


def new_incarnation() -> str:
    """Return a name for one start of one pod; never given twice."""
    return secrets.token_hex(8)
