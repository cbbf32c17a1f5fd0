"""The owners of pods: each is read once, and followed from then on, so that a change of it reaches its pods.

Rules: 1. A kind is followed once one of its objects was read; of all others of the kind nothing is kept. 2. What may
not be read is remembered as such for a minute. 3. What no pod asks for any more is forgotten.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.controllers.owner_objects import Table, remembered
from scheduler_service.backends.kubernetes.errors import Forbidden, NotFound
from scheduler_service.backends.kubernetes.names import Resource
from scheduler_service.backends.kubernetes.objects import AnyObject, decode_any
from scheduler_service.backends.kubernetes.watch import Reflector
from scheduler_service.grouping.objects import Kind
from scheduler_service.grouping.owners import Answer, Reference, Unread
from scheduler_service.grouping.table import TABLE

log = logging.getLogger("kai.grouping")
FORBIDDEN_FOR_S = 60.0
UNFOLLOWED_FOR_S = 15.0
"""An owner whose kind can not be followed is read again after so long, when its pods are looked at."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an owner lies; the version of its group does not matter."""

    group: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, reference: Reference) -> Place:
        """Return the place that a reference names."""
        group = reference.api_version.rpartition("/")[0]
        return cls(group, reference.kind, reference.namespace, reference.name)


@dataclass(frozen=True, slots=True)
class _Known:
    answer: Answer
    uid: str = ""
    version: int = 0
    read_at: float = 0.0


class _Seen(msgspec.Struct, frozen=True, gc=False):
    """An object of a followed kind; its table only where somebody asked for it."""

    uid: str
    version: int
    table: Table | None = None


class _ApiResource(msgspec.Struct, frozen=True, gc=False):
    name: str
    kind: str
    namespaced: bool = False


class _ApiResources(msgspec.Struct, frozen=True, gc=False):
    resources: tuple[_ApiResource, ...] = ()


_decode_resources = msgspec.json.Decoder(_ApiResources).decode


