"""`kai-provisioner`: a kernel that starts when its GPU share is granted, and gives it back when it ends.

Rule: while it waits the server stays free (pending kernels), and what goes wrong is told in sentences: JupyterLab shows
the text of an exception raised here word for word.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Bool, Integer, Unicode

from kai_jupyter.device_env import share_variables
from kai_jupyter.durations import seconds
from kai_jupyter.errors import KaiJupyterError
from kai_jupyter.kernel_host import KernelHost, host_of
from kai_jupyter.kernel_lease import KernelLease, process_of
from scheduler_service.wire.pod_group import Origin, PodGroupView, Submit

NO_DEVICES = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}


class KaiProvisioner(LocalProvisioner):
    """A local kernel with a lease. Set in the kernelspec under `metadata.kernel_provisioner.config`."""

    amount = Unicode("0.5", help="GPU of the kernel: a share such as 0.5 or whole GPUs.").tag(
        config=True
    )
    memory = Unicode("", help="GPU memory instead of an amount, such as 8GiB.").tag(config=True)
    queue = Unicode("", help="Queue to ask in; empty: the person's own.").tag(config=True)
    lasts = Unicode("", help="The lease ends so long after the grant, such as 4h.").tag(config=True)
    max_wait = Unicode("", help="Give up if not granted by then, such as 30m.").tag(config=True)
    preemptible = Bool(
        None, allow_none=True, help="Whether others may take it back; None: as the queue has it."
    ).tag(config=True)
    grace = Integer(15, help="Seconds to save when it is taken back.").tag(config=True)

    _host: KernelHost | None = None
    _lease: KernelLease | None = None
    _is_on_cpu = False

    # -- what Jupyter calls -----------------------------------------------------------------------------------------
    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Wait for the grant, then let the kernel see its devices. A restart keeps the lease."""
        environment = dict(kwargs.get("env") or os.environ)
        try:
            view = await self._with_lease(environment)
        except KaiJupyterError as error:
            raise RuntimeError(str(error)) from None
        environment.update(NO_DEVICES if view is None else share_variables(view))
        return await super().pre_launch(**{**kwargs, "env": environment})

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the kernel and make its process the holder of the lease."""
        connection = await super().launch_kernel(cmd, **kwargs)
        process = process_of(self.pid)
        if self._lease is not None and process is not None:
            try:
                await self._lease.hold_in(process)
            except KaiJupyterError as error:
                self.log.warning("kai: %s", error)
        return connection

    async def cleanup(self, restart: bool = False) -> None:  # noqa: FBT001, FBT002 - jupyter_client's signature
        """Give the share back when the kernel ends for good."""
        await super().cleanup(restart)
        if not restart:
            await self._give_back("the kernel ended")

    # -- what the server extension calls ----------------------------------------------------------------------------
    def stop_waiting(self, *, keep_place: bool = False) -> None:
        """Give the wait for a GPU up; the start fails. `keep_place`: a restarted server takes it up again."""
        if self._lease is not None:
            self._lease.let_go(keep_place=keep_place)

    # -- the lease --------------------------------------------------------------------------------------------------
    async def _with_lease(self, environment: dict[str, str]) -> PodGroupView | None:
        """Return the granted lease; None where this kernel runs without a GPU because its person wanted that."""
        if self._is_on_cpu:
            return None
        if self._lease is not None and await self._lease.holds():
            return self._lease.view
        try:
            return await self._granted(environment)
        except BaseException:
            await self._give_back("the kernel did not start")
            raise

    async def _granted(self, environment: dict[str, str]) -> PodGroupView | None:
        host = self._host = self._host or host_of(self.parent) or KernelHost.alone()
        lease = self._lease = KernelLease(host.client, host.relay, str(self.kernel_id))
        await lease.ask(self._wanted(environment.get("JPY_SESSION_NAME", "")))
        if not await lease.granted():
            self._is_on_cpu = True
            self.log.info("kai: kernel %s starts without a GPU, as asked", self.kernel_id)
            return None
        return lease.view

    def _wanted(self, notebook: str) -> Submit:
        return Submit(
            kind="kernel",
            gpu=None if self.memory else self.amount,
            gpu_memory=self.memory or None,
            queue=self.queue or None,
            preemptible=self.preemptible,
            lease_s=seconds(self.lasts, "lasts") if self.lasts else None,
            max_wait_s=seconds(self.max_wait, "max_wait") if self.max_wait else None,
            grace_s=self.grace,
            process=process_of(os.getpid()),  # the server stands in until the kernel has a process
            origin=Origin(notebook=notebook or None, kernel_id=str(self.kernel_id)),
        )

    async def _give_back(self, reason: str) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            trouble = await asyncio.shield(lease.give_back(reason))
            if trouble:
                self.log.warning("kai: the lease of this kernel may still be held: %s", trouble)
        host, self._host = self._host, None
        if host is not None:
            await host.close()
