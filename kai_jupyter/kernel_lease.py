"""The lease of one kernel: asked for, waited for, carried from process to process, given back.

Rule: no Jupyter here. What the service says arrives by a relay; a service that is away costs nobody's place.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kai_jupyter import calls
from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.errors import KaiJupyterError, KaiRequestError, NotGranted, ServiceUnreachable
from kai_jupyter.relay import FIRST_RETRY_S, Relay
from scheduler_service.wire.codec import decode
from scheduler_service.wire.locate import start_ticks
from scheduler_service.wire.pod_group import (
    TERMINAL_STATES,
    Cancel,
    Move,
    PodGroupView,
    Process,
    Submit,
)

UNDECIDED = ("Waiting", "Starting")
WHAT_NEXT = "Choose the kernel again to ask anew, or one without a GPU."


class LetGo(NotGranted):
    """The kernel that waited is not wanted any more; nobody needs a dialog about it."""


@dataclass(slots=True)
class KernelLease:
    """What a kernel holds or waits for. `view` is None before it asked, and where it runs without a GPU."""

    client: AsyncKaiClient
    relay: Relay
    kernel_id: str
    view: PodGroupView | None = None
    _let_go: asyncio.Event = field(default_factory=asyncio.Event)
    _is_place_kept: bool = False

    @property
    def key(self) -> str:
        """Which request it is: "namespace/name"."""
        return "" if self.view is None else f"{self.view.namespace}/{self.view.name}"

    async def ask(self, wanted: Submit) -> None:
        """Make the request. The answer may be lost, and the service just starting: it is asked twice under one key."""
        key = f"kernel-{self.kernel_id}-{uuid.uuid4().hex[:8]}"
        try:
            self.view = await self.client.submit(wanted, idempotency_key=key)
        except ServiceUnreachable:
            await self.client.forget()
            self.view = await self.client.submit(wanted, idempotency_key=key)

    async def resume(self, namespace: str, name: str, move: Move) -> bool:
        """Take up a request made before; False if it is over. It is kept by the process of `move` from now on."""
        try:
            self.view = await self.client.move(namespace, name, move)
        except KaiRequestError:
            return False
        return self.view.state not in (*TERMINAL_STATES, "Stopping")

    async def find(self, namespace: str, name: str) -> bool:
        """Take up a lease or a request, as soon as the service answers; False if it is over."""
        while self.view is None:
            try:
                self.view = await self.client.group(namespace, name)
            except ServiceUnreachable:
                await asyncio.sleep(FIRST_RETRY_S)
                await self.client.forget()
        return self.view.state not in (*TERMINAL_STATES, "Stopping")

    async def granted(self, *, start_s: float | None = None) -> bool:
        """Wait for the GPU, however long; False when its owner took back the request, to go on without one.

        `start_s`: how long a granted pod may take to start. Raises `NotGranted` when it ended in another way or took
        longer, `LetGo` after `let_go`.
        """
        view = await self._decided(start_s)
        while view.state == "Cancelled" and self._has_successor():
            view = await self._decided(start_s)
        if view.state == "Running":
            return True
        self.view = None
        if view.state == "Cancelled" and view.ended_by == "owner":
            return False
        raise NotGranted(f"No GPU for this kernel: {view.sentence} {WHAT_NEXT}")

    async def over(self) -> PodGroupView:
        """Wait until the lease ends or is taken back; return how it stands then."""
        return await self._until(lambda view: view.state not in (*UNDECIDED, "Running"))

    async def holds(self) -> bool:
        """Whether the GPU is still ours."""
        if self.view is None:
            return False
        try:
            self.view = await self.client.group(self.view.namespace, self.view.name)
        except KaiRequestError:
            return False
        except ServiceUnreachable:
            pass  # it keeps what it granted
        return self.view.state in ("Running", "Starting")

    async def hold_in(self, process: Process) -> None:
        """Make `process` the one that the lease lives in. Tried until the service answers."""
        view = self.view
        while view is not None:
            try:
                ask = Move(process=process, kernel_id=self.kernel_id)
                await self.client.send(calls.move(view.namespace, view.name, ask))
            except ServiceUnreachable:
                await asyncio.sleep(FIRST_RETRY_S)
                await self.client.forget()
                continue
            return

    def let_go(self, *, keep_place: bool = False) -> None:
        """Stop waiting. `keep_place`: the request stays, for the server that takes the kernel up again."""
        self._is_place_kept = keep_place
        self._let_go.set()

    async def give_back(self, reason: str) -> str:
        """End the lease or withdraw the request; return what is wrong where that failed."""
        view, self.view = self.view, None
        if view is None or self._is_place_kept:
            return ""
        try:
            current = await self.client.group(view.namespace, view.name)
            if current.state not in (*TERMINAL_STATES, "Stopping"):
                await self.client.send(
                    calls.cancel(view.namespace, view.name, Cancel(reason=reason))
                )
        except KaiJupyterError as error:
            return str(error)
        return ""

    # -- inside -----------------------------------------------------------------------------------------------------
    async def _decided(self, start_s: float | None) -> PodGroupView:
        """Wait until it runs or is over. The queue may take as long as it takes; the start that follows may not."""
        view = await self._until(lambda view: view.state != "Waiting")
        while view.state in UNDECIDED:
            try:
                async with asyncio.timeout(start_s):
                    view = await self._until(lambda view: view.state != "Starting")
            except TimeoutError:
                raise NotGranted(
                    f"The kernel's pod did not start within {start_s:.0f} s. {view.sentence} {WHAT_NEXT}"
                ) from None
            if view.state == "Waiting":  # it lost its place before it started
                view = await self._until(lambda view: view.state != "Waiting")
        return view

    async def _until(self, is_met: Callable[[PodGroupView], bool]) -> PodGroupView:
        page = self.relay.subscribe()
        try:
            while True:
                await self._look()
                if self.view is not None and is_met(self.view):
                    return self.view
                await self._next(page.next())
        finally:
            self.relay.unsubscribe(page)

    async def _next(self, told: object) -> None:
        """Wait for news of any kind, or to be let go."""
        news = asyncio.ensure_future(told)  # type: ignore[call-overload]
        gone = asyncio.ensure_future(self._let_go.wait())
        try:
            await asyncio.wait({news, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            gone.cancel()
        if self._let_go.is_set():
            raise LetGo("The kernel was shut down while it waited for its GPU.")

    async def _look(self) -> None:
        """Take what the relay knows; ask the service about a group that a whole picture does not have."""
        view, known = self.view, self.relay.known
        if view is None:
            return
        told = known.groups.get(self.key)
        if told is not None and told["rev"] >= view.rev:
            self.view = decode(PodGroupView, told)
        elif told is None and self.relay.is_connected and known.rev > view.rev:
            self.view = await self._asked(view)

    async def _asked(self, view: PodGroupView) -> PodGroupView:
        try:
            return await self.client.group(view.namespace, view.name)
        except KaiRequestError as error:
            lost = f"The queue has forgotten this request ({error})."
            return replace(view, state="Failed", sentence=lost)
        except ServiceUnreachable:
            return view

    def _has_successor(self) -> bool:
        """Go on with a live request that the page made for this kernel, an offer that was taken; False if none is."""
        for group in self.relay.known.groups.values():
            origin = group.get("origin") or {}
            is_ours = group["kind"] == "kernel" and origin.get("kernel_id") == self.kernel_id
            if is_ours and group.get("mine") and group["state"] not in TERMINAL_STATES:
                self.view = decode(PodGroupView, group)
                return True
        return False


def process_of(pid: int | None) -> Process | None:
    """Return a live process with its start time; None where it is gone."""
    ticks = None if pid is None else start_ticks(pid)
    return None if pid is None or ticks is None else Process(pid=pid, start_ticks=ticks)
