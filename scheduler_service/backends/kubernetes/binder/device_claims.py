"""Device claims (DRA): the pod is written into each claim, with the devices that the decision gives it.

Rules: 1. Every change is made on the version that was read; on a conflict it is read and judged again.
2. A claim that has devices already keeps them; it must be usable on the node. 3. Roll-back takes the pod out, and the
devices with it if nobody else uses them. 4. No device goes to two claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.binder.failures import BindFailed, Stale
from scheduler_service.backends.kubernetes.binder.pods import device_claim
from scheduler_service.backends.kubernetes.binder.records import ClaimGrant
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import Conflict, NotFound
from scheduler_service.backends.kubernetes.objects import RawPod

TRIES = 8
FINALIZER = "resource.kubernetes.io/delete-protection"
Claim = dict[str, Any]
Device = tuple[str, str, str]


def devices_of(allocation: Any) -> tuple[Device, ...]:
    """Return the devices of an AllocationResult as (driver, pool, device); those of admin access belong to nobody."""
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    return tuple(
        (str(each.get("driver")), str(each.get("pool")), str(each.get("device")))
        for each in results
        if not each.get("adminAccess")
    )


class HeldClaim(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a claim: its devices, and its pods as (UID, key)."""

    key: str
    devices: tuple[Device, ...] = ()
    users: tuple[tuple[str, str], ...] = ()


def held_claim(claim: Claim) -> HeldClaim:
    """Return what is kept of a claim."""
    meta, status = claim["metadata"], claim.get("status") or {}
    return HeldClaim(
        f"{meta['namespace']}/{meta['name']}",
        devices_of(status.get("allocation")),
        tuple(
            (str(user.get("uid")), f"{meta['namespace']}/{user.get('name')}")
            for user in status.get("reservedFor") or ()
            if user.get("resource") == "pods"
        ),
    )


class HeldDevices:
    """Which claim holds which device, fed by what is seen of all claims. Pure."""

    def __init__(self) -> None:
        self._claims: dict[str, tuple[Device, ...]] = {}
        self._holders: dict[Device, str] = {}

    def saw(self, key: str, devices: Iterable[Device]) -> None:
        """Take note of what a claim holds now; nothing where it is gone."""
        for device in self._claims.pop(key, ()):
            if self._holders.get(device) == key:
                del self._holders[device]
        held = tuple(devices)
        if held:
            self._claims[key] = held
            for device in held:
                self._holders[device] = key

    def other_holder(self, key: str, devices: Iterable[Device]) -> tuple[Device, str] | None:
        """Return a device that another claim holds, with that claim."""
        for device in devices:
            holder = self._holders.get(device)
            if holder is not None and holder != key:
                return device, holder
        return None


def with_pod(claim: Claim, pod: RawPod, allocation: dict[str, Any]) -> Claim | None:
    """Return the claim with the pod and, if it had none, the devices; None if it already is so."""
    status = dict(claim.get("status") or {})
    users = list(status.get("reservedFor") or ())
    uid = pod.metadata.uid
    has_pod = any(user.get("uid") == uid for user in users)
    if has_pod and status.get("allocation"):
        return None
    if not status.get("allocation"):
        status["allocation"] = allocation
    if not has_pod:
        users.append({"resource": "pods", "name": pod.metadata.name, "uid": uid})
    status["reservedFor"] = users
    return {**claim, "status": status}


def without_pod(claim: Claim, uid: str) -> Claim | None:
    """Return the claim without the pod, and without devices if it was the last; None if the pod is not in it."""
    status = dict(claim.get("status") or {})
    users = list(status.get("reservedFor") or ())
    left = [user for user in users if user.get("uid") != uid]
    if len(left) == len(users):
        return None
    status["reservedFor"] = left
    if not left:
        status.pop("allocation", None)
    return {**claim, "status": status}


