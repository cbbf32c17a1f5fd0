"""What the Kubernetes API answers when it does not do what was asked, split by what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_service.errors import BackendError


class KubeError(BackendError):
    """The API declined: HTTP status, Kubernetes' reason word, and its message."""

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after_s: float | None = None
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s
        super().__init__(message or f"The Kubernetes API answered {status} {reason}.".strip())


class Invalid(KubeError):
    """The object breaks a rule of its kind, or admission refused it (400, 422)."""


class Unauthorized(KubeError):
    """The token is not known (any more) (401)."""


class Forbidden(KubeError):
    """The account lacks the right, or a policy refused it (403)."""


class NotFound(KubeError):
    """There is no such object, or no such kind (404)."""


class Conflict(KubeError):
    """It exists already, or somebody changed it meanwhile (409)."""


class Gone(KubeError):
    """That version of the list is no longer kept: list again (410)."""


class TooMany(KubeError):
    """Later: too many requests, or a disruption budget says not now (429)."""


class Unavailable(KubeError):
    """The API could not be reached, took too long, or failed inside (5xx, connection)."""


_BY_STATUS: dict[int, type[KubeError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooMany,
}


class _Details(msgspec.Struct, gc=False, rename="camel"):
    retry_after_seconds: float = 0


class _Status(msgspec.Struct, gc=False):
    reason: str = ""
    message: str = ""
    code: int = 0
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


def error_of(status: int, body: bytes, headers: Mapping[str, Any] | None = None) -> KubeError:
    """Return the error that an answer stands for; the body may be anything."""
    try:
        told = _decode_status(body)
    except msgspec.MsgspecError:
        told = _Status(message=body[:300].decode("utf-8", "replace").strip())
    code = status or told.code
    kind = _BY_STATUS.get(code, Unavailable if code >= 500 else KubeError)  # noqa: PLR2004
    return kind(code, told.reason, told.message, retry_after_s=_retry_after(headers, told))


def _retry_after(headers: Mapping[str, Any] | None, told: _Status) -> float | None:
    text = str((headers or {}).get("Retry-After", ""))
    if text.isdigit():
        return float(text)
    if told.details is not None and told.details.retry_after_seconds > 0:
        return told.details.retry_after_seconds
    return None
