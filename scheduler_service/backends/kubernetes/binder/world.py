"""What the binder follows of the cluster, and the parts that are built on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.binder.carry import Carrier
from scheduler_service.backends.kubernetes.binder.changes import Changes
from scheduler_service.backends.kubernetes.binder.device_claims import (
    Claim,
    DeviceClaims,
    HeldClaim,
    HeldDevices,
    held_claim,
)
from scheduler_service.backends.kubernetes.binder.groups import GroupBook
from scheduler_service.backends.kubernetes.binder.options import BinderOptions, with_config
from scheduler_service.backends.kubernetes.binder.pods import (
    PodView,
    Reservation,
    pod_of,
    reservation_of,
)
from scheduler_service.backends.kubernetes.binder.records import Request, request_of
from scheduler_service.backends.kubernetes.binder.registry import (
    is_named_by_registry,
    node_of,
)
from scheduler_service.backends.kubernetes.binder.reservations import Reservations
from scheduler_service.backends.kubernetes.binder.room import Room
from scheduler_service.backends.kubernetes.binder.share_step import ShareStep
from scheduler_service.backends.kubernetes.binder.volume_rules import VolumeClaim, claim_of
from scheduler_service.backends.kubernetes.binder.volumes import Volumes
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import Forbidden, NotFound
from scheduler_service.backends.kubernetes.objects import Meta
from scheduler_service.backends.kubernetes.watch import Reflector

log = logging.getLogger("kai.binder")


class Listener(Protocol):
    """Who is told what changed."""

    def request_changed(self, old: Request | None, new: Request | None) -> None:
        """Take note of a request."""

    def pod_gone(self, key: str) -> None:
        """Take note of a pod that is gone."""

    def groups_changed(self, groups: set[str]) -> None:
        """Take note of shared devices whose users changed."""


async def configured(client: KubeClient, options: BinderOptions) -> BinderOptions:
    """Return the options as KAI's Config changes them now, where there is one."""
    try:
        raw = await client.get(names.CONFIGS.path(name=names.CONFIG_NAME))
    except NotFound:
        return options
    return with_config(options, _config(raw).spec)


async def configured_at_start(client: KubeClient, options: BinderOptions) -> BinderOptions:
    """Return the options as Config changes them; an API server that comes up forbids all until it knows its roles."""
    for failures in range(1, client.retries.tries):
        try:
            return await configured(client, options)
        except Forbidden as error:
            log.info("waiting for the right to read the Config: %s", error)
            await asyncio.sleep(client.retries.delay(failures))
    return await configured(client, options)


class _ConfigObject(msgspec.Struct, gc=False):
    metadata: Meta
    spec: dict[str, Any] = {}


_config = msgspec.json.Decoder(_ConfigObject).decode
_claim = msgspec.json.Decoder(dict[str, Any]).decode


def _held(raw: bytes) -> HeldClaim:
    return held_claim(_claim(raw))


