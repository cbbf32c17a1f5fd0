"""Who calls the API of a cluster, and what they see of it: asked of the API server, believed for a short while.

Rules: 1. A token is only ever sent to the API server; here it is known by a digest that no other process can make.
2. What somebody may is the cluster's to say (RBAC, or `kai.scheduler/leads` on a Queue), never a list of ours.
3. An answer is believed for `Belief` at most, so a right that was taken away ends soon; a refusal is believed shorter.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from scheduler_service.api.authenticators import Credentials
from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.decode.queues import RawQueue
from scheduler_service.backends.kubernetes.reviews import (
    AUDIENCE,
    Deed,
    Person,
    Stranger,
    may,
    person_of,
)
from scheduler_service.errors import RequestError
from scheduler_service.ports import (
    ADMIN,
    LEAD_PREFIX,
    NAMESPACE_PREFIX,
    READ,
    REQUEST,
    Caller,
)

K = TypeVar("K")
V = TypeVar("V")
MOST_TOKENS = 4096
MOST_PEOPLE = 1024
MOST_ASKED_OF_QUEUES = 256
"""With more queues than this only their own annotation says who leads them."""
AT_A_TIME = 16
SIGN_IN = (
    f"Send 'Authorization: Bearer <token>' with a token for the audience '{AUDIENCE}': a projected one in a pod,"
    f" or 'kubectl create token NAME --audience {AUDIENCE}'."
)
RULES_QUEUES = Deed(verb="update", resource=names.QUEUES)
"""Who may change every queue may see and end everything here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """For how long an answer of the API server is taken for granted, in seconds."""

    token_s: float = 60.0
    stranger_s: float = 10.0
    right_s: float = 30.0


@dataclass(slots=True)
class _Known:
    """What was asked about one person. One asks at a time; the others wait for the answer."""

    answers: dict[Deed, tuple[float, bool]] = field(default_factory=dict)
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)


