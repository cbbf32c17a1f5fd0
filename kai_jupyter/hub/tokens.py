"""How the hub asks the scheduler for a person: by a short-lived token of their own, with no more rights than theirs."""

from __future__ import annotations

import time
from typing import Any

LASTS_S = 900
USED_S = 600
NOTE = "kai-jupyter: asks the queue for this person"
SCOPE_PREFIX = "custom:kai:"

_tokens: dict[int, tuple[float, str]] = {}


def token_of(user: Any) -> str:
    """Return a token of a hub user with their own `custom:kai:` scopes, made anew every few minutes."""
    orm_user = user.orm_user
    until, token = _tokens.get(orm_user.id, (0.0, ""))
    if time.monotonic() < until:
        return token
    made = str(user.new_api_token(note=NOTE, expires_in=LASTS_S, scopes=kai_scopes(orm_user)))
    _tokens[orm_user.id] = (time.monotonic() + USED_S, made)
    return made


def forget(user: Any) -> None:
    """Forget the token of somebody who is gone, or whose rights are others now."""
    _tokens.pop(user.orm_user.id, None)


def kai_scopes(orm_user: Any) -> list[str]:
    """Return what the person may ask of the scheduler, as the hub's roles say."""
    from jupyterhub.scopes import get_scopes_for

    return sorted(scope for scope in get_scopes_for(orm_user) if scope.startswith(SCOPE_PREFIX))