class World:
    """Copies of what the API has, kept by reflectors, with the books that follow from them."""

    def __init__(self, client: KubeClient, options: BinderOptions, listener: Listener) -> None:
        self._client = client
        self._listener = listener
        self._flags = options
        self._options = options
        self._by_pod: dict[str, set[str]] = {}
        self._held = HeldDevices()
        self._claim_changes, self._group_changes = Changes(), Changes()
        self.book = GroupBook()
        self.pods = Reflector(client, names.PODS, self._decoded_pod, self._pod)
        self.nodes = Reflector(client, names.NODES, node_of, lambda _old, _new: None)
        self.requests = Reflector(client, names.BIND_REQUESTS, request_of, self._request)
        self.reservations: Reflector[Reservation] = Reflector(
            client,
            names.PODS,
            reservation_of,
            self._reservation,
            namespace=options.reservation_namespace,
        )
        self.volume_claims = Reflector(client, names.VOLUME_CLAIMS, claim_of, self._volume_claim)
        self.device_claims = Reflector(client, names.RESOURCE_CLAIMS, _held, self._device_claim)
        self.configs = Reflector(client, names.CONFIGS, _config, self._config)
        self._followed: tuple[Reflector[Any], ...] = (
            self.pods,
            self.nodes,
            self.requests,
            self.reservations,
            self.volume_claims,
        )
        self.room = Room()
        self.claims = DeviceClaims(client, self._held, self._claim_seen)
        self.reservations_of = Reservations(
            client,
            self.options,
            self.book,
            self._group_changes,
            self.reservations.observe,
            self._needs_reservation,
        )

    def options(self) -> BinderOptions:
        """Return the options of now."""
        return self._options

    async def open(self) -> tuple[Reflector[Any], ...]:
        """Return everything that is to be followed; kinds that this cluster does not serve are left out."""
        for each in (self.device_claims, self.configs):
            resource = each.resource
            try:
                await self._client.get(f"/apis/{resource.group}/{resource.version}")
            except NotFound:
                log.info("this cluster has no %s; they are left out", resource.plural)
            else:
                self._followed += (each,)
        return self._followed

    @property
    def is_synced(self) -> bool:
        """Whether the cluster was seen once."""
        return all(each.synced.is_set() for each in self._followed)

    async def synced(self) -> None:
        """Return when the cluster was seen once."""
        await asyncio.gather(*(each.synced.wait() for each in self._followed))

    def forgotten(self) -> Iterator[tuple[str, str]]:
        """Yield claim (key) and pod (UID) where a pod of ours waits without a decision: left by an end in the midst."""
        for claim in self.device_claims.items.values():
            for uid, key in claim.users:
                pod = self.pods.items.get(key)
                if pod is None or pod.uid != uid or pod.node:
                    continue
                is_ours = pod.scheduler == self._options.scheduler_name
                if is_ours and not self.requests_of(key):
                    yield claim.key, uid

    def carrier(self) -> Carrier:
        """Return what carries decisions out in this world."""
        client = self._client
        volumes = Volumes(
            client,
            self.options,
            self._claim_changes,
            self.volume_claims.items.get,
            self.volume_claims.observe,
        )
        return Carrier(
            client,
            self.nodes.items,
            ShareStep(client, self.options, self.book, self.reservations_of),
            volumes,
            self.claims,
            self._check,
        )

    def requests_of(self, pod: str) -> tuple[str, ...]:
        """Return the keys of the requests for a pod."""
        return tuple(self._by_pod.get(pod, ()))

    def _check(self, request: Request) -> None:
        self.room.begin(request, self.pods.items.get(request.pod), self.nodes.items[request.node])

    def _needs_reservation(self, node: str, group: str) -> bool:
        view = self.nodes.items.get(node)
        return view is not None and not is_named_by_registry(self._options, view, group)

    # -- what is seen ------------------------------------------------------------------------------------
    def _decoded_pod(self, raw: bytes) -> PodView:
        return pod_of(raw)

    def _pod(self, old: PodView | None, new: PodView | None) -> None:
        self.room.saw(old, new)
        key = new.key if new is not None else old.key if old is not None else ""
        if not key.startswith(self._options.reservation_namespace + "/"):
            groups = self.book.saw_pod(old, new)
            if groups:
                self._listener.groups_changed(groups)
        if new is None:
            self._listener.pod_gone(key)

    def _request(self, old: Request | None, new: Request | None) -> None:
        if old is not None:
            keys = self._by_pod.get(old.pod, set())
            keys.discard(old.key)
            if not keys:
                self._by_pod.pop(old.pod, None)
        if new is not None:
            self._by_pod.setdefault(new.pod, set()).add(new.key)
        groups = self.book.saw_request(old, new)
        self._listener.request_changed(old, new)
        if groups:
            self._listener.groups_changed(groups)

    def _reservation(self, old: Reservation | None, new: Reservation | None) -> None:
        groups = self.book.saw_reservation(old, new)
        for group in groups:
            self._group_changes.told(group)
        self._listener.groups_changed(groups)

    def _volume_claim(self, old: VolumeClaim | None, new: VolumeClaim | None) -> None:
        for each in (old, new):
            if each is not None:
                self._claim_changes.told(each.metadata.key)

    def _device_claim(self, old: HeldClaim | None, new: HeldClaim | None) -> None:
        if new is not None:
            self._held.saw(new.key, new.devices)
        elif old is not None:
            self._held.saw(old.key, ())

    def _claim_seen(self, claim: Claim) -> None:
        held = held_claim(claim)
        self._held.saw(held.key, held.devices)

    def _config(self, _old: _ConfigObject | None, new: _ConfigObject | None) -> None:
        if new is None:
            self._options = self._flags
        elif new.metadata.name == names.CONFIG_NAME:
            place = self._flags.reservation_namespace  # it is followed; another needs a new start
            self._options = replace(with_config(self._flags, new.spec), reservation_namespace=place)
