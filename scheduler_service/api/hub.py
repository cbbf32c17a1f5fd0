"""Who calls by a token of JupyterHub: the hub is asked who it is and what they may, and believed for a short while.

Rules: 1. A token is only ever sent to the hub; here it is known by a digest that no other process can make.
2. What somebody may is the hub's to say, by its scopes `custom:kai:…`; a person without one may nothing here.
3. An answer is believed for a minute at most, so a right that was taken away ends soon; a refusal shorter.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import httpx

from scheduler_service.api.authenticators import Credentials
from scheduler_service.errors import RequestError
from scheduler_service.ports import ADMIN, LEAD_PREFIX, READ, REQUEST, Caller

SCOPE_PREFIX = "custom:kai:"
GROUP_FILTER = "group="
SERVICE_PREFIX = "service:"
"""Before the name of a hub service, so that no service passes for a person."""
BELIEVED_S = 60.0
STRANGER_S = 10.0
PATIENCE_S = 5.0
MOST_TOKENS = 4096
OK, REFUSED = 200, (401, 403)


AskHub = Callable[[str], Awaitable[dict[str, Any] | None]]
"""Given a token, returns the hub's model of its user or service, None where it knows none.

Raises `httpx.HTTPError` where the hub does not answer.
"""


def asks_hub(url: str) -> AskHub:
    """Return how the hub at `url` (its API, such as http://127.0.0.1:8081/hub/api) is asked."""
    address = f"{url.rstrip('/')}/user"

    async def ask(token: str) -> dict[str, Any] | None:
        # No proxy of the environment sees a token; one connection a question, as they are rare.
        async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as http:
            answer = await http.get(address, headers={"Authorization": f"token {token}"})
        if answer.status_code in REFUSED:
            return None
        if answer.status_code != OK:
            raise httpx.HTTPError(f"it answered {answer.status_code}")
        try:
            model = answer.json()
        except json.JSONDecodeError:
            model = None
        if not isinstance(model, dict) or not isinstance(model.get("name"), str):
            raise httpx.HTTPError("what answers there is no hub")
        return model

    return ask


class HubAuthenticator:
    """Knows people and services by their hub tokens.

    `prefix` stands before their names and groups where these also mean something to others, as in a cluster.
    """

    def __init__(
        self, ask: AskHub, *, prefix: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._prefix = prefix
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, tuple[float, Caller | None]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[Caller | None]] = {}

    async def caller_of(self, credentials: Credentials) -> Caller | None:
        """Return whose token it is, None for one that the hub does not know.

        Raises `RequestError` (503) if the hub does not answer.
        """
        token = credentials.token
        if not token or not token.isascii():  # the hub's are
            return None
        digest = hmac.digest(self._key, token.encode("utf-8", "surrogatepass"), hashlib.sha256)
        until, known = self._known.get(digest, (0.0, None))
        if self._clock() < until:
            return known
        try:
            return await asyncio.shield(self._asked_once(digest, token))
        except httpx.HTTPError as error:
            raise _away(error) from error

    def _asked_once(self, digest: bytes, token: str) -> asyncio.Task[Caller | None]:
        """Return the question about a token; who comes while it is asked waits for the same answer."""
        asking = self._asking.get(digest)
        if asking is None:
            asking = self._asking[digest] = asyncio.create_task(self._asked(digest, token))
            asking.add_done_callback(lambda _: self._asking.pop(digest, None))
        return asking

    async def _asked(self, digest: bytes, token: str) -> Caller | None:
        model = await self._ask(token)
        caller = None if model is None else caller_in(model, self._prefix)
        lasts_s = STRANGER_S if caller is None else BELIEVED_S
        self._known[digest] = (self._clock() + lasts_s, caller)
        self._known.move_to_end(digest)
        while len(self._known) > MOST_TOKENS:
            self._known.popitem(last=False)
        return caller


def caller_in(model: dict[str, Any], prefix: str = "") -> Caller | None:
    """Return the caller that the hub's model tells of; None for a name that could pass for another's."""
    name = str(model["name"])
    is_service = model.get("kind") == "service"
    if "/" in name or name.startswith(SERVICE_PREFIX):
        return None
    groups = frozenset(f"{prefix}{group}" for group in model.get("groups") or ())
    user = f"{SERVICE_PREFIX}{name}" if is_service else name
    return Caller(f"{prefix}{user}", groups, scopes_in(model.get("scopes") or ()))


def scopes_in(hub_scopes: Iterable[str]) -> frozenset[str]:
    """Return our scopes of the hub's. `custom:kai:lead!group=team-a` leads the queue team-a; without a group: none."""
    found: set[str] = set()
    for scope in hub_scopes:
        if not scope.startswith(SCOPE_PREFIX):
            continue
        name, _, narrowed = scope.removeprefix(SCOPE_PREFIX).partition("!")
        if name in {READ, REQUEST}:
            found.add(name)
        elif name == "lead" and narrowed.startswith(GROUP_FILTER):
            found |= {f"{LEAD_PREFIX}{narrowed.removeprefix(GROUP_FILTER)}", REQUEST}
        elif name == ADMIN and not narrowed:
            found.add(ADMIN)
    return frozenset(found)


def _away(error: httpx.HTTPError) -> RequestError:
    why = str(error) or type(error).__name__
    return RequestError(
        "JupyterHub can not be asked who you are.",
        why=f"It does not answer as it should: {why}.",
        hint="Try again in a moment; what runs goes on running and places are kept.",
        status=503,
        code="hub_away",
    )
