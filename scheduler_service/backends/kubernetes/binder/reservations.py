"""Reservations: one pod a shared GPU that takes the device from the device plug-in and tells its UUID.

Rules: 1. One at a time for each group; across restarts and processes the reservation itself is the lock: every user
leaves a mark on it before it is used, and it is deleted only in the version that was seen unused.
2. A user's pod is never deleted. 3. A reservation that vanished under its users is made again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from weakref import WeakValueDictionary

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.binder.changes import Changes
from scheduler_service.backends.kubernetes.binder.failures import BindFailed, Stale
from scheduler_service.backends.kubernetes.binder.groups import GroupBook
from scheduler_service.backends.kubernetes.binder.options import BinderOptions
from scheduler_service.backends.kubernetes.binder.pods import (
    PodView,
    Reservation,
    pod_of,
    reservation_of,
)
from scheduler_service.backends.kubernetes.binder.reservation_pod import (
    reservation_name,
    reservation_pod,
    told_by_kubelet,
)
from scheduler_service.backends.kubernetes.client import KubeClient, decode_page
from scheduler_service.backends.kubernetes.errors import Conflict, NotFound
from scheduler_service.backends.kubernetes.objects import RawPod, Toleration, decode_pod

log = logging.getLogger("kai.binder")
TRIES = 5
LEAVES_S = 30.0


class Reservations:
    """Holds devices for groups and lets them go."""

    def __init__(
        self,
        client: KubeClient,
        options: Callable[[], BinderOptions],
        book: GroupBook,
        changes: Changes,
        observe: Callable[[bytes], None],
        needs_reservation: Callable[[str, str], bool],
    ) -> None:
        self._client = client
        self._options = options
        self._book = book
        self._changes = changes
        self._observe = observe
        self._needs_reservation = needs_reservation
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def is_busy(self, group: str) -> bool:
        """Whether somebody is at work on the group."""
        lock = self._locks.get(group)
        return lock is not None and lock.locked()

    def _lock(self, group: str) -> asyncio.Lock:
        return self._locks.setdefault(group, asyncio.Lock())

    # -- holding ---------------------------------------------------------------------------------------
    async def hold(self, group: str, node: str, pod: RawPod) -> str:
        """Return the UUID of the group's device, held for this pod too."""
        lock = self._lock(group)
        async with lock:
            user = (pod.metadata.uid, pod.key)
            reservation = await self._marked(group, node, user, pod.spec.tolerations)
            return await self._device_of(reservation)

    async def let_go(self, group: str, node: str, uid: str) -> None:
        """Take back the mark of a pod that does not get the device after all."""
        reservation = self._book.reservation(group, node)
        if reservation is not None:
            await self._unmark(reservation, (uid,))

    async def _marked(
        self, group: str, node: str, user: tuple[str, str], tolerations: tuple[Toleration, ...]
    ) -> Reservation:
        """Return a usable reservation that bears the user's mark."""
        for _ in range(TRIES):
            known = self._book.reservation(group, node)
            try:
                if known is None:
                    found = await self._create(group, node, user, tolerations)
                else:
                    found = await self._mark(known, user)
            except (NotFound, Conflict):
                found = None
            if found is not None and found.is_usable:
                return found
            await self._make_way(reservation_name(node, group))
        raise Stale(f"The reservation of {group} keeps changing.")

    async def _create(
        self, group: str, node: str, user: tuple[str, str], tolerations: tuple[Toleration, ...]
    ) -> Reservation | None:
        body = reservation_pod(self._options(), node, group, user, tolerations)
        return self._seen(await self._client.post(self._path(), body))

    async def _mark(self, reservation: Reservation, user: tuple[str, str]) -> Reservation | None:
        if user in reservation.users:
            return reservation
        body = {
            "metadata": {
                "uid": reservation.uid,
                "annotations": {names.RESERVED_FOR_PREFIX + user[0]: user[1]},
            }
        }
        return self._seen(await self._client.patch(self._path(reservation.name), body))

    async def _make_way(self, name: str) -> None:
        """Learn what stands in the way under this name; if it ended or is leaving, wait until it is gone."""
        try:
            found = self._seen(await self._client.get(self._path(name)))
        except NotFound:
            return
        if found is None or found.is_usable:
            return
        if found.is_ended and not found.is_leaving:
            await self._delete(found)
        with contextlib.suppress(TimeoutError):
            await self._changes.until(
                found.group, lambda: None if self._is_there(found) else True, LEAVES_S
            )

    def _is_there(self, reservation: Reservation) -> bool:
        known = self._book.reservations(reservation.group)
        return any(each.uid == reservation.uid for each in known)

    async def _device_of(self, reservation: Reservation) -> str:
        """Return the device's UUID once the reservation told it."""
        group, uid = reservation.group, reservation.uid

        def look() -> Reservation | None:
            for each in self._book.reservations(group):
                if each.uid == uid:
                    return each if each.gpu or not each.is_usable else None
            return reservation if reservation.gpu else _gone(reservation)

        timeout = self._options().reservation_timeout_s
        try:
            found = await self._changes.until(group, look, timeout)
        except TimeoutError:
            state = await self._state_of(reservation)
            await self._delete(reservation)
            raise BindFailed(
                f"No GPU was reserved on node {reservation.node} within {timeout:g} s.",
                why=f"The pod {reservation.name} did not tell its device ({state}).",
            ) from None
        if found.is_usable and found.gpu:
            return found.gpu
        if found.is_ended:
            await self._delete(found)
        raise BindFailed(
            f"Node {reservation.node} gave no GPU to the reservation.",
            why="Its GPUs were taken meanwhile, or its device plug-in refused.",
        )

    async def _state_of(self, reservation: Reservation) -> str:
        """Return what the kubelet says of a reservation that did not tell its device."""
        try:
            return told_by_kubelet(await self._client.get(self._path(reservation.name)))
        except NotFound:
            return "it is gone"

    # -- letting go --------------------------------------------------------------------------------------
    async def tend(self, group: str) -> None:
        """Bring the reservations of a group in line with its users. Raises where it must be tried again."""
        lock = self._lock(group)
        async with lock:
            nodes = {each.node for each in self._book.reservations(group)}
            nodes.update(pod.node for pod in self._book.running(group))
            for node in sorted(nodes):
                await self._tend_on(group, node)

    async def _tend_on(self, group: str, node: str) -> None:
        for each in self._book.reservations(group):
            if each.node == node and each.is_ended and not each.is_leaving:
                await self._delete(each)
        standing = self._book.standing(group, node)
        reservation = self._book.reservation(group, node)
        if standing == "unprotected":
            await self._restore(group, node)
        elif standing == "unused" and reservation is not None:
            await self._release(reservation)
        elif reservation is not None:
            await self._unmark(reservation, self._gone_users(reservation))

    def _gone_users(self, reservation: Reservation) -> tuple[str, ...]:
        """Return the UIDs of marked pods that ended, were made anew, or are gone with every decision for them."""

        def is_gone(uid: str, key: str) -> bool:
            pod = self._book.pod(key)
            if pod is None:
                return not self._book.requests_of(key)
            return pod.uid != uid or pod.is_ended

        return tuple(uid for uid, key in reservation.users if is_gone(uid, key))

    async def _release(self, reservation: Reservation) -> None:
        """Delete a reservation that nobody uses, in the version that was looked at; ask the API, not the copy."""
        try:
            fresh = self._seen(await self._client.get(self._path(reservation.name)))
        except NotFound:
            return
        if fresh is None or fresh.uid != reservation.uid or fresh.is_leaving:
            return
        for uid, key in fresh.users:
            if await self._uses(fresh, uid, key):
                raise Stale(f"{key} still uses {fresh.group}.")
        if await self._is_labelled(fresh):
            raise Stale(f"A pod still bears the label of {fresh.group}.")
        await self._delete(fresh, version=fresh.version)

    async def _uses(self, reservation: Reservation, uid: str, key: str) -> bool:
        """Whether a marked pod lives on: on the node, or with a request that may bring it there."""
        namespace, _, name = key.partition("/")
        try:
            pod = pod_of(await self._client.get(names.PODS.path(namespace, name)))
        except NotFound:
            return False
        if pod.uid != uid or pod.is_ended:
            return False
        if pod.node:
            return pod.node == reservation.node
        return pod.key in self._book.users(reservation.group, reservation.node)

    async def _is_labelled(self, reservation: Reservation) -> bool:
        group, node = reservation.group, reservation.node
        for label in (names.GPU_GROUP_LABEL, names.GPU_GROUP_PREFIX + group):
            params = {"labelSelector": f"{label}={group}", "fieldSelector": f"spec.nodeName={node}"}
            page = decode_page(await self._client.get(names.PODS.path(), params))
            for item in page.items:
                raw = decode_pod(bytes(item))
                is_reservation = raw.metadata.namespace == self._options().reservation_namespace
                if not is_reservation and not raw.is_over:
                    return True
        return False

    async def _delete(self, reservation: Reservation, version: str | None = None) -> None:
        conditions = {"uid": reservation.uid}
        if version is not None:
            conditions["resourceVersion"] = version
        body = {"gracePeriodSeconds": 0, "preconditions": conditions}
        with contextlib.suppress(NotFound):
            await self._client.delete(self._path(reservation.name), body)
            log.info("reservation %s (%s) is released", reservation.name, reservation.group)

    async def _unmark(self, reservation: Reservation, uids: tuple[str, ...]) -> None:
        marked = {uid for uid, _ in reservation.users}
        gone = {names.RESERVED_FOR_PREFIX + uid: None for uid in uids if uid in marked}
        if not gone:
            return
        body = {"metadata": {"uid": reservation.uid, "annotations": gone}}
        with contextlib.suppress(NotFound, Conflict):
            self._seen(await self._client.patch(self._path(reservation.name), body))

    # -- making it again -----------------------------------------------------------------------------------
    async def _restore(self, group: str, node: str) -> None:
        """Take the device again after its reservation vanished; a wrong device is given back and tried later."""
        users = [p for p in self._book.running(group) if p.node == node and not p.is_leaving]
        if not users or not self._needs_reservation(node, group):
            return
        wanted = await self._assigned(users, group)
        log.warning("the reservation of %s on %s is gone; it is made again", group, node)
        first = (users[0].uid, users[0].key)
        reservation = await self._marked(group, node, first, ())
        device = await self._device_of(reservation)
        if wanted and device != wanted:
            await self._delete(reservation)
            raise BindFailed(
                f"The GPU {wanted} of node {node} is not protected.",
                why=f"Its reservation was deleted, and the node gave {device} when it was made again.",
            )

    async def _assigned(self, users: list[PodView], group: str) -> str:
        """Return the device that the users were told, "" where none of them says."""
        for user in users:
            namespace, _, name = user.key.partition("/")
            with contextlib.suppress(NotFound, ValueError, AttributeError):
                raw = decode_pod(await self._client.get(names.PODS.path(namespace, name)))
                text = raw.metadata.annotations.get(names.ASSIGNED_DEVICES, "{}")
                if device := json.loads(text).get(group):
                    return str(device)
        return ""

    # -- small ones ------------------------------------------------------------------------------------------
    def _path(self, name: str | None = None) -> str:
        return names.PODS.path(self._options().reservation_namespace, name)

    def _seen(self, raw: bytes) -> Reservation | None:
        self._observe(raw)
        return reservation_of(raw)


def _gone(reservation: Reservation) -> Reservation:
    """Return it as one that is no longer there."""
    return Reservation(
        reservation.name, reservation.uid, "", reservation.group, reservation.node, is_leaving=True
    )
