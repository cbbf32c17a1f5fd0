"""Errors to problem+json: one row an error class, and a sentence for what the framework itself refuses."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from scheduler_service.errors import BackendError, ConfigurationError, KaiError, RequestError
from scheduler_service.wire.problem import Problem

log = logging.getLogger("kai.api")

MEDIA_TYPE = "application/problem+json"

_STATUS_BY_ERROR: tuple[tuple[type[KaiError], int, str], ...] = (
    (BackendError, 503, "backend_failed"),
    (ConfigurationError, 503, "configuration"),
    (KaiError, 500, "internal"),
)
_FRAMEWORK_WORDS: dict[int, tuple[str, str, str]] = {
    404: (
        "not_found",
        "There is no such address.",
        "The addresses are listed in /api/v1/openapi.json.",
    ),
    405: (
        "method_not_allowed",
        "This address does not take that method.",
        "The methods are listed in /api/v1/openapi.json.",
    ),
}


def problem_of(error: KaiError) -> Problem:
    """Return `error` in words that travel."""
    if isinstance(error, RequestError):
        return make_problem(error, status=error.status, code=error.code, facts=dict(error.facts))
    status, code = next((s, c) for kind, s, c in _STATUS_BY_ERROR if isinstance(error, kind))
    return make_problem(error, status=status, code=code)


def make_problem(
    error: KaiError, *, status: int, code: str, facts: dict[str, str | int | None] | None = None
) -> Problem:
    """Return the problem that says what `error` says."""
    return Problem(
        type=f"urn:kai:problem:{code}",
        title=error.what,
        status=status,
        detail=error.why,
        hint=error.hint,
        code=code,
        facts=facts or {},
    )


def problem_response(problem: Problem) -> Response:
    """Return `problem` as an answer."""
    headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else None  # noqa: PLR2004 - the HTTP code
    return Response(
        msgspec.json.encode(problem), problem.status, media_type=MEDIA_TYPE, headers=headers
    )


def install(app: FastAPI) -> None:
    """Make `app` answer every error with a problem."""
    table: dict[type[Exception], Callable[..., Awaitable[Response]]] = {
        KaiError: _on_kai_error,
        RequestValidationError: _on_bad_parameter,
        HTTPException: _on_framework_refusal,
        Exception: _on_bug,
    }
    for kind, answer in table.items():
        app.add_exception_handler(kind, answer)


async def _on_kai_error(request: Request, error: KaiError) -> Response:
    problem = problem_of(error)
    if problem.status >= 500:  # noqa: PLR2004 - the HTTP class
        log.error("%s %s: %s", request.method, request.url.path, error)
    return problem_response(problem)


async def _on_bad_parameter(_request: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    name = str(first["loc"][-1])
    refusal = RequestError(
        f"The parameter '{name}' can not be used.",
        why=f"{first['msg']}.",
        hint="The parameters are listed in /api/v1/openapi.json.",
        code="bad_parameter",
        facts={"parameter": name},
    )
    return problem_response(problem_of(refusal))


async def _on_framework_refusal(request: Request, error: HTTPException) -> Response:
    code, what, hint = _FRAMEWORK_WORDS.get(
        error.status_code, ("bad_request", f"{error.detail}.", "Check the request.")
    )
    refusal = RequestError(what, why=f"You asked {request.method} {request.url.path}.", hint=hint)
    return problem_response(make_problem(refusal, status=error.status_code, code=code))


async def _on_bug(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    bug = KaiError(
        "The service failed to answer.",
        why="This is a fault of the service, not of your request.",
        hint="Its log says more; please report it.",
    )
    return problem_response(problem_of(bug))
