"""The request of one server: asked for, waited for however long, handed to the server's process, given back.

Rule: a service that is away costs nobody's place; it is asked again until it answers. No JupyterHub here.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kai_jupyter import calls
from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.errors import KaiJupyterError, KaiRequestError, NotGranted, ServiceUnreachable
from scheduler_service.wire.pod_group import (
    TERMINAL_STATES,
    Cancel,
    Move,
    PodGroupView,
    Process,
    Submit,
)

T = TypeVar("T")
PATIENCE_S = 2.0
"""The hub is one process for all: an answer that takes longer is asked for again."""
LOOK_S = 0.5
LONGEST_LOOK_S = 3.0
UNDECIDED = ("Waiting", "Starting")
GONE = (*TERMINAL_STATES, "Stopping")
Seen = Callable[[PodGroupView], None]
Away = Callable[[float], None]
"""Called with for how many seconds the service has not answered."""
NewClient = Callable[[], Awaitable[AsyncKaiClient]]
"""Returns a client that speaks for the person now; tokens end."""


def now_ms() -> int:
    """Return ms since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Place:
    """What one server holds or waits for. `key` names the server among its person's."""

    client: NewClient
    key: str
    name: tuple[str, str] | None = None
    """Namespace and name of the group, once it is known."""
    view: PodGroupView | None = None
    is_away: Away = field(default=lambda _s: None)

    async def ask(self, wanted: Submit) -> PodGroupView:
        """Make the request, or take up the one that this server made before and that still waits or holds."""
        before = await self._before()
        if before is not None and await self._is_taken_up(before, wanted):
            return self._seen(before)
        idempotency_key = f"{self.key}-{uuid.uuid4().hex[:12]}"
        call = calls.submit(wanted, idempotency_key)
        return self._seen(await self._answered(lambda client: client.send(call)))

    async def granted(self, seen: Seen) -> PodGroupView:
        """Wait until it is granted, however long. Raises `NotGranted` when it ended in another way."""
        pause_s = LOOK_S
        while True:
            view = await self._looked()
            seen(view)
            if view.state == "Running":
                return view
            if view.state not in UNDECIDED:
                raise NotGranted(view.sentence)
            await asyncio.sleep(pause_s)
            is_near = (view.position or 1) <= 1
            pause_s = LOOK_S if is_near else min(LONGEST_LOOK_S, pause_s * 1.5)

    async def hold_in(self, process: Process) -> None:
        """Make `process` the one that holds it."""
        if self.name is None:
            return
        call = calls.move(*self.name, Move(process=process, kernel_id=self.key))
        self._seen(await self._answered(lambda client: client.send(call)))

    async def look(self) -> PodGroupView | None:
        """Return how it stands; None where there is none, or nobody can say now."""
        if self.name is None:
            return None
        try:
            async with asyncio.timeout(PATIENCE_S):
                return self._seen(await (await self.client()).group(*self.name))
        except (KaiJupyterError, TimeoutError):
            return None

    async def give_back(self, reason: str) -> str:
        """End the request, whatever became of it; return what is wrong where that failed."""
        name, self.name, self.view = self.name, None, None
        if name is None:
            return ""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await (await self.client()).cancel(*name, reason=reason)
        except KaiRequestError as error:
            return "" if error.problem.status == 404 else str(error)  # noqa: PLR2004 - forgotten
        except (KaiJupyterError, TimeoutError) as error:
            return str(error) or "The queue did not answer in time."
        return ""

    # -- inside -----------------------------------------------------------------------------------------------------
    async def _before(self) -> PodGroupView | None:
        listed = await self._answered(lambda client: client.groups(mine=True))
        for view in listed.items:
            if (
                view.kind == "server"
                and view.origin.kernel_id == self.key
                and view.state not in GONE
            ):
                return view
        return None

    async def _is_taken_up(self, before: PodGroupView, wanted: Submit) -> bool:
        """Go on with a request made before where the same is wanted; else it is withdrawn."""
        name = (before.namespace, before.name)
        if _is_same(before, wanted) and wanted.process is not None:
            move = calls.move(*name, Move(process=wanted.process, kernel_id=self.key))
            try:
                await self._answered(lambda client: client.send(move))
            except KaiRequestError:
                return False
            return True
        cancel = calls.cancel(*name, Cancel(reason="Something else was chosen."))
        await self._answered(lambda client: client.send(cancel))
        return False

    async def _looked(self) -> PodGroupView:
        name = self.name or ("", "")
        try:
            return self._seen(await self._answered(lambda client: client.group(*name)))
        except KaiRequestError as error:
            if self.view is None:
                raise
            lost = f"The queue has forgotten this request. {error}"
            return replace(self.view, state="Failed", sentence=lost)

    async def _answered(self, ask: Callable[[AsyncKaiClient], Awaitable[T]]) -> T:
        """Return the answer, asking again while nobody answers."""
        since, pause_s = time.monotonic(), LOOK_S
        while True:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    return await ask(await self.client())
            except (ServiceUnreachable, TimeoutError):
                self.is_away(time.monotonic() - since)
            except KaiRequestError as error:
                if error.problem.status < 500:  # noqa: PLR2004 - the HTTP class
                    raise
                self.is_away(time.monotonic() - since)
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_LOOK_S, pause_s * 1.5)

    def _seen(self, view: PodGroupView) -> PodGroupView:
        self.view, self.name = view, (view.namespace, view.name)
        return view


def _is_same(before: PodGroupView, wanted: Submit) -> bool:
    """Whether a request that was made is the one that is wanted now; in which queue may have been left open."""
    is_there = wanted.queue is None or wanted.queue == before.queue
    return is_there and before.origin.cell_id == wanted.origin.cell_id