class Owners:
    """Answers reads from what is known; `fetch` learns the rest; `on_change(pod)` tells whose answers changed."""

    def __init__(
        self,
        client: KubeClient,
        on_change: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._on_change = on_change
        self._clock = clock
        self._known: dict[Place, _Known] = {}
        self._by_uid: dict[str, set[Place]] = defaultdict(set)
        self._users: dict[Place, set[str]] = defaultdict(set)
        self._asked_by: dict[str, set[Place]] = defaultdict(set)
        self._resources: dict[tuple[str, str], Resource] = {}
        self._followed: dict[Kind, Reflector[_Seen]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def reader(self, pod: str) -> Callable[[Reference], Answer]:
        """Return how owners are read on behalf of a pod, which hears of their changes from then on."""

        def read(reference: Reference) -> Answer:
            place = Place.of(reference)
            self._users[place].add(pod)
            self._asked_by[pod].add(place)
            known = self._known.get(place)
            return Unread.NOT_YET if known is None or self._is_old(place, known) else known.answer

        return read

    async def fetch(self, reference: Reference) -> None:
        """Read an object and remember it. Faults of the API are raised, but for absence and lack of rights."""
        place = Place.of(reference)
        try:
            resource = await self._resource(reference)
            await self._read(place, resource)
        except NotFound:
            if (reference.api_version, place.kind) not in self._resources:
                raise  # not the object but its kind is missing: nobody knows what that means
            self._put(place, _Known(Unread.ABSENT, read_at=self._clock()))
            return
        except Forbidden:
            self._put(place, _Known(Unread.FORBIDDEN, read_at=self._clock()))
            return
        self._follow(Kind(place.group, place.kind), resource)

    async def _read(self, place: Place, resource: Resource) -> None:
        """Read an object until what is remembered is not older than what was told meanwhile."""
        space = place.namespace if resource.namespaced else None
        key = f"{space}/{place.name}" if space else place.name
        while True:
            body = await self._client.get(resource.path(space, place.name))
            seen = decode_any(body)
            self._learn(place, seen, remembered(body, with_counts=_has_counts(place)))
            following = self._followed.get(Kind(place.group, place.kind))
            told = following.items.get(key) if following is not None else None
            if told is None or told.version <= _number(seen.metadata.resource_version):
                return

    def forget(self, pod: str) -> None:
        """Note that a pod is gone; owners that only it asked for are forgotten with it."""
        for place in self._asked_by.pop(pod, ()):
            users = self._users[place]
            users.discard(pod)
            if not users:
                del self._users[place]
                self._drop(place)

    def doubt(self, pod: str) -> None:
        """Have all owners of a pod read again."""
        for place in self._asked_by.get(pod, ()):
            self._drop(place)

    async def close(self) -> None:
        """Follow no more."""
        tasks, self._tasks = self._tasks, []
        self._followed.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- what is known -----------------------------------------------------------------------------------
    def _is_old(self, place: Place, known: _Known) -> bool:
        age = self._clock() - known.read_at
        if isinstance(known.answer, Unread):
            return age > FORBIDDEN_FOR_S
        following = self._followed.get(Kind(place.group, place.kind))
        return (following is None or not following.lists) and age > UNFOLLOWED_FOR_S

    def _put(self, place: Place, known: _Known) -> None:
        self._drop(place)
        self._known[place] = known
        if known.uid:
            self._by_uid[known.uid].add(place)

    def _drop(self, place: Place) -> None:
        known = self._known.pop(place, None)
        if known is None or not known.uid:
            return
        places = self._by_uid[known.uid]
        places.discard(place)
        if not places:
            del self._by_uid[known.uid]

    def _learn(self, place: Place, seen: AnyObject, table: Table) -> None:
        version = _number(seen.metadata.resource_version)
        known = self._known.get(place)
        if known is not None and known.uid == seen.metadata.uid and known.version > version:
            return
        self._put(place, _Known(table, seen.metadata.uid, version, self._clock()))

    # -- kinds ---------------------------------------------------------------------------------------------
    async def _resource(self, reference: Reference) -> Resource:
        """Return under what name the API serves a kind; `NotFound` where it does not."""
        version, kind = reference.api_version, reference.kind
        if (version, kind) not in self._resources:
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            group, _, plain = version.rpartition("/")
            for found in _decode_resources(await self._client.get(root)).resources:
                if "/" not in found.name:
                    resource = Resource(group, plain, found.name, found.kind, found.namespaced)
                    self._resources[version, found.kind] = resource
        if (version, kind) not in self._resources:
            raise NotFound(404, "NotFound", f"The cluster does not serve {kind} of {version}.")
        return self._resources[version, kind]

    def _follow(self, kind: Kind, resource: Resource) -> None:
        """Watch a kind from now on."""
        if kind in self._followed:
            return
        counts = kind not in TABLE

        def decode(body: bytes) -> _Seen:
            meta = decode_any(body).metadata
            is_asked_for = meta.uid in self._by_uid
            table = remembered(body, with_counts=counts) if is_asked_for else None
            return _Seen(meta.uid, _number(meta.resource_version), table)

        reflector = Reflector(self._client, resource, decode, self._changed)
        self._followed[kind] = reflector
        self._tasks.append(asyncio.create_task(reflector.run()))

    def _changed(self, old: _Seen | None, new: _Seen | None) -> None:
        if new is None:
            if old is not None:
                self._gone(old.uid)
            return
        if new.table is None:
            return
        for place in tuple(self._by_uid.get(new.uid, ())):
            known = self._known[place]
            if new.version <= known.version:
                continue
            self._put(place, _Known(new.table, new.uid, new.version, self._clock()))
            if new.table != known.answer:
                self._tell(place)

    def _gone(self, uid: str) -> None:
        for place in tuple(self._by_uid.get(uid, ())):
            self._drop(place)
            self._tell(place)

    def _tell(self, place: Place) -> None:
        for pod in tuple(self._users.get(place, ())):
            self._on_change(pod)


def _has_counts(place: Place) -> bool:
    return Kind(place.group, place.kind) not in TABLE


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0
