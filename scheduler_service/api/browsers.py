"""What a browser must not reach: other names for this address (DNS rebinding) and pages of other origins.

No CORS header is ever sent. Programs send no Origin; the notebook page speaks to its own Jupyter
server, never to this one.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from scheduler_service.api.problems import problem_of, problem_response
from scheduler_service.errors import RequestError

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


class KnownHostsOnly:
    """Refuses requests whose Host or Origin is not one of ours, before anything else looks at them.

    `hosts` None: any Host, where callers have no way in but a token that no browser sends by itself (in a cluster).
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None = LOOPBACK_HOSTS) -> None:
        self._app = app
        self._hosts = None if hosts is None else frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        if scope["type"] == "http":
            refusal = self._refusal(Headers(scope=scope))
            if refusal is not None:
                await problem_response(problem_of(refusal))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> RequestError | None:
        host = host_name(f"//{headers.get('host', '')}")
        ours = frozenset({host}) if self._hosts is None else self._hosts
        if host not in ours:
            return RequestError(
                "This service does not answer to that name.",
                why="It answers to this machine's loopback names only, so that no web page can reach it by another.",
                hint="Use http://127.0.0.1 with the port in the lock file.",
                status=403,
                code="unknown_host",
            )
        origin = headers.get("origin")
        if origin is not None and host_name(origin) not in ours:
            return RequestError(
                "Pages of other origins may not use this service.",
                why="It belongs to programs of this machine.",
                hint="Use the Jupyter extension, which speaks for the page.",
                status=403,
                code="foreign_origin",
            )
        return None


def host_name(url: str) -> str | None:
    """Return the host of `url`, None if it has none or is not an address."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