class Rights:
    """Asks what people may. `queues` and `namespaces` tell what there is to be asked about."""

    def __init__(
        self,
        client: KubeClient,
        *,
        queues: Callable[[], Mapping[str, RawQueue]],
        namespaces: Callable[[], Iterable[str]],
        belief: Belief | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._queues = queues
        self._namespaces = namespaces
        self._belief = belief or Belief()
        self._clock = clock
        self._known: OrderedDict[Person, _Known] = OrderedDict()
        self._people: OrderedDict[tuple[str, frozenset[str]], Person] = OrderedDict()

    async def caller(self, person: Person) -> Caller:
        """Return the person with what they may now."""
        mark = (person.user, frozenset(person.groups))
        _remember(self._people, mark, person, MOST_PEOPLE)
        scopes = {READ, REQUEST}
        if await self.may(person, RULES_QUEUES):
            return Caller(person.user, mark[1], frozenset({*scopes, ADMIN}))
        scopes |= {f"{LEAD_PREFIX}{name}" for name in await self._led(person)}
        scopes |= {f"{NAMESPACE_PREFIX}{name}" for name in await self._seen(person)}
        return Caller(person.user, mark[1], frozenset(scopes))

    async def again(self, caller: Caller) -> Caller:
        """Return the same caller with what they may by now (a stream outlives many answers)."""
        return await self.caller(self.person(caller))

    def person(self, caller: Caller) -> Person:
        """Return who it is to the API server."""
        known = self._people.get((caller.user, caller.groups))
        return known or Person(caller.user, tuple(sorted(caller.groups)))

    async def may(self, person: Person, deed: Deed) -> bool:
        """Return whether the person may do it; asked once in a while."""
        (answer,) = await self._answers(person, (deed,))
        return answer

    async def _led(self, person: Person) -> list[str]:
        """Return the queues that the person answers for: by the queue's own word, or because they may change it."""
        queues = self._queues()
        led = [name for name, raw in queues.items() if _is_lead(person, raw)]
        if len(queues) > MOST_ASKED_OF_QUEUES:
            return led
        others = sorted(queues.keys() - set(led))
        deeds = [Deed(verb="update", resource=names.QUEUES, name=name) for name in others]
        answers = await self._answers(person, deeds)
        return [*led, *(name for name, yes in zip(others, answers, strict=True) if yes)]

    async def _seen(self, person: Person) -> list[str]:
        """Return the namespaces whose groups the person sees."""
        spaces = sorted({*self._namespaces()})
        everywhere = Deed(verb="list", resource=names.POD_GROUPS)
        if not spaces or await self.may(person, everywhere):
            return spaces
        deeds = [Deed(verb="list", resource=names.POD_GROUPS, namespace=name) for name in spaces]
        answers = await self._answers(person, deeds)
        return [name for name, yes in zip(spaces, answers, strict=True) if yes]

    async def _answers(self, person: Person, deeds: Iterable[Deed]) -> list[bool]:
        known = self._known.get(person) or _Known()
        _remember(self._known, person, known, MOST_PEOPLE)
        wanted = list(deeds)
        async with known.busy:
            now = self._clock()
            old = [deed for deed, (until, _) in known.answers.items() if until <= now]
            for deed in old:
                del known.answers[deed]
            missing = [deed for deed in wanted if deed not in known.answers]
            for part in (missing[i : i + AT_A_TIME] for i in range(0, len(missing), AT_A_TIME)):
                found = await asyncio.gather(*(may(self._client, person, deed) for deed in part))
                until = self._clock() + self._belief.right_s
                known.answers.update(
                    {deed: (until, yes) for deed, yes in zip(part, found, strict=True)}
                )
            return [known.answers[deed][1] for deed in wanted]


def _is_lead(person: Person, raw: RawQueue) -> bool:
    named = {
        part.strip() for part in raw.metadata.annotations.get(names.QUEUE_LEADS, "").split(",")
    }
    return f"user:{person.user}" in named or any(
        f"group:{group}" in named for group in person.groups
    )


class TokenReviews:
    """Knows callers by a token that the API server accepts for our audience. The last of all ways."""

    def __init__(
        self,
        client: KubeClient,
        rights: Rights,
        *,
        belief: Belief | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._rights = rights
        self._belief = belief or Belief()
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, tuple[float, Person | Stranger]] = OrderedDict()

    async def caller_of(self, credentials: Credentials) -> Caller | None:
        """Return whose token it is, None without one. Raises `RequestError` (401) for one that is not accepted."""
        if not credentials.token:
            return None
        found = await self.found(credentials.token)
        if isinstance(found, Stranger):
            raise _unknown(found)
        return await self._rights.caller(found)

    async def found(self, token: str) -> Person | Stranger:
        """Return whose token it is to the API server; a pod's tells the pod in `extra`."""
        digest = hmac.digest(self._key, token.encode("utf-8", "surrogatepass"), hashlib.sha256)
        until, found = self._known.get(digest, (0.0, None))
        if found is not None and self._clock() < until:
            return found
        fresh = await person_of(self._client, token)
        is_person = isinstance(fresh, Person)
        lasts_s = self._belief.token_s if is_person else self._belief.stranger_s
        _remember(self._known, digest, (self._clock() + lasts_s, fresh), MOST_TOKENS)
        return fresh


def _unknown(stranger: Stranger) -> RequestError:
    why, hint = _words(stranger.why)
    return RequestError(
        "The service does not know you.", why=why, hint=hint, status=401, code="unauthenticated"
    )


def _words(said: str) -> tuple[str, str]:
    """Return why a token is not accepted and what to do; the API server's words name accounts and stay here."""
    if "expired" in said:
        return "Its token has expired.", f"Take a new one. {SIGN_IN}"
    if "audience" in said:
        return f"Its token is not for the audience '{AUDIENCE}'.", SIGN_IN
    if "invalidated" in said or "not found" in said or "deleted" in said:
        return "Its token's account, pod or secret is gone.", f"Take a new one. {SIGN_IN}"
    return "The cluster does not accept its token.", SIGN_IN


def _remember(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Keep a value as the newest; the oldest goes where there are too many."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
