"""Whose a token is and what they may do, as the API server says it. No token is kept here, logged or told.

Rule: only the API server answers either question; nothing is read out of a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.client import KubeClient

AUDIENCE = "kai"
"""A token must be made for us: one that was stolen from another service, or made for the API server, opens nothing."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who asks, as the API server knows them; `extra` is what its authorisers may look at."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Stranger:
    """A token that the API server does not accept for us, and why, in its words."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What somebody would do: a verb on a kind of object; `namespace` "" = in all, `name` "" = to any."""

    verb: str
    resource: names.Resource
    sub: str = ""
    namespace: str = ""
    name: str = ""

    def table(self) -> dict[str, str]:
        """Return it as the API writes it."""
        words = {
            "verb": self.verb,
            "group": self.resource.group,
            "version": self.resource.version,
            "resource": self.resource.plural,
            "subresource": self.sub,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {key: word for key, word in words.items() if word or key == "group"}


class _User(msgspec.Struct, gc=False):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class _TokenStatus(msgspec.Struct, gc=False):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: tuple[str, ...] = ()
    error: str = ""


class _TokenReview(msgspec.Struct, gc=False):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct, gc=False):
    allowed: bool = False


class _AccessReview(msgspec.Struct, gc=False):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


_decode_token = msgspec.json.Decoder(_TokenReview).decode
_decode_access = msgspec.json.Decoder(_AccessReview).decode


async def person_of(client: KubeClient, token: str) -> Person | Stranger:
    """Return whose token it is. Raises `KubeError` where the API server can not be asked."""
    body = _review(names.TOKEN_REVIEWS, {"token": token, "audiences": [AUDIENCE]})
    status = _decode_token(await client.post(names.TOKEN_REVIEWS.path(), body)).status
    # One that knows no audiences answers with none: then the token may be anybody's.
    if not status.authenticated or not status.user.username or AUDIENCE not in status.audiences:
        return Stranger(status.error)
    user = status.user
    extra = tuple(sorted((key, tuple(values)) for key, values in user.extra.items()))
    return Person(user.username, user.groups, user.uid, extra)


async def may(client: KubeClient, person: Person, deed: Deed) -> bool:
    """Return whether the person may do it. Raises `KubeError` where the API server can not be asked."""
    spec = {
        "user": person.user,
        "uid": person.uid,
        "groups": list(person.groups),
        "extra": {key: list(values) for key, values in person.extra},
        "resourceAttributes": deed.table(),
    }
    answer = await client.post(names.ACCESS_REVIEWS.path(), _review(names.ACCESS_REVIEWS, spec))
    return _decode_access(answer).status.allowed


def _review(kind: names.Resource, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "spec": dict(spec)}
