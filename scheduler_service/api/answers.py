"""Answers out: wire types as JSON, written by msgspec (a list of 1,000 groups takes milliseconds, not seconds)."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

_encoder = msgspec.json.Encoder()


def to_json(value: object) -> bytes:
    """Return a wire type as JSON."""
    return _encoder.encode(value)


def answer(value: object, *, status: int = 200) -> Response:
    """Return a wire type as an answer that no cache keeps."""
    return Response(
        to_json(value),
        status,
        media_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
