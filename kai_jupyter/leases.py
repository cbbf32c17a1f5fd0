"""A lease: the devices that this process holds. `%gpu` and `gpu(…)` take one; it ends with the process at latest."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kai_jupyter.durations import seconds
from kai_jupyter.errors import NotGranted, UsageError, WaitInterrupted
from kai_jupyter.handles import Handle
from kai_jupyter.identity import this_process
from kai_jupyter.session import Session, current
from kai_jupyter.surroundings import chosen, cluster_ask, work_to_hold
from scheduler_service.wire.codec import decode
from scheduler_service.wire.pod_group import LEASE_KINDS, TERMINAL_STATES, PodGroupView, Submit

if TYPE_CHECKING:
    from collections.abc import Mapping

Amount = str | float | int
OFFERS = frozenset({"ask_again", "smaller", "switch_queue"})


class Lease(Handle):
    """The lease of this process. `wait()` until it is granted, `release()` it; as a context manager it does both."""

    def on_change(self, before: PodGroupView, after: PodGroupView) -> None:
        """Give the devices to this process when they are granted; take them away when the lease ends."""
        devices = self._session.devices
        if after.state == "Running" and not (before.state == "Running" and devices.is_set):
            self.note = devices.give(after)
        elif after.state not in ("Waiting", "Starting", "Running") and devices.is_set:
            devices.take()
            self.note = ""

    @property
    def is_granted(self) -> bool:
        """Whether the devices are held."""
        return self.view.state == "Running"

    def wait(self, timeout: float | None = None) -> Lease:
        """Wait for the grant. Raises `NotGranted` if it ended first, `TimeoutError` after `timeout` seconds."""
        try:
            is_decided = self.wait_until(_is_decided, timeout)
        except KeyboardInterrupt:
            raise WaitInterrupted(
                "The request keeps its place. %gpu shows it, %gpu release withdraws it."
            ) from None
        if not is_decided:
            raise TimeoutError(f"Not granted within {timeout:g} s. {self.view.sentence}")
        if not self.is_granted:
            successor = self._session.lease
            if successor is not None and successor is not self:
                return successor.wait(timeout)  # an offer on the card was taken instead
            raise NotGranted(self.view.sentence)
        self._give_if_late()
        return self

    def _give_if_late(self) -> None:
        """Set the devices before returning, also when the watcher's thread is a moment behind."""
        if not self._session.devices.is_set:
            self.note = self._session.devices.give(self.view)

    def release(self) -> PodGroupView:
        """Give the devices back, or the place in the queue."""
        view = self.cancel(reason="released")
        if self._session.devices.is_set:
            self._session.devices.take()
            self.note = ""
        return view

    def _carry_out(self, action: str, message: dict[str, Any]) -> None:
        """Take an offer of the card: the new request is made first, then the waiting one withdrawn."""
        if action not in OFFERS or not isinstance(message.get("submit"), dict):
            super()._carry_out(action, message)
            return
        offered = decode(Submit, message["submit"])
        ask = _placed(self._session, replace(offered, origin=self._session.origin))
        lease = self._session.lease_of(self._session.client.submit(ask))
        self._session.hold(lease)
        card, self._card = self._card, None
        if not self.is_over:
            self.cancel(reason="another offer was taken")
        if card is not None:
            lease.draw_on(card)

    def __await__(self) -> Generator[Any, None, Lease]:
        return asyncio.to_thread(self.wait).__await__()

    def __enter__(self) -> Self:
        self.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _is_decided(view: PodGroupView) -> bool:
    return view.state not in ("Waiting", "Starting")


