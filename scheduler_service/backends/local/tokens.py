"""Tokens and seals of pod incarnations: made with a key that only the service has, so that none is stored.

A token opens the routes of its own incarnation (payload, result, logs) while that incarnation lives. A seal is what
the books said of a pod when it was given to its runner; a service that lost its books believes no other word.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

import msgspec
from msgspec.structs import replace

from scheduler_service.store.records import GroupRecord, PodRecord

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(GroupRecord).decode


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

    def seal(self, record: GroupRecord, pod: PodRecord) -> str:
        """Return the seal of one pod: its group with this pod alone, whichever runner it is given to."""
        body = _encode(replace(record, pods=(replace(pod, runner=None),))).decode()
        return f"{self._mac_of_seal(body)}.{body}"

    def unsealed(self, seal: str) -> GroupRecord | None:
        """Return the group with its one pod, or None for a seal that we did not make."""
        mac, _, body = seal.partition(".")
        if not mac.isascii() or not hmac.compare_digest(mac, self._mac_of_seal(body)):
            return None
        try:
            return _decode(body)
        except (
            msgspec.ValidationError
        ):  # made by another version, of records that this one can not read
            return None

    def _mac(self, incarnation: str) -> str:
        return hmac.new(self._key, b"pod\0" + incarnation.encode(), hashlib.sha256).hexdigest()

    def _mac_of_seal(self, body: str) -> str:
        message = b"seal\0" + body.encode(errors="surrogatepass")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()


def new_incarnation() -> str:
    """Return a name for one start of one pod; never given twice."""
    return secrets.token_hex(8)
