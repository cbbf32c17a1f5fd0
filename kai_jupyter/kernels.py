"""The kernels of this server and the leases that belong to them: which process, which moved, which must let go.

A lease lives in the kernel's own process. When a person restarts the kernel, the new process of the same kernel id
takes the lease over; when a lease was taken back and the kernel still sits on the device, the kernel is restarted.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from kai_jupyter import calls
from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.errors import KaiJupyterError
from kai_jupyter.kernel_lease import process_of
from kai_jupyter.relay import Group, key_of, now_ms
from scheduler_service.wire.codec import encode
from scheduler_service.wire.locate import start_ticks
from scheduler_service.wire.pod_group import LEASE_KINDS, TERMINAL_STATES, Cancel, Move, Process

TURN_S = 1.0
LET_GO_S = 30.0
"""How long after the end of a lease a kernel may sit on its device, beyond the service's notice and grace."""


class KernelLeases:
    """Watches the processes of this server's kernels that hold leases."""

    def __init__(self, kernel_manager: Any, client: AsyncKaiClient, log: logging.Logger) -> None:
        self._kernel_manager = kernel_manager
        self._client = client
        self._log = log
        self._leases: dict[str, Group] = {}
        self._pids: dict[str, int] = {}
        self._stopping_since: dict[str, float] = {}

    def with_process(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Return a submit for a lease of one of our kernels with that kernel's process filled in.

        While a kernel waits for its first process, this server stands in for it.
        """
        kernel_id = (ask.get("origin") or {}).get("kernel_id")
        if ask.get("kind") not in LEASE_KINDS or not isinstance(kernel_id, str):
            return ask
        signed = self._signed_work(kernel_id)
        if (
            signed is not None
        ):  # a kernel in a pod: what its pod runs goes with the request, and no process here
            return {**ask, **signed}
        process = self.process_of(kernel_id)
        if process is None and ask["kind"] == "kernel" and kernel_id in self._kernel_manager:
            process = process_of(os.getpid())
        if process is None:
            return ask
        filled = {"pid": process.pid, "start_ticks": process.start_ticks, "cuda_initialised": False}
        return {**ask, "process": filled}

    def _signed_work(self, kernel_id: str) -> dict[str, Any] | None:
        if kernel_id not in self._kernel_manager:
            return None
        place = getattr(self._kernel_manager.get_kernel(kernel_id).provisioner, "pod", None)
        if place is None or place.signed is None:
            return None
        work, signature = place.signed
        return {"work": encode(work), "signature": signature}

    def process_of(self, kernel_id: str) -> Process | None:
        """Return the process of a local kernel of this server."""
        if kernel_id not in self._kernel_manager:
            return None
        provisioner = self._kernel_manager.get_kernel(kernel_id).provisioner
        pid = getattr(provisioner, "pid", None)
        if not isinstance(pid, int) or not getattr(provisioner, "has_process", False):
            return None
        ticks = start_ticks(pid)
        return None if ticks is None else Process(pid=pid, start_ticks=ticks)

    def see(self, group: Group) -> None:
        """Take note of a group's new state."""
        kernel_id = (group.get("origin") or {}).get("kernel_id")
        key = key_of(group)
        is_live = group["state"] not in TERMINAL_STATES
        if group["kind"] != "lease" or not group.get("mine") or not kernel_id or not is_live:
            self._forget(key)  # a whole kernel's lease is looked after by its provisioner
            return
        self._leases[key] = group
        if _is_taken_back(group):
            self._stopping_since.setdefault(key, asyncio.get_running_loop().time())
        else:
            self._stopping_since.pop(key, None)

    def let_go(self, group: Group) -> None:
        """Look no longer after a lease: another kernel takes it over."""
        self._forget(key_of(group))

    def _forget(self, key: str) -> None:
        self._leases.pop(key, None)
        self._pids.pop(key, None)
        self._stopping_since.pop(key, None)

    async def run(self) -> None:
        """Look after the leases until cancelled; idle while there are none."""
        while True:
            await asyncio.sleep(TURN_S)
            for key, group in tuple(self._leases.items()):
                try:
                    await self._look_after(key, group)
                except KaiJupyterError as error:
                    self._log.info("kai: lease %s: %s", key, error)

    async def _release(self, key: str, group: Group) -> None:
        """Give back what a kernel held that was shut down for good: nobody will restart it."""
        self._forget(key)
        ask = Cancel(reason="the kernel was shut down")
        await self._client.send(calls.cancel(group["namespace"], group["name"], ask))

    async def _look_after(self, key: str, group: Group) -> None:
        kernel_id = group["origin"]["kernel_id"]
        if key in self._pids and kernel_id not in self._kernel_manager:
            await self._release(key, group)
            return
        process = self.process_of(kernel_id)
        if process is None:
            return
        known = self._pids.setdefault(key, process.pid)
        if known != process.pid:
            self._pids[key] = process.pid
            self._stopping_since.pop(key, None)
            await self._client.send(
                calls.move(
                    group["namespace"], group["name"], Move(process=process, kernel_id=kernel_id)
                )
            )
            return
        since = self._stopping_since.get(key)
        if since is not None and asyncio.get_running_loop().time() - since > LET_GO_S:
            self._forget(key)
            self._log.warning("kai: %s", group["sentence"])
            await self._kernel_manager.restart_kernel(kernel_id)


def _is_taken_back(group: Group) -> bool:
    """Return whether a lease ends without its person having asked: it was evicted, or its time is over."""
    expires_at = group.get("expires_at")
    is_time_over = expires_at is not None and expires_at <= now_ms()
    return group["state"] == "Stopping" and (group.get("reason") is not None or is_time_over)