def gpu(  # noqa: PLR0913 - the options of `%gpu`, all by keyword
    amount: Amount | None = None,
    *,
    memory: str | None = None,
    devices: int = 1,
    queue: str | None = None,
    max_wait: str | None = None,
    lasts: str | None = None,
    preemptible: bool | None = None,
    priority: int | None = None,
    name: str | None = None,
    **cluster: str | None,
) -> Lease:
    """Ask for devices for this process and return the lease at once; `wait()` for the grant.

    `amount` is a share (0.5) or whole GPUs (1, 2), `memory` GPU memory ("8GiB") instead. `lasts` ends the lease so long
    after the grant ("2h"), `max_wait` withdraws the request ("10m"). A process holds one lease at a time. In a cluster
    a pod holds it, the companion (`profile`, `image`, `folder`, `namespace` choose it), and its `run` works there.
    """
    ask = lease_request(
        current(),
        amount=amount,
        memory=memory,
        options={
            "devices": devices,
            "queue": queue,
            "name": name,
            "priority": priority,
            "preemptible": preemptible,
            "max_wait_s": None if max_wait is None else seconds(max_wait, "max_wait"),
            "lease_s": None if lasts is None else seconds(lasts, "lasts"),
            **cluster,
        },
    )
    return take_lease(current(), ask)


def lease_request(
    session: Session,
    *,
    amount: Amount | None,
    memory: str | None,
    options: Mapping[str, Any],
) -> Submit:
    """Return the request for a lease of this process."""
    if amount is None and memory is None:
        raise UsageError(
            "Say how much: a share such as 0.5, whole GPUs such as 1, or --memory 8GiB of GPU memory."
        )
    cluster, rest = chosen(options)
    ask = Submit(
        kind="lease",
        gpu=amount,
        gpu_memory=memory,
        origin=session.origin,
        cluster=cluster,
        **rest,
    )
    return _placed(session, ask)


def _placed(session: Session, ask: Submit) -> Submit:
    """Return the request with what will hold the device: this process, or in a cluster a pod as this one is."""
    if not session.is_in_cluster:
        return replace(ask, process=this_process())
    place = cluster_ask(ask.cluster)
    return replace(ask, cluster=place, work=work_to_hold(place))


def take_lease(session: Session, ask: Submit) -> Lease:
    """Submit the request, unless this process has a live lease: asked for the same again, that one is returned."""
    held = session.resume()
    if held is not None and held.view.state != "Stopping":
        if _asks_the_same(held.view, ask):
            return held
        raise UsageError(
            f"This notebook already has a lease: {held.view.request.text} ({held.view.word.lower()}). "
            "Release it first with %gpu release, then ask again."
        )
    lease = session.lease_of(session.client.submit(ask))
    session.hold(lease)
    lease.on_change(lease.view, lease.view)
    return lease


def release_named(session: Session, name: str) -> Handle:
    """Release the lease of this person with that name ("name" or "namespace/name"), this notebook's or another's.

    Raises `UsageError` where that name is no live lease of this person: nothing is ended then.
    """
    namespace, last = session.place_of(name)
    own = session.resume()
    if own is not None and own.key == f"{namespace}/{last}":
        own.release()
        return own
    view = session.client.group(namespace, last)
    if not view.mine:
        raise UsageError(f"{namespace}/{last} is not yours; nothing was released.")
    if view.kind not in LEASE_KINDS:
        raise UsageError(f"{last} is no lease; nothing was released. %gang stop {last} ends it.")
    if view.state in TERMINAL_STATES:
        raise UsageError(f"{last} has ended already; nothing was released. {view.sentence}")
    lease = Handle(session, view)  # no `Lease`: the devices of this process are not its own
    session.follow(lease)
    lease.cancel(reason="released")
    return lease


def _asks_the_same(view: PodGroupView, ask: Submit) -> bool:
    """Return whether a cell that asked for this lease is being run again."""
    request = view.request
    if ask.devices != request.devices or (ask.queue or view.queue) != view.queue:
        return False
    try:
        milli = round(float(ask.gpu) * 1000) if ask.gpu is not None else None
    except ValueError:
        return False
    if milli is None:
        return False
    return milli == (request.fraction_milli or request.whole * 1000)
