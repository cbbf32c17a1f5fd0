"""A local copy of a collection that follows the API: nothing is missed, nothing told twice.

Rules: 1. List in pages, then watch from the list's version. 2. A watch that ends goes on from the last version
(bookmarks move it); where that version is gone, list again and tell the difference. 3. An object with a version
that is known already is not told. 4. A re-created object of the same name is told as gone, then as new.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

import msgspec

from scheduler_service.backends.kubernetes.client import KubeClient, Params, decode_page
from scheduler_service.backends.kubernetes.errors import Gone, KubeError, NotFound, error_of
from scheduler_service.backends.kubernetes.names import Resource
from scheduler_service.errors import KaiError

log = logging.getLogger("kai.watch")
T = TypeVar("T")
WATCH_S = 300
LONGEST_PAUSE_S = 30.0
MISSING_PAUSES = 25
GONE_KEPT = 1000
RELIST_AFTER = 5
"""After so many failures in a row the version itself may be what the server does not like."""
OnEvent = Callable[[T | None, T | None], None]
Decode = Callable[[bytes], T]
Amend = Callable[[T], T | None]


class _Head(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Object(msgspec.Struct, gc=False):
    metadata: _Head


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_decode_head = msgspec.json.Decoder(_Object).decode
_decode_event = msgspec.json.Decoder(_Event).decode


def _is_newer(version: str, than: str) -> bool:
    if not version:
        return False
    if version.isdigit() and than.isdigit():
        return int(version) > int(than)
    return version != than


class Reflector(Generic[T]):
    """Follows one collection. `items` is keyed "namespace/name" (or "name"); `on_event(old, new)` tells each change.

    `items` already holds the new state when `on_event` is called. What `decode` makes None of is treated as
    absent, so a filter may be part of decoding.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        decode: Callable[[bytes], T | None],
        on_event: OnEvent[T],
        *,
        namespace: str | None = None,
        params: Params | None = None,
    ) -> None:
        self.resource = resource
        self.items: dict[str, T] = {}
        self.synced = asyncio.Event()
        self.lists = 0
        """How often the collection was listed from the start."""
        self._client = client
        self._decode = decode
        self._on_event = on_event
        self._namespace = namespace
        self._params = dict(params or {})
        self._retries = replace(
            client.retries, longest_s=max(client.retries.longest_s, LONGEST_PAUSE_S)
        )
        self._heads: dict[str, tuple[str, str]] = {}
        self._version = ""
        self._failures = 0
        self._last_version = ""
        self._gone: dict[str, None] = {}
        self._beliefs: dict[str, tuple[str, Amend[T]]] = {}
        self._last_trouble = ""

    async def run(self) -> None:
        """Follow for ever; end it by cancelling the task."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                self._failures = 0
            except Gone:
                self._version = ""
                await self._pause(None)
            except NotFound as error:
                await self._missing(error)
            except KubeError as error:
                await self._pause(error)
            except msgspec.MsgspecError as error:
                log.warning("%s: an answer that is not understood: %s", self.resource.plural, error)
                self._version = ""
                await self._pause(None)

    def observe(self, raw: bytes) -> None:
        """Take over what a write returned, so that it is known before the watch tells it."""
        head = _decode_head(raw).metadata
        if head.uid not in self._gone:  # the answer may come after the news that it is gone again
            self._take(head, raw)

    def believe(self, key: str, uid: str, amend: Amend[T]) -> None:
        """Know more of an object than the API shows: `amend` adds it, or says None once the API shows it itself."""
        head, old = self._heads.get(key), self.items.get(key)
        if head is None or head[0] != uid or old is None:
            return
        self._beliefs[key] = (uid, amend)
        self.items[key] = self._amended(key, uid, old)
        self._tell(old, self.items[key])

    def is_believed(self, key: str) -> bool:
        """Whether more is known of an object than the API shows."""
        return key in self._beliefs

    def _amended(self, key: str, uid: str, shown: T) -> T:
        believed, amend = self._beliefs.get(key, ("", None))
        found = amend(shown) if amend is not None and believed == uid else None
        if found is None:
            self._beliefs.pop(key, None)
        return shown if found is None else found

    async def _pause(self, error: KubeError | None) -> None:
        self._failures += 1
        if error is not None and self._failures in {1, 10}:
            log.warning("%s: watching is interrupted: %s", self.resource.plural, error)
        if self._failures % RELIST_AFTER == 0:
            self._version = ""
        asked = None if error is None else error.retry_after_s
        await asyncio.sleep(self._retries.delay(self._failures, asked))

    async def _missing(self, error: NotFound) -> None:
        """Take a kind that the API does not serve (yet) for an empty collection, and ask again now and then."""
        if not self.synced.is_set():
            log.warning("%s are not served here: %s", self.resource.plural, error)
        for key in [*self._heads]:
            self._drop(key)
        self._version = ""
        self.synced.set()
        await asyncio.sleep(self._retries.first_s * MISSING_PAUSES)

    # -- list ----------------------------------------------------------------------------------------
    async def _list(self) -> None:
        """List afresh and tell what differs from what was known."""
        seen: set[str] = set()
        version = ""
        async for raw in self._client.list_pages(self.resource, self._namespace, self._params):
            page = decode_page(raw)
            version = version or page.metadata.resource_version
            for item in page.items:
                body = bytes(item)
                head = _decode_head(body).metadata
                seen.add(head.key)
                if not self._is_ahead(head.key, version):
                    self._take(head, body, is_trusted=True)
        for key in [key for key in self._heads if key not in seen]:
            if not self._is_ahead(key, version):
                self._drop(key)
        self._version = self._last_version = version
        self.lists += 1
        self.synced.set()

    def _is_ahead(self, key: str, version: str) -> bool:
        """Whether we know something newer of an object than a list of `version` can (we wrote it ourselves)."""
        if _is_newer(self._last_version, version):  # a restored etcd: what was known is void
            return False
        known = self._heads.get(key)
        return known is not None and _is_newer(known[1], version)

    # -- watch -----------------------------------------------------------------------------------------
    async def _watch(self) -> None:
        seconds = int(WATCH_S * (0.8 + random.random() * 0.4))  # noqa: S311
        asked = {
            **self._params,
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(1, seconds)),
        }
        following = self._client.watch(self.resource, asked, self._namespace)
        async with contextlib.aclosing(following) as lines:
            async for line in lines:
                self._told(line)

    def _told(self, line: bytes) -> None:
        event = _decode_event(line)
        body = bytes(event.object)
        if event.type == "ERROR":
            raise error_of(0, body)
        head = _decode_head(body).metadata
        if event.type == "DELETED":
            self._deleted(head)
        elif event.type != "BOOKMARK":
            self._take(head, body)
        self._version = self._last_version = head.resource_version or self._version
        self._failures = 0

    def _deleted(self, head: _Head) -> None:
        known = self._heads.get(head.key)
        self._gone[head.uid] = None
        if len(self._gone) > GONE_KEPT:
            del self._gone[next(iter(self._gone))]
        if known is not None and known[0] == head.uid:
            self._drop(head.key)

    def _take(self, head: _Head, body: bytes, *, is_trusted: bool = False) -> None:
        """Know the object from now on. `is_trusted`: it is so even if its version looks older."""
        key = head.key
        known = self._heads.get(key)
        if known is not None:
            is_same = known == (head.uid, head.resource_version)
            if is_same or not (is_trusted or _is_newer(head.resource_version, known[1])):
                return
            if known[0] != head.uid:
                self._drop(key)
        self._heads[key] = (head.uid, head.resource_version)
        old, new = self.items.get(key), self._decoded(key, body)
        if new is None:
            self.items.pop(key, None)
        else:
            self.items[key] = new = self._amended(key, head.uid, new)
        self._tell(old, new)

    def _decoded(self, key: str, body: bytes) -> T | None:
        """Return the object; one that is not understood is left out, so that it is only its owner's trouble."""
        try:
            return self._decode(body)
        except (msgspec.MsgspecError, KaiError, ValueError) as error:
            trouble = f"{self.resource.kind} {key} is left out, it is not understood: {error}"
            if trouble != self._last_trouble:
                log.warning("%s", trouble)
            self._last_trouble = trouble
            return None

    def _tell(self, old: T | None, new: T | None) -> None:
        if old is None and new is None:
            return
        try:
            self._on_event(old, new)
        except Exception:
            log.exception("%s: what a change means could not be worked out", self.resource.plural)

    def _drop(self, key: str) -> None:
        self._heads.pop(key, None)
        self._beliefs.pop(key, None)
        old = self.items.pop(key, None)
        self._tell(old, None)
