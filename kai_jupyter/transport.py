"""What the blocking and the asynchronous client share: options, answers and errors of HTTP. Nothing here sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from kai_jupyter import calls
from kai_jupyter.errors import KaiRequestError, ServiceUnreachable
from kai_jupyter.finding import Endpoint
from scheduler_service.wire.codec import decode
from scheduler_service.wire.problem import Problem

FOLLOW_WAIT_S = 20.0
STREAM_SILENCE_S = 60.0
"""The service sends a comment every few seconds, so a stream this silent is a dead one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBody:
    """A result's bytes with what proves who made them. Not yet verified."""

    body: bytes
    signature: str
    incarnation: str


def problem_of(status: int, content_type: str, body: bytes) -> Problem:
    """Return the problem that a bad answer tells; one is made for answers that are not ours."""
    if "json" in content_type:
        try:
            return decode(Problem, json.loads(body))
        except (ValueError, TypeError):
            pass
    return Problem(
        type="about:blank",
        title=f"The service answered {status} without a reason.",
        status=status,
        detail="What answers at this address may not be the scheduler service of this version.",
        hint="`jupyter kai doctor` checks every link.",
        code="not_ours",
    )


def unreachable(endpoint: Endpoint, error: httpx.TransportError) -> ServiceUnreachable:
    """Return the error to raise when nothing answered at `endpoint`."""
    where = endpoint.socket or endpoint.url
    what = (
        "did not answer in time" if isinstance(error, httpx.TimeoutException) else "does not answer"
    )
    return ServiceUnreachable(
        f"The queue {what} ({where}). What runs goes on running and places are kept. "
        "Try again, or see `jupyter kai doctor`."
    )


def checked(answer: httpx.Response) -> httpx.Response:
    """Return a good answer as it is; raise `KaiRequestError` for a bad one."""
    if answer.is_success:
        return answer
    kind = answer.headers.get("content-type", "")
    raise KaiRequestError(problem_of(answer.status_code, kind, answer.content))


def options(endpoint: Endpoint) -> dict[str, Any]:
    """Options of httpx for `endpoint`; no proxy of the environment ever sees loopback traffic."""
    headers = {"Accept": "application/json"}
    if endpoint.token:
        headers["Authorization"] = f"Bearer {endpoint.token}"
    is_local = (
        endpoint.socket is not None or "//127." in endpoint.url or "//localhost" in endpoint.url
    )
    return {
        "base_url": endpoint.url,
        "headers": headers,
        "trust_env": not is_local,
        "timeout": httpx.Timeout(30.0, connect=5.0),
    }


def timeout(patience_s: float) -> httpx.Timeout:
    """Return httpx's limits for an answer that may take `patience_s`."""
    return httpx.Timeout(patience_s, connect=5.0)


def stream_request(since: int | None) -> dict[str, Any]:
    """Return the request of the event stream that resumes after revision `since`."""
    headers = {"Accept": "text/event-stream"}
    if since is not None:
        headers["Last-Event-ID"] = str(since)
    return {
        "method": "GET",
        "url": f"{calls.API}/events",
        "headers": headers,
        "timeout": httpx.Timeout(30.0, connect=5.0, read=STREAM_SILENCE_S),
    }


def result_of(headers: Mapping[str, str], body: bytes) -> ResultBody:
    """Return the result that an answer carries."""
    return ResultBody(
        body=body,
        signature=headers.get("X-Kai-Signature", ""),
        incarnation=headers.get("X-Kai-Incarnation", ""),
    )
