"""Who uses which shared GPU: a book fed by pods, requests and reservations. Pure.

Rules: 1. A device is in use while a pod that was given it is not known to have ended: in doubt it is in use.
2. A request counts until its pod has ended or it failed for good, so a bind in progress protects its device.
3. A label alone counts only on the reservation's own node: elsewhere it holds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar

from scheduler_service.backends.kubernetes.binder.pods import PodView, Reservation
from scheduler_service.backends.kubernetes.binder.records import Request

V = TypeVar("V")
Standing = Literal["fine", "unused", "unprotected"]
WHOLE = 100
"""A GPU in hundredths: the precision of a portion."""


def hundredths(portion: str) -> int:
    """Return a portion like "0.50" in hundredths; 0 where it is none."""
    try:
        value = float(portion)
    except ValueError:
        return 0
    return round(value * WHOLE) if 0 < value <= 1 else 0


class GroupBook:
    """The shared devices and their users. Each `saw_…` returns the groups whose standing may have changed."""

    def __init__(self) -> None:
        self._pods: dict[str, PodView] = {}
        self._requests: dict[str, dict[str, Request]] = {}
        self._holders: dict[str, dict[str, None]] = {}
        self._by_pod: dict[str, dict[str, Request]] = {}
        self._reservations: dict[str, dict[str, Reservation]] = {}

    # -- what is seen --------------------------------------------------------------------------------
    def saw_pod(self, old: PodView | None, new: PodView | None) -> set[str]:
        """Take note of a pod that is new, changed, or gone."""
        if old is not None:
            for group in old.groups:
                _forget(self._holders, group, old.key)
            self._pods.pop(old.key, None)
        if new is not None:
            for group in new.groups:
                self._holders.setdefault(group, {})[new.key] = None
            self._pods[new.key] = new
        if old is not None and new is not None and _same_for_groups(old, new):
            return set()
        return self._named_by(old) | self._named_by(new)

    def _named_by(self, pod: PodView | None) -> set[str]:
        """Return the devices that a pod's labels or its requests name."""
        if pod is None:
            return set()
        requests = self.requests_of(pod.key)
        return {*pod.groups, *(group for request in requests for group in request.groups)}

    def requests_of(self, pod: str) -> tuple[Request, ...]:
        """Return the requests that give shared devices to a pod."""
        return tuple(self._by_pod.get(pod, {}).values())

    def saw_request(self, old: Request | None, new: Request | None) -> set[str]:
        """Take note of a request that is new, changed, or gone."""
        named: set[str] = set()
        if old is not None and old.groups:
            named.update(old.groups)
            _forget(self._by_pod, old.pod, old.key)
            for group in old.groups:
                _forget(self._requests, group, old.key)
        if new is not None and new.groups:
            named.update(new.groups)
            self._by_pod.setdefault(new.pod, {})[new.key] = new
            for group in new.groups:
                self._requests.setdefault(group, {})[new.key] = new
        return named

    def saw_reservation(self, old: Reservation | None, new: Reservation | None) -> set[str]:
        """Take note of a reservation that is new, changed, or gone."""
        if old is not None:
            _forget(self._reservations, old.group, old.name)
        if new is not None:
            self._reservations.setdefault(new.group, {})[new.name] = new
        return {each.group for each in (old, new) if each is not None}

    # -- what is asked -------------------------------------------------------------------------------
    def reservation(self, group: str, node: str = "") -> Reservation | None:
        """Return the reservation that holds the device (on `node`, where one is named)."""
        found = [
            each
            for each in self._reservations.get(group, {}).values()
            if each.is_usable and node in {"", each.node}
        ]
        return min(found, key=lambda each: (not each.gpu, each.name)) if found else None

    def reservations(self, group: str) -> tuple[Reservation, ...]:
        """Return all of a group, also those that ended or are leaving."""
        return tuple(self._reservations.get(group, {}).values())

    def groups(self) -> set[str]:
        """Return every group that is known by a reservation, a label or a request."""
        return {*self._reservations, *self._holders, *self._requests}

    def pod(self, key: str) -> PodView | None:
        """Return a pod that is known."""
        return self._pods.get(key)

    def users(self, group: str, node: str) -> set[str]:
        """Return the keys of the pods that hold the device of `node`, or are about to."""
        found = {request.pod for request in self._live_requests(group) if request.node == node}
        return found | {pod.key for pod in self._live_holders(group) if pod.node == node}

    def running(self, group: str) -> Iterator[PodView]:
        """Yield the pods that stand on a node and hold the device: those that would suffer without it."""
        keys = set(self._holders.get(group, ()))
        keys.update(request.pod for request in self._live_requests(group))
        for key in sorted(keys):
            pod = self._pods.get(key)
            if pod is not None and pod.node and pod.is_live:
                yield pod

    def standing(self, group: str, node: str) -> Standing:
        """Return how a device stands: who leaves it unused, and who uses it without protection."""
        reservation = self.reservation(group, node)
        if self.users(group, node):
            if reservation is not None:
                return "fine"
            return "unprotected" if any(p.node == node for p in self.running(group)) else "fine"
        return "unused" if reservation is not None else "fine"

    def promised(self, group: str, node: str, without: str) -> int:
        """Return the hundredths of the device that other pods, known to live, have or are about to get."""
        return sum(
            hundredths(request.portion)
            for request in self._live_requests(group)
            if request.node == node and request.pod != without and request.pod in self._pods
        )

    def _live_requests(self, group: str) -> Iterable[Request]:
        for request in self._requests.get(group, {}).values():
            if request.is_failed:
                continue
            pod = self._pods.get(request.pod)
            if pod is None or (pod.is_live and request.pod_uid in {"", pod.uid}):
                yield request

    def _live_holders(self, group: str) -> Iterable[PodView]:
        for key in self._holders.get(group, ()):
            pod = self._pods.get(key)
            if pod is not None and pod.is_live:
                yield pod


def _same_for_groups(old: PodView, new: PodView) -> bool:
    return (old.uid, old.node, old.is_ended, old.groups) == (
        new.uid,
        new.node,
        new.is_ended,
        new.groups,
    )


def _forget(index: dict[str, dict[str, V]], name: str, key: str) -> None:
    members = index.get(name, {})
    members.pop(key, None)
    if not members:
        index.pop(name, None)