class DeviceClaims:
    """Writes a pod into its claims and takes it out again."""

    def __init__(
        self, client: KubeClient, held: HeldDevices, observe: Callable[[Claim], None]
    ) -> None:
        self._client = client
        self._held = held
        self._observe = observe

    async def prepare(self, pod: RawPod, node: str, grants: tuple[ClaimGrant, ...]) -> None:
        """Return when each claim of the decision has the pod and its devices."""
        for grant in grants:
            name = device_claim(pod, grant.name)
            if name is None:
                raise BindFailed(f"The device claim {grant.name} of the pod is not made yet.")
            await self._reserve(pod, node, name, grant.allocation)

    async def undo(self, pod: RawPod, grants: tuple[ClaimGrant, ...]) -> None:
        """Take the pod out of each claim."""
        for grant in grants:
            name = device_claim(pod, grant.name)
            if name is not None:
                await self.release(pod.metadata.namespace, name, pod.metadata.uid)

    async def _reserve(self, pod: RawPod, node: str, name: str, allocation: dict[str, Any]) -> None:
        path = names.RESOURCE_CLAIMS.path(pod.metadata.namespace, name)
        for _ in range(TRIES):
            claim = await self._read(path, name)
            self._judge(claim, node, pod, allocation)
            wanted = with_pod(claim, pod, allocation)
            if wanted is None:
                return
            try:
                await self._protect(path, wanted)
                self._observe(msgspec.json.decode(await self._client.put(f"{path}/status", wanted)))
            except Conflict:
                continue
            return
        raise Stale(f"The device claim {name} keeps changing.")

    def _judge(self, claim: Claim, node: str, pod: RawPod, allocation: dict[str, Any]) -> None:
        meta, status = claim["metadata"], claim.get("status") or {}
        owner = next((o for o in meta.get("ownerReferences") or () if o.get("controller")), None)
        if owner is not None and owner.get("kind") == "Pod" and owner["uid"] != pod.metadata.uid:
            raise BindFailed(f"The device claim {meta['name']} was made for another pod.")
        if meta.get("deletionTimestamp"):
            raise BindFailed(f"The device claim {meta['name']} is being deleted.")
        if status.get("allocation"):
            if not _usable_on(status["allocation"], node):
                raise BindFailed(
                    f"The devices of the claim {meta['name']} are not on node {node}.",
                    why="It was given devices elsewhere meanwhile.",
                )
            return
        if not allocation:
            raise BindFailed(f"The decision gives no devices to the claim {meta['name']}.")
        key = f"{meta['namespace']}/{meta['name']}"
        taken = self._held.other_holder(key, devices_of(allocation))
        if taken is not None:
            (_, _, device), holder = taken
            raise BindFailed(f"The device {device} belongs to the claim {holder} meanwhile.")

    async def _protect(self, path: str, claim: Claim) -> None:
        """Keep a claim with devices from vanishing before they are freed, as every scheduler does."""
        finalizers = list(claim["metadata"].get("finalizers") or ())
        if FINALIZER in finalizers:
            return
        body = {
            "metadata": {
                "resourceVersion": claim["metadata"]["resourceVersion"],
                "finalizers": [*finalizers, FINALIZER],
            }
        }
        changed = msgspec.json.decode(await self._client.patch(path, body))
        claim["metadata"] = changed["metadata"]

    async def release(self, namespace: str, name: str, uid: str) -> None:
        """Take a pod out of a claim."""
        path = names.RESOURCE_CLAIMS.path(namespace, name)
        for _ in range(TRIES):
            try:
                claim: Claim = msgspec.json.decode(await self._client.get(path))
                wanted = without_pod(claim, uid)
                if wanted is None:
                    return
                self._observe(msgspec.json.decode(await self._client.put(f"{path}/status", wanted)))
            except NotFound:
                return
            except Conflict:
                continue
            return
        raise Stale(f"The device claim {name} keeps changing.")

    async def _read(self, path: str, name: str) -> Claim:
        try:
            claim: Claim = msgspec.json.decode(await self._client.get(path))
        except NotFound:
            raise BindFailed(f"The device claim {name} is not there.") from None
        return claim


def _usable_on(allocation: dict[str, Any], node: str) -> bool:
    """Whether an allocation's node selector names the node (none = usable everywhere)."""
    selector = allocation.get("nodeSelector")
    if not selector:
        return True
    named = [
        value
        for term in selector.get("nodeSelectorTerms") or ()
        for field in term.get("matchFields") or ()
        if field.get("key") == "metadata.name" and field.get("operator") == "In"
        for value in field.get("values") or ()
    ]
    return not named or node in named
