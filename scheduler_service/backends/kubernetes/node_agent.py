"""What `kai agent` does on a GPU node: writes the node's devices as an annotation whenever they changed.

Rule: one write at most for each look; a write that failed is made with the next look.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from scheduler_service.agent.discovery import ANNOTATION, devices_text
from scheduler_service.agent.nvml import Devices, Trouble
from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.access import Access
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import KubeError
from scheduler_service.backends.kubernetes.objects import decode_any

log = logging.getLogger("kai.agent")


class NodeAgent:
    """Keeps one node's annotation true. `read` gives the devices as they are now."""

    def __init__(
        self, client: KubeClient, node: str, read: Callable[[], Devices | Trouble]
    ) -> None:
        self._client = client
        self._path = names.NODES.path(name=node)
        self._read = read
        self._written: str | None = None

    async def run(self, every_s: float) -> None:
        """Look again and again until cancelled."""
        while True:
            try:
                await self.look()
            except KubeError as error:
                log.warning("the devices could not be written on the node: %s", error)
            await asyncio.sleep(every_s)

    async def look(self) -> bool:
        """Look once; return whether there was something to write."""
        if self._written is None:
            node = decode_any(await self._client.get(self._path))
            self._written = node.metadata.annotations.get(ANNOTATION, "")
        text = devices_text(await asyncio.to_thread(self._read))
        if text == self._written:
            return False
        await self._client.patch(self._path, {"metadata": {"annotations": {ANNOTATION: text}}})
        self._written = text
        return True


def run_agent(
    read: Callable[[], Devices | Trouble], *, node: str, every_s: float, kubeconfig: Path | None
) -> None:
    """Keep the annotation of `node` true until SIGTERM or Ctrl-C."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    asyncio.run(_until_told(Access.load(kubeconfig), node, read, every_s))


async def _until_told(
    access: Access, node: str, read: Callable[[], Devices | Trouble], every_s: float
) -> None:
    async with KubeClient(access, connections=1) as client:
        work = asyncio.create_task(NodeAgent(client, node, read).run(every_s))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        await asyncio.wait([work])
    if not work.cancelled():
        work.result()
