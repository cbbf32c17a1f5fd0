"""What stands before every route: authentication and scope. A route without one of these is a bug, and a test finds it.

They are coroutines though they wait for nothing: FastAPI sends plain functions through a thread
pool, once a request each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import Depends, Request

from scheduler_service.api.authenticators import Authenticator, Credentials
from scheduler_service.api.machine_socket import PEER_UID
from scheduler_service.errors import RequestError
from scheduler_service.ports import ADMIN, READ, REQUEST, Caller, SchedulerPort

SIGN_IN = "Send 'Authorization: Bearer <token>' with the content of the token file in the state directory."
_SCOPE_WORDS = {READ: "look", REQUEST: "ask for devices", ADMIN: "see and end everything"}


class Activity:
    """When somebody last used the service, for the idle exit. Runners do not count: they poll for ever."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self.open_streams = 0

    def touch(self) -> None:
        """Note that a client asked something."""
        self._last = self._clock()

    def idle_s(self) -> float:
        """Return for how long no client has asked anything; 0 while one listens."""
        return 0.0 if self.open_streams else self._clock() - self._last


async def port_of(request: Request) -> SchedulerPort:
    """Return the service behind this application."""
    port: SchedulerPort = request.app.state.port
    return port


async def caller_of(request: Request) -> Caller:
    """Return who asks. Raises `RequestError` (401) for nobody."""
    authenticators: Sequence[Authenticator] = request.app.state.authenticators
    credentials = Credentials(token=_bearer(request), peer_uid=_peer_uid(request))
    for authenticator in authenticators:
        caller = await authenticator.caller_of(credentials)
        if caller is not None:
            return caller
    raise _unknown(
        "The service does not know you.",
        why="The request has no valid token."
        if credentials.token is None
        else "Its token is not the service's.",
        hint=request.app.state.sign_in,
    )


async def reader(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """Return a caller who may look."""
    request.app.state.activity.touch()
    return _with_scope(caller, READ)


async def requester(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """Return a caller who may ask for devices."""
    request.app.state.activity.touch()
    return _with_scope(caller, REQUEST)


async def admin(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """Return a caller who may see everything."""
    request.app.state.activity.touch()
    return _with_scope(caller, ADMIN)


async def runner_owner(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """Return the caller whose runner asks."""
    return _with_scope(caller, REQUEST)


async def own_incarnation(request: Request, incarnation: str) -> str:
    """Return the incarnation of the path if the bearer token is its own. A caller's token opens nothing here."""
    token = _bearer(request)
    port: SchedulerPort = request.app.state.port
    known = await port.incarnation_of_token(token) if token else None
    if known is None:
        raise _unknown(
            "The service does not know this pod.",
            why="The token is not that of a live pod.",
            hint="A pod's token is valid until the pod ends; start the work again.",
        )
    if known != incarnation:
        raise RequestError(
            "There is no such pod.",
            why="The token belongs to another one.",
            hint="Use the incarnation of the order that the token came with.",
            status=404,
            code="not_found",
        )
    return known


def _unknown(what: str, *, why: str, hint: str) -> RequestError:
    return RequestError(what, why=why, hint=hint, status=401, code="unauthenticated")


def _bearer(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _peer_uid(request: Request) -> int | None:
    """Return which account connected, on the machine's socket."""
    state = request.scope.get("state") or {}
    uid = state.get(PEER_UID)
    return uid if isinstance(uid, int) else None


def _with_scope(caller: Caller, scope: str) -> Caller:
    if caller.may(scope):
        return caller
    raise RequestError(
        f"{caller.user} may not {_SCOPE_WORDS[scope]} here.",
        why=f"That needs the scope '{scope}'.",
        hint="Ask whoever runs the service.",
        status=403,
        code="forbidden",
        facts={"scope": scope},
    )


Port = Annotated[SchedulerPort, Depends(port_of)]
Reader = Annotated[Caller, Depends(reader)]
Requester = Annotated[Caller, Depends(requester)]
Admin = Annotated[Caller, Depends(admin)]
RunnerOwner = Annotated[Caller, Depends(runner_owner)]
OwnIncarnation = Annotated[str, Depends(own_incarnation)]

GUARDS = (reader, requester, admin, runner_owner, own_incarnation)
"""What a test looks for on every route."""
