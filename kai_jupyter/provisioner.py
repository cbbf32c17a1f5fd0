"""`kai-provisioner`: a kernel that starts when its GPU share is granted, and gives it back when it ends.

Rule: while it waits the server stays free (pending kernels), and what goes wrong is told in sentences: JupyterLab shows
the text of an exception raised here word for word.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Unicode

from kai_jupyter import calls
from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.device_env import share_variables
from kai_jupyter.durations import seconds
from kai_jupyter.errors import KaiJupyterError, KaiRequestError, NotGranted, ServiceUnreachable
from scheduler_service.wire.locate import start_ticks
from scheduler_service.wire.pod_group import (
    TERMINAL_STATES,
    Cancel,
    Move,
    Origin,
    PodGroupView,
    Process,
    Submit,
)

RETRY_S = 1.0


class KaiProvisioner(LocalProvisioner):
    """A local kernel with a lease. Set in the kernelspec under `metadata.kernel_provisioner.config`."""

    amount = Unicode("0.5", help="GPU of the kernel: a share such as 0.5 or whole GPUs.").tag(
        config=True
    )
    memory = Unicode("", help="GPU memory instead of an amount, such as 8GiB.").tag(config=True)
    queue = Unicode("", help="Queue to ask in; empty: the person's own.").tag(config=True)
    lasts = Unicode("", help="The lease ends so long after the grant, such as 4h.").tag(config=True)
    max_wait = Unicode("", help="Give up if not granted by then, such as 30m.").tag(config=True)

    _client: AsyncKaiClient | None = None
    _lease: PodGroupView | None = None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Wait for the grant, then let the kernel see its devices. A restart keeps the lease."""
        try:
            if self._lease is None or not await self._still_holds():
                self._lease = await self._granted()
        except KaiJupyterError as error:
            raise RuntimeError(str(error)) from None
        environment = kwargs.setdefault("env", dict(os.environ))
        environment.update(share_variables(self._lease))
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the kernel and make its process the holder of the lease."""
        connection = await super().launch_kernel(cmd, **kwargs)
        lease, process = self._lease, _process(self.pid)
        if lease is not None and process is not None:
            move = Move(process=process, kernel_id=self._kernel)
            try:
                await self._kai().send(calls.move(lease.namespace, lease.name, move))
            except KaiJupyterError as error:
                self.log.warning("kai: %s", error)
        return connection

    async def cleanup(self, restart: bool = False) -> None:  # noqa: FBT001, FBT002 - jupyter_client's signature
        """Give the share back when the kernel ends for good."""
        await super().cleanup(restart)
        if restart:
            return
        lease, self._lease = self._lease, None
        if lease is not None:
            await self._cancel(lease)
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def get_provisioner_info(self) -> dict[str, Any]:
        """Return what a restarted server needs to find the lease again."""
        info: dict[str, Any] = await super().get_provisioner_info()
        lease = self._lease
        return {**info, "lease": None if lease is None else [lease.namespace, lease.name]}

    async def load_provisioner_info(self, provisioner_info: dict[str, Any]) -> None:
        """Find the lease of a kernel that outlived its server."""
        await super().load_provisioner_info(provisioner_info)
        named = provisioner_info.get("lease")
        if named:
            self._lease = await self._kai().group(*named)

    # -- the lease --------------------------------------------------------------------------------------------------
    @property
    def _kernel(self) -> str:
        return str(self.kernel_id)

    def _kai(self) -> AsyncKaiClient:
        if self._client is None:
            self._client = AsyncKaiClient()
        return self._client

    def _ask(self) -> Submit:
        return Submit(
            kind="lease",
            gpu=None if self.memory else self.amount,
            gpu_memory=self.memory or None,
            queue=self.queue or None,
            lease_s=seconds(self.lasts, "lasts") if self.lasts else None,
            max_wait_s=seconds(self.max_wait, "max_wait") if self.max_wait else None,
            process=_process(os.getpid()),  # the server stands in until the kernel has a process
            origin=Origin(kernel_id=self._kernel),
        )

    async def _granted(self) -> PodGroupView:
        view = await self._kai().submit(self._ask(), idempotency_key=f"kernel-{self._kernel}")
        try:
            view = await self._decided(view)
        except asyncio.CancelledError:
            await self._cancel(view)
            raise
        if view.state != "Running":
            raise NotGranted(
                f"No GPU for this kernel: {view.sentence} "
                "Choose the kernel again to ask anew, or one without a GPU."
            )
        return view

    async def _decided(self, view: PodGroupView) -> PodGroupView:
        """Follow the request until it is granted or over; a service that restarts meanwhile keeps the place."""
        while view.state in ("Waiting", "Starting"):
            try:
                async for event in self._kai().events():
                    seen = [g for g in event.groups if _is_same(g, view)]
                    view = seen[-1] if seen else view
                    if view.state not in ("Waiting", "Starting"):
                        return view
            except ServiceUnreachable as error:
                self.log.info("kai: %s", error)
            await self._kai().forget()
            await asyncio.sleep(RETRY_S)
        return view

    async def _still_holds(self) -> bool:
        lease = self._lease
        if lease is None:
            return False
        try:
            self._lease = await self._kai().group(lease.namespace, lease.name)
        except KaiRequestError:
            return False
        return self._lease.state == "Running"

    async def _cancel(self, lease: PodGroupView) -> None:
        try:
            current = await self._kai().group(lease.namespace, lease.name)
            if current.state not in TERMINAL_STATES:
                ask = Cancel(reason="the kernel ended")
                await self._kai().send(calls.cancel(lease.namespace, lease.name, ask))
        except KaiJupyterError as error:
            self.log.warning("kai: the lease of this kernel may still be held: %s", error)


def _process(pid: int | None) -> Process | None:
    ticks = None if pid is None else start_ticks(pid)
    return None if pid is None or ticks is None else Process(pid=pid, start_ticks=ticks)


def _is_same(one: PodGroupView, other: PodGroupView) -> bool:
    return (one.namespace, one.name) == (other.namespace, other.name)
