"""Where GPU kernels live: what all kernels of one Jupyter server share, and how each is found by its id.

Rule: a kernel started by anything else (nbclient, a console) has a host of its own; it needs no server extension.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from datetime import UTC, datetime
from typing import Any, Protocol

from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.errors import ServiceUnreachable
from kai_jupyter.kernel_records import KernelRecord
from kai_jupyter.relay import Relay

CLUSTER = "kubernetes"


class Waiting(Protocol):
    """A kernel that may be waiting for its GPU."""

    def stop_waiting(self, *, keep_place: bool = False) -> None:
        """Give the wait up. `keep_place`: a restarted server takes it up again."""


class KernelHost:
    """One client and one stream for all GPU kernels of a server."""

    def __init__(self, client: AsyncKaiClient, relay: Relay) -> None:
        self.client = client
        self.relay = relay
        self.changed = asyncio.Event()
        """Set by a kernel whose process or request is another now."""
        self.returning: dict[str, KernelRecord] = {}
        """Kernels of the server before this one, by id, until they are started here."""
        self.handed: dict[str, tuple[str, str]] = {}
        """What a notebook held that moves here, by the id of its new kernel until that is started."""
        self.outlives_server = False
        """Whether kernels go on when their server is killed."""
        self._listening: asyncio.Task[None] | None = None
        self._backend: str | None = None

    @classmethod
    def alone(cls) -> KernelHost:
        """Return the host of a kernel that no server of ours started."""
        client = AsyncKaiClient()
        relay = Relay(AsyncKaiClient())
        host = cls(client, relay)
        host._listening = asyncio.create_task(relay.run())
        return host

    async def in_cluster(self) -> bool:
        """Whether kernels get a pod in a cluster instead of a process here."""
        if self._backend is None:
            try:
                health = await self.client.health()
            except ServiceUnreachable:  # it may just be starting
                await self.client.forget()
                health = await self.client.health()
            self._backend = health.backend
        return self._backend == CLUSTER

    async def close(self) -> None:
        """Let go of what `alone` opened; what the server extension owns stays open."""
        if self._listening is None:
            return
        self._listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listening
        await self.relay.client.close()
        await self.client.close()


_hosts: weakref.WeakKeyDictionary[Any, KernelHost] = weakref.WeakKeyDictionary()


def serve(kernel_manager: Any, host: KernelHost) -> None:
    """Make `host` the one of all kernels that this server's kernel manager starts."""
    _hosts[kernel_manager] = host


def host_of(kernel: Any) -> KernelHost | None:
    """Return the host of a kernel by its own manager; None where no server of ours started it."""
    parent = getattr(kernel, "parent", None)
    return None if parent is None else _hosts.get(parent)


def shut_down_at_once(kernel_manager: Any) -> None:
    """Let a shutdown end a wait: Jupyter's own waits first until the kernel has started (jupyter_client PR 967)."""
    shut_down = kernel_manager.shutdown_kernel

    async def shutdown_kernel(kernel_id: str, *args: Any, **options: Any) -> Any:
        await _stopped_waiting(kernel_manager, kernel_id)
        answer = await shut_down(kernel_id, *args, **options)
        _forget_failed(kernel_manager, kernel_id)
        return answer

    kernel_manager.shutdown_kernel = shutdown_kernel


def spare_waiting(kernel_manager: Any) -> None:
    """Keep Jupyter's culler from ending kernels as idle that only wait for their GPU."""
    cull = getattr(kernel_manager, "cull_kernel_if_idle", None)
    if cull is None:
        return

    async def cull_kernel_if_idle(kernel_id: str) -> None:
        kernel = kernel_manager.get_kernel(kernel_id)
        if _is_pending(kernel):
            kernel.last_activity = datetime.now(UTC)  # its idle time begins when it has started
            return
        await cull(kernel_id)

    kernel_manager.cull_kernel_if_idle = cull_kernel_if_idle


def _is_pending(kernel: Any) -> bool:
    """Whether a kernel of our provisioner has not started yet, or not again."""
    return hasattr(kernel.provisioner, "stop_waiting") and not kernel.ready.done()


async def _stopped_waiting(kernel_manager: Any, kernel_id: str) -> None:
    if kernel_id not in kernel_manager:
        return
    kernel = kernel_manager.get_kernel(kernel_id)
    if not _is_pending(kernel):
        return
    kernel.provisioner.stop_waiting()
    ready = kernel.ready
    with contextlib.suppress(Exception):  # that it did not start is no news
        await (ready if asyncio.isfuture(ready) else asyncio.wrap_future(ready))


def _forget_failed(kernel_manager: Any, kernel_id: str) -> None:
    """Drop what Jupyter keeps of a kernel that never started: stopping the server would stumble over it."""
    pending = getattr(kernel_manager, "_pending_kernels", {})
    task = pending.get(kernel_id)
    if task is not None and task.done() and kernel_id not in kernel_manager:
        pending.pop(kernel_id)


def leave_waiting(kernel_manager: Any) -> None:
    """Let every kernel stop waiting, its place kept: the server stops, and may be back soon."""
    for kernel_id in list(kernel_manager.list_kernel_ids()):
        kernel = kernel_manager.get_kernel(kernel_id)
        if _is_pending(kernel):
            kernel.provisioner.stop_waiting(keep_place=True)


async def end_kernel(kernel: Any, kernel_id: str) -> None:
    """End a kernel for good, and nobody starts it again: its variables are gone, and a person has to be told that."""
    kernel.stop_restarter()
    manager = kernel.parent
    if manager is not None and kernel_id in manager:
        await manager.shutdown_kernel(kernel_id)
    else:
        await kernel.shutdown_kernel()
