"""The moments of groups that must survive us, as annotations of the PodGroup: stale since, evicted last."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.groups import RawPodGroup
from scheduler_service.backends.kubernetes.decode.overlay import Overlay
from scheduler_service.backends.kubernetes.errors import KubeError

log = logging.getLogger("kai.cluster")
Patch = Callable[[str, object], Awaitable[object]]


def moment_text(ms: int) -> str:
    """Return the moment in RFC 3339, to the second, as KAI writes it."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Moments:
    """Writes what changed, and only that; until it is written the overlay says it."""

    def __init__(self, groups: Mapping[str, RawPodGroup], overlay: Overlay, patch: Patch) -> None:
        self._groups = groups
        self._overlay = overlay
        self._patch = patch

    async def stale(self, stale: Mapping[str, int]) -> None:
        """Take over which groups are below their minimum, and since when."""
        before = self._overlay.stale_since
        changed = [key for key in before.keys() | stale.keys() if before.get(key) != stale.get(key)]
        self._overlay.stale_since = dict(stale)
        for key in changed:
            since = stale.get(key)
            text = None if since is None else moment_text(since)
            group = self._groups.get(key)
            if group is not None and group.metadata.annotations.get(names.STALE_SINCE) != text:
                await self._note(key, {names.STALE_SINCE: text})

    async def evicted(self, keys: set[str]) -> None:
        """Note the last eviction of groups that wait after one before they take from others."""
        for key in sorted(keys):
            group, at = self._groups.get(key), self._overlay.last_evicted.get(key)
            if group is not None and at is not None and group.spec.preemption_delay:
                await self._note(key, {names.LAST_EVICTION: moment_text(at)})

    async def _note(self, key: str, annotations: Mapping[str, str | None]) -> None:
        namespace, _, name = key.partition("/")
        try:
            path = names.POD_GROUPS.path(namespace, name)
            await self._patch(path, {"metadata": {"annotations": annotations}})
        except KubeError as error:
            log.info("a note on the group %s could not be written: %s", key, error)
