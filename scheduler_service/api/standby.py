"""A process that waits its turn answers with a sentence: another one has what is asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from scheduler_service.api.app import BASE
from scheduler_service.api.problems import problem_of, problem_response
from scheduler_service.errors import RequestError

ALWAYS = frozenset({f"{BASE}/health", f"{BASE}/ready"})
NotNow = Callable[[], RequestError | None]
"""Why nothing can be asked here now; None = it can."""


class Standby:
    """Refuses the API while `not_now` says why, before a caller is looked at; health and readiness are always told."""

    def __init__(self, app: ASGIApp, not_now: NotNow, always: Collection[str] = ALWAYS) -> None:
        self._app = app
        self._not_now = not_now
        self._always = frozenset(always)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        path = scope["path"] if scope["type"] == "http" else ""
        if path.startswith(f"{BASE}/") and path not in self._always:
            refusal = self._not_now()
            if refusal is not None:
                await problem_response(problem_of(refusal))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def install(app: FastAPI, not_now: NotNow) -> None:
    """Make `app` refuse the API while `not_now` says why."""
    app.add_middleware(Standby, not_now=not_now)
