"""Volumes of a pod, made ready on its node before it is bound; given back if it is not.

Rules: 1. What is bound already must be usable on the node. 2. A late claim gets a volume that exists, or its
provisioner is told the node. 3. What this pod caused is undone, unless the claim has its volume by then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.binder.changes import Changes
from scheduler_service.backends.kubernetes.binder.failures import BindFailed, Stale
from scheduler_service.backends.kubernetes.binder.options import BinderOptions
from scheduler_service.backends.kubernetes.binder.pods import volume_claims
from scheduler_service.backends.kubernetes.binder.volume_rules import (
    LATE,
    NO_PROVISIONER,
    StorageClass,
    Volume,
    VolumeClaim,
    claim_of,
    fits_node,
    matching_volume,
    promise,
    select_node,
    storage_class_of,
    unpromise,
    volume_of,
)
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import Conflict, NotFound
from scheduler_service.backends.kubernetes.objects import Labels, RawPod

TRIES = 5


class Volumes:
    """Makes the claims of a pod ready on a node. `known` gives a claim as it was seen last."""

    def __init__(
        self,
        client: KubeClient,
        options: Callable[[], BinderOptions],
        changes: Changes,
        known: Callable[[str], VolumeClaim | None],
        observe: Callable[[bytes], None],
    ) -> None:
        self._client = client
        self._options = options
        self._changes = changes
        self._known = known
        self._observe = observe
        self._static = asyncio.Lock()

    async def prepare(self, pod: RawPod, node: str, labels: Labels) -> None:
        """Return when every claim of the pod has its volume on the node."""
        waiting: list[VolumeClaim] = []
        for name in volume_claims(pod):
            claim = await self._claim(pod.metadata.namespace, name)
            if claim.is_bound:
                await self._check(claim, node, labels)
            else:
                waiting.append(await self._begin(claim, node, labels))
        for claim in waiting:
            await self._wait(claim, node)

    async def undo(self, pod: RawPod, node: str) -> None:
        """Give back what is not bound yet."""
        for name in volume_claims(pod):
            with contextlib.suppress(NotFound):
                await self._give_back(pod.metadata.namespace, name, node)

    # -- one claim -------------------------------------------------------------------------------------
    async def _claim(self, namespace: str, name: str) -> VolumeClaim:
        try:
            raw = await self._client.get(names.VOLUME_CLAIMS.path(namespace, name))
        except NotFound:
            raise BindFailed(
                f"The volume claim {name} is not there.",
                hint="Create it, or correct the pod's volumes.",
            ) from None
        self._observe(raw)
        return claim_of(raw)

    async def _check(self, claim: VolumeClaim, node: str, labels: Labels) -> None:
        raw = await self._client.get(names.VOLUMES.path(name=claim.spec.volume_name))
        if not fits_node(volume_of(raw), node, labels):
            raise BindFailed(
                f"The volume of {claim.metadata.name} can not be used on node {node}.",
                why="It was bound for another place meanwhile.",
            )

    async def _begin(self, claim: VolumeClaim, node: str, labels: Labels) -> VolumeClaim:
        """Cause the claim to be bound on the node."""
        for _ in range(TRIES):
            if claim.is_bound:
                return claim
            try:
                await self._cause(claim, node, labels)
            except Conflict:
                claim = await self._claim(claim.metadata.namespace, claim.metadata.name)
                continue
            return claim
        raise Stale(f"The volume claim {claim.metadata.name} keeps changing.")

    async def _cause(self, claim: VolumeClaim, node: str, labels: Labels) -> None:
        storage = await self._storage_class(claim)
        if storage.volume_binding_mode != LATE:
            return  # its controller binds it by itself; we only wait
        async with self._static:
            volume = await self._free_volume(claim, node, labels)
            if volume is not None:
                path = names.VOLUMES.path(name=volume.metadata.name)
                await self._client.patch(path, promise(volume, claim))
                return
        if storage.provisioner == NO_PROVISIONER:
            raise BindFailed(
                f"No volume of class {storage.metadata.name} is free on node {node} for {claim.metadata.name}."
            )
        if claim.selected_node != node:
            path = names.VOLUME_CLAIMS.path(claim.metadata.namespace, claim.metadata.name)
            self._observe(await self._client.patch(path, select_node(claim, node)))

    async def _storage_class(self, claim: VolumeClaim) -> StorageClass:
        name = claim.spec.storage_class_name
        if not name:
            return StorageClass(metadata=claim.metadata)
        try:
            return storage_class_of(await self._client.get(names.STORAGE_CLASSES.path(name=name)))
        except NotFound:
            raise BindFailed(
                f"The storage class {name} of {claim.metadata.name} is not there.",
                hint="Ask an operator which classes there are.",
            ) from None

    async def _free_volume(self, claim: VolumeClaim, node: str, labels: Labels) -> Volume | None:
        items = await self._client.items(names.VOLUMES)
        return matching_volume(claim, map(volume_of, items), node, labels)

    async def _wait(self, claim: VolumeClaim, node: str) -> None:
        """Return when the claim has its volume; a provisioner that gives up takes the node off the claim."""
        key, was_told = claim.metadata.key, False

        def look() -> bool | None:
            nonlocal was_told
            known = self._known(key)
            if known is None:
                return None
            if known.is_bound:
                return True
            was_told = was_told or known.selected_node == node
            return False if was_told and not known.selected_node else None

        timeout = self._options().volume_timeout_s
        try:
            is_bound = await self._changes.until(key, look, timeout)
        except TimeoutError:
            raise BindFailed(
                f"The volume of {claim.metadata.name} was not ready within {timeout:g} s.",
                hint="Look at the events of the claim: its provisioner says what it waits for.",
            ) from None
        if not is_bound:
            raise BindFailed(
                f"The provisioner could not make a volume for {claim.metadata.name} on node {node}."
            )

    async def _give_back(self, namespace: str, name: str, node: str) -> None:
        for _ in range(TRIES):
            claim = claim_of(await self._client.get(names.VOLUME_CLAIMS.path(namespace, name)))
            if claim.is_bound:
                return
            with contextlib.suppress(Conflict):
                await self._unpromise(claim)
                if claim.selected_node == node:
                    path = names.VOLUME_CLAIMS.path(namespace, name)
                    self._observe(await self._client.patch(path, select_node(claim, None)))
                return

    async def _unpromise(self, claim: VolumeClaim) -> None:
        """Free a volume that is promised to the claim and not bound yet."""
        for raw in await self._client.items(names.VOLUMES):
            volume = volume_of(raw)
            held = volume.spec.claim_ref
            if (
                held is not None
                and held.uid == claim.metadata.uid
                and volume.status.phase == "Available"
            ):
                path = names.VOLUMES.path(name=volume.metadata.name)
                await self._client.patch(path, unpromise(volume))
