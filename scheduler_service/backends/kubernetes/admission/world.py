"""Gathers the facts that rules need: queues and configuration are followed, the rest is asked when it is needed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.admission.facts import (
    Facts,
    GroupFacts,
    QueueFacts,
    Wants,
    queue_facts,
)
from scheduler_service.backends.kubernetes.admission.options import Options, with_config
from scheduler_service.backends.kubernetes.client import KubeClient, decode_page
from scheduler_service.backends.kubernetes.errors import NotFound
from scheduler_service.backends.kubernetes.watch import Reflector

RUNTIME_CLASS_S = 30.0
"""How long it is believed that a runtime class exists or not."""

_decode_any = msgspec.json.Decoder(dict[str, Any]).decode


class _Owner(msgspec.Struct, gc=False):
    uid: str = ""


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    deletion_timestamp: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: list[_Owner] = msgspec.field(default_factory=list)


class _Spec(msgspec.Struct, gc=False):
    queue: str = ""


class _Counted(msgspec.Struct, gc=False):
    requested: dict[str, Any] = msgspec.field(default_factory=dict)


class _Status(msgspec.Struct, gc=False, rename="camel"):
    resources_status: _Counted | None = None


class _Group(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode_group = msgspec.json.Decoder(_Group).decode


class World:
    """What admission knows. `gather` raises `KubeError` where a fact that is needed can not be had."""

    def __init__(
        self, client: KubeClient, options: Options, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._options = options
        self._clock = clock
        self.config_changed = asyncio.Event()
        """Set when what the cluster's owner chose may be another."""
        self._runtime_classes: dict[str, tuple[float, bool]] = {}
        self._queues: Reflector[QueueFacts] = Reflector(client, names.QUEUES, queue_facts, _ignore)
        self._configs: Reflector[dict[str, Any]] = Reflector(
            client,
            names.CONFIGS,
            _decode_any,
            self._config_changed,
            params={"fieldSelector": f"metadata.name={names.CONFIG_NAME}"},
        )

    async def run(self) -> None:
        """Follow queues and configuration until cancelled."""
        await asyncio.gather(self._queues.run(), self._configs.run())

    def _config_changed(self, _old: object, _new: object) -> None:
        self.config_changed.set()

    async def wait_ready(self) -> None:
        """Return when both are known."""
        await self._queues.synced.wait()
        await self._configs.synced.wait()

    @property
    def is_ready(self) -> bool:
        """Whether queues and configuration are known."""
        return self._queues.synced.is_set() and self._configs.synced.is_set()

    @property
    def options(self) -> Options:
        """What holds now: the flags, and what the Config object says over them."""
        return with_config(self._options, self._configs.items.get(names.CONFIG_NAME))

    async def gather(self, wants: Wants, namespace: str) -> Facts:
        """Return the facts a request needs."""
        return Facts(
            queues=await self._with_queues(wants.queues),
            group=await self._group(namespace, wants.group) if wants.group else None,
            has_runtime_class=bool(wants.runtime_class)
            and await self._has_runtime_class(wants.runtime_class),
            live_groups=await self._live_groups(wants.workloads_of) if wants.workloads_of else (),
        )

    async def _with_queues(self, wanted: frozenset[str]) -> Mapping[str, QueueFacts]:
        """A queue may be so new that the watch has not told it: it is asked for before it is said to be missing."""
        known = self._queues.items
        missing = [name for name in wanted if name not in known]
        if not missing:
            return known
        merged = dict(known)
        for name in missing:
            try:
                raw = await self._client.get(names.QUEUES.path(name=name))
            except NotFound:
                continue
            merged[name] = queue_facts(raw)
        return merged

    async def _group(self, namespace: str, name: str) -> GroupFacts | None:
        try:
            raw = await self._client.get(names.POD_GROUPS.path(namespace, name))
        except NotFound:
            return None
        meta = _decode_group(raw).metadata
        return GroupFacts(
            name=name,
            owner_uids=frozenset(owner.uid for owner in meta.owner_references),
            owner=meta.annotations.get(names.OWNER_ANNOTATION, ""),
        )

    async def _has_runtime_class(self, name: str) -> bool:
        now = self._clock()
        asked, exists = self._runtime_classes.get(name, (-RUNTIME_CLASS_S, False))
        if now - asked < RUNTIME_CLASS_S:
            return exists
        try:
            await self._client.get(names.RUNTIME_CLASSES.path(name=name))
        except NotFound:
            exists = False
        else:
            exists = True
        self._runtime_classes[name] = (now, exists)
        return exists

    async def _live_groups(self, queue: str) -> tuple[str, ...]:
        found = []
        async for raw in self._client.list_pages(names.POD_GROUPS):
            for item in decode_page(raw).items:
                group = _decode_group(item)
                if group.spec.queue == queue and _is_live(group):
                    found.append(f"{group.metadata.namespace}/{group.metadata.name}")
        return tuple(sorted(found))


def _is_live(group: _Group) -> bool:
    """Whether a group holds or asks for something. One that was not counted yet may be about to."""
    if group.metadata.deletion_timestamp:
        return False
    counted = group.status.resources_status
    if counted is None:
        return True
    return any(set(str(amount)) & set("123456789") for amount in counted.requested.values())


def _ignore(_old: object, _new: object) -> None:
    """Nothing is told to anybody: the newest state is read where it is needed."""
