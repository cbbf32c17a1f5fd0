"""Who calls over the machine's socket: the kernel says which account made the connection (`SO_PEERCRED`).

Rules: 1. No token is needed, and none is believed here: who sends one is judged by it alone. 2. What somebody may
follows from the account's groups: members of the admin group (and root) may all, a queue's file names its leads.
3. An account is looked up once in a while, in a thread: it may live in a directory far away.
"""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import time
from collections.abc import Callable
from dataclasses import dataclass

from scheduler_service.api.authenticators import Credentials
from scheduler_service.errors import RequestError
from scheduler_service.ports import ADMIN, LEAD_PREFIX, READ, REQUEST, Caller
from scheduler_service.settings.queue_file import QueueConfig
from scheduler_service.settings.subjects import is_any_meant

BELIEVED_S = 30.0
"""So long a change of groups may take to be seen."""
SIGN_IN = "Connect to the machine's socket with a local account; no token is needed."
ROOT = 0


@dataclass(frozen=True, slots=True)
class Account:
    """A local account: its name and the names of its groups."""

    user: str
    groups: frozenset[str]


def account_of(uid: int) -> Account | None:
    """Return the account with this number, None if the system knows none."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return None
    numbers = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return Account(entry.pw_name, frozenset(filter(None, map(_group_name, numbers))))


def _group_name(number: int) -> str | None:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return None


class PeerAuthenticator:
    """Knows callers by the account that made the connection."""

    def __init__(
        self,
        *,
        queues: Callable[[], QueueConfig],
        admin_group: str,
        look_up: Callable[[int], Account | None] = account_of,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queues = queues
        self._admin_group = admin_group
        self._look_up = look_up
        self._clock = clock
        self._known: dict[int, tuple[float, Account]] = {}

    async def caller_of(self, credentials: Credentials) -> Caller | None:
        """Return whose connection it is. Raises `RequestError` (401) for a number without an account."""
        uid = credentials.peer_uid
        if uid is None or credentials.token:
            return None
        account = await self._account(uid)
        return Caller(account.user, account.groups, self._scopes(uid, account))

    async def _account(self, uid: int) -> Account:
        now = self._clock()
        until, known = self._known.get(uid, (0.0, None))
        if known is not None and now < until:
            return known
        found = await asyncio.to_thread(self._look_up, uid)
        if found is None:
            self._known.pop(uid, None)
            raise _nobody(uid)
        self._known[uid] = (now + BELIEVED_S, found)
        return found

    def _scopes(self, uid: int, account: Account) -> frozenset[str]:
        if uid == ROOT or self._admin_group in account.groups:
            return frozenset({READ, REQUEST, ADMIN})
        config = self._queues()
        led = {
            f"{LEAD_PREFIX}{queue.name}"
            for queue in config.queues
            if is_any_meant(config.leads_of(queue.name), account.user, account.groups)
        }
        return frozenset({READ, REQUEST, *led})


def _nobody(uid: int) -> RequestError:
    return RequestError(
        f"User number {uid} has no account on this machine.",
        why="The queue knows people by their local account.",
        hint="Run it as a user of this machine; in a container, as one that the machine knows too.",
        status=401,
        code="unauthenticated",
    )
