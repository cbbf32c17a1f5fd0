"""Whether ConfigMaps exist, asked one by one: they are never listed, since people keep all sorts of things there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.decode.needs import Needs
from scheduler_service.backends.kubernetes.errors import Forbidden, KubeError, NotFound

log = logging.getLogger("kai.cluster")
AGAIN_S = 2.0
"""What is missing is asked for again so often."""
PREFIX = "config "


class Lookups:
    """Asks for what waiting pods need; `on_change(key)` hears what is known otherwise than before."""

    def __init__(self, client: KubeClient, needs: Needs, on_change: Callable[[str], None]) -> None:
        self._client = client
        self._needs = needs
        self._on_change = on_change
        self._wake = asyncio.Event()

    def look(self) -> None:
        """Somebody waits for something; ask soon."""
        self._wake.set()

    async def run(self) -> None:
        """Ask for ever; end it by cancelling the task."""
        while True:
            wanted = [key for key in self._needs.wanting if key.startswith(PREFIX)]
            known = self._needs.config_maps
            for key in {*known} - {key.removeprefix(PREFIX) for key in wanted}:
                del known[key]  # nobody waits for it any more; who comes next asks anew
            for key in wanted:
                await self._ask(key.removeprefix(PREFIX))
            try:
                async with asyncio.timeout(AGAIN_S if wanted else None):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()

    async def _ask(self, key: str) -> None:
        if self._needs.config_maps.get(key, False):
            return
        namespace, _, name = key.partition("/")
        try:
            await self._client.get(names.CONFIG_MAPS.path(namespace, name))
            exists = True
        except NotFound:
            exists = False
        except Forbidden:
            exists = True  # not ours to know; the kubelet will see
        except KubeError as error:
            log.warning("whether the ConfigMap %s exists could not be asked: %s", key, error)
            return
        if self._needs.config_maps.get(key) != exists:
            self._needs.config_maps[key] = exists
            self._on_change(key)
