"""Signatures of work, payloads and results: HMAC-SHA256 with a key in the owner's own 0600 file.

A shared service never has the key: the person's SDK signs, the person's runner and worker check,
and the other way round for results.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from dataclasses import asdict
from pathlib import Path

from scheduler_service.wire.pod_group import Work

KEY_BYTES = 32


class KeyFileExposed(Exception):
    """The signing key can be read by others, so a signature with it proves nothing."""


def load_or_create_key(path: Path) -> bytes:
    """Return the key in `path`, made (mode 0600) if it is not there. Raises `KeyFileExposed` if others may read it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return load_key(path)
    with os.fdopen(descriptor, "wb") as file:
        key = secrets.token_bytes(KEY_BYTES)
        file.write(key)
    return key


def load_key(path: Path) -> bytes:
    """Return the key in `path`. Raises `FileNotFoundError` or `KeyFileExposed`."""
    if path.stat().st_mode & 0o077:
        raise KeyFileExposed(f"{path} can be read by others. Run: chmod 600 {path}")
    key = path.read_bytes()
    if len(key) < KEY_BYTES:
        raise KeyFileExposed(
            f"{path} is not a whole key. Delete it; a new one is made at the next request."
        )
    return key


def sign_work(key: bytes, work: Work) -> str:
    """Return the signature of `work`, hex."""
    canonical = json.dumps(asdict(work), sort_keys=True, separators=(",", ":")).encode()
    return sign_bytes(key, b"work\0" + canonical)


def is_signed_work(key: bytes, work: Work, signature: str | None) -> bool:
    """Whether `signature` is the owner's for exactly this `work`."""
    return signature is not None and hmac.compare_digest(sign_work(key, work), signature)


def sign_result(key: bytes, incarnation: str, body: bytes) -> str:
    """Return the signature of a result's bytes, bound to the pod incarnation that made it."""
    return sign_bytes(
        key, b"result\0" + incarnation.encode() + b"\0" + hashlib.sha256(body).digest()
    )


def is_signed_result(key: bytes, incarnation: str, body: bytes, signature: str | None) -> bool:
    """Whether `signature` is the owner's for this result of this incarnation."""
    return signature is not None and hmac.compare_digest(
        sign_result(key, incarnation, body), signature
    )


def sign_cell(key: bytes, incarnation: str, cell: str, payload_sha256: str) -> str:
    """Return the signature of a cell, for this companion and this once."""
    return sign_bytes(key, "\0".join(("cell", incarnation, cell, payload_sha256)).encode())


def is_signed_cell(
    key: bytes, incarnation: str, cell: str, payload_sha256: str, *, signature: str
) -> bool:
    """Whether `signature` is the owner's for exactly this cell in this companion."""
    wanted = sign_cell(key, incarnation, cell, payload_sha256)
    return hmac.compare_digest(wanted, signature)


def sign_bytes(key: bytes, message: bytes) -> str:
    """Return HMAC-SHA256 of `message`, hex."""
    return hmac.new(key, message, hashlib.sha256).hexdigest()
