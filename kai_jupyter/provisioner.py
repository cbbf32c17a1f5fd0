"""`kai-provisioner`: a kernel that starts when its GPU share is granted, and gives it back when it ends.

Rule: while it waits the server stays free (pending kernels), and what goes wrong is told in sentences: JupyterLab shows
the text of an exception raised here word for word.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from traitlets import Bool, Integer, Unicode

from kai_jupyter.adopted import AdoptedProcess
from kai_jupyter.device_env import NO_DEVICES, share_variables
from kai_jupyter.durations import seconds
from kai_jupyter.errors import KaiJupyterError, NotGranted
from kai_jupyter.kernel_host import KernelHost, end_kernel, host_of
from kai_jupyter.kernel_lease import KernelLease, process_of
from kai_jupyter.kernel_records import KernelRecord
from kai_jupyter.pod_kernel.place import PodPlace
from scheduler_service.wire.pod_group import (
    TERMINAL_STATES,
    ClusterAsk,
    Move,
    Origin,
    PodGroupView,
    Process,
    Submit,
)

LOOK_S = 0.25
DIALOG_WIDTH = 88
"""JupyterLab's dialog shows the text as it is and breaks no line."""
HELD_S = 10.0
"""A start waits at most so long for the service to note the kernel's process; it is tried on after that."""
SHUTDOWN_S = 10.0
"""How long a kernel in a pod may take to end by itself before it is made to."""
FORGOTTEN = "The queue has forgotten the lease of this kernel."


class KaiProvisioner(LocalProvisioner):
    """A kernel with a lease: a process here, or a pod where the service runs a cluster.

    Set in the kernelspec under `metadata.kernel_provisioner.config`.
    """

    amount = Unicode("0.5", help="GPU of the kernel: a share such as 0.5 or whole GPUs.").tag(
        config=True
    )
    memory = Unicode("", help="GPU memory instead of an amount, such as 8GiB.").tag(config=True)
    queue = Unicode("", help="Queue to ask in; empty: the person's own.").tag(config=True)
    lasts = Unicode("", help="The lease ends so long after the grant, such as 4h.").tag(config=True)
    max_wait = Unicode("", help="Give up if not granted by then, such as 30m.").tag(config=True)
    folder = Unicode(
        "",
        help="Working folder of the kernel; empty: the notebook's own (in a pod: home). ~ is the home folder.",
    ).tag(config=True)
    image = Unicode("", help="In a cluster: image of the kernel's pod; empty: the cluster's.").tag(
        config=True
    )
    profile = Unicode("", help="In a cluster: a choice that its owner offers by name.").tag(
        config=True
    )
    home = Unicode(
        "", help="In a cluster: volume claim that is the pod's home; empty: the person's own."
    ).tag(config=True)
    namespace = Unicode("", help="In a cluster: where the pod is made; empty: by its rules.").tag(
        config=True
    )
    start_timeout = Integer(
        600, help="Seconds that a granted pod may take to start, its image's pull included."
    ).tag(config=True)
    keep = Integer(
        600, help="Seconds that a kernel in a pod is kept for a Jupyter server that is away."
    ).tag(config=True)
    preemptible = Bool(
        None, allow_none=True, help="Whether others may take it back; None: as the queue has it."
    ).tag(config=True)
    grace = Integer(15, help="Seconds to save when it is taken back.").tag(config=True)

    _host: KernelHost | None = None
    _before: KernelRecord | None = None
    _adopted: Process | None = None
    _named: tuple[str, str] | None = None
    """The lease of an adopted kernel until the service has told of it."""
    _lease: KernelLease | None = None
    _watching: asyncio.Task[None] | None = None
    _is_on_cpu = False
    pod: PodPlace | None = None
    """Where the kernel is in a cluster; None for a process of this machine."""

    # -- what Jupyter calls -----------------------------------------------------------------------------------------
    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Wait for the grant, then let the kernel see its devices. A restart keeps the lease."""
        self._host = self._host or host_of(self.parent) or KernelHost.alone()
        before = self._host.returning.pop(str(self.kernel_id), None)
        if before is not None and before.is_running:
            return await self._adopt(before, kwargs)
        self._before = before
        environment = dict(kwargs.get("env") or os.environ)
        environment.pop("JPY_PARENT_PID", None)  # of a server that is itself in a kernel
        try:
            await self._choose_place()
            where = {"cwd": self._working_folder()} if self.folder and self.pod is None else {}
            view = await self._with_lease(environment)
            if self.pod is not None and self._lease is not None and view is not None:
                return await self._enter_pod((self.pod, self._lease, view), kwargs)
        except KaiJupyterError as error:
            raise RuntimeError(textwrap.fill(str(error), DIALOG_WIDTH)) from None
        self._leave_pod()
        environment.update(NO_DEVICES if view is None else share_variables(view))
        return await super().pre_launch(**{**kwargs, **where, "env": environment})

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the kernel, make its process the holder of the lease, and look after both."""
        if self._adopted is not None:
            connection = self._take_over(self._adopted)
        elif self.pod is not None:
            in_pod: Any = self.pod.process
            self.process, self.pid, self.pgid = in_pod, None, None
            connection = self.connection_info
        else:
            alone = {"independent": True} if self._host and self._host.outlives_server else {}
            connection = await super().launch_kernel(cmd, **alone, **kwargs)
        self._changed()
        process = process_of(self.pid)
        if self._lease is not None and (process is not None or self.pod is not None):
            held = asyncio.Event()
            self._stop_watching()
            self._watching = asyncio.create_task(self._watch(self._lease, process, held))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(held.wait(), HELD_S)
        return connection

    async def cleanup(self, restart: bool = False) -> None:  # noqa: FBT001, FBT002 - jupyter_client's signature
        """Give the share back when the kernel ends for good."""
        await super().cleanup(restart)
        self._stop_watching()
        if not restart:
            await self._give_back("the kernel ended")
            self._leave_pod()

    def get_shutdown_wait_time(self, recommended: float = 5.0) -> float:
        """Return how long the kernel may take to end by itself."""
        return recommended if self.pod is None else max(recommended, SHUTDOWN_S)

    # -- what the server extension calls ----------------------------------------------------------------------------
    def stop_waiting(self, *, keep_place: bool = False) -> None:
        """Give the wait for a GPU up; the start fails. `keep_place`: a restarted server takes it up again."""
        if self._lease is not None:
            self._lease.let_go(keep_place=keep_place)

    def _working_folder(self) -> str:
        """Return the folder of the kernelspec; a sentence where there is none, before anything is asked for."""
        folder = Path(self.folder).expanduser()
        if not folder.is_dir():
            raise RuntimeError(
                f"The working folder {folder} of this kernel does not exist.\n"
                "Make it, or change `folder` in its kernelspec."
            )
        return str(folder)

    # -- a kernel in a pod ------------------------------------------------------------------------------------------
    async def _choose_place(self) -> None:
        """Find out whether this kernel gets a pod."""
        host = self._host
        if (
            self.pod is None
            and host is not None
            and not self._is_on_cpu
            and await host.in_cluster()
        ):
            environment = dict(self.kernel_spec.env)
            self.pod = PodPlace(self.parent, self.keep, self.folder, environment)

    async def _enter_pod(
        self, granted: tuple[PodPlace, KernelLease, PodGroupView], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        pod, lease, view = granted
        self.kernel_spec.interrupt_mode = (
            "message"  # no signal of ours reaches a pod before its kernel
        )
        try:
            async with asyncio.timeout(self.start_timeout):
                self.connection_info = await self._entered(pod, lease, view)
        except (TimeoutError, ConnectionError) as error:
            await self._give_back("the kernel did not start")
            why = f" ({error})" if str(error) else ""
            raise NotGranted(
                f"The kernel in its pod does not answer{why}. `kai logs {view.name}` may say why."
            ) from None
        launch: dict[str, Any] = await KernelProvisionerBase.pre_launch(self, cmd=[], **kwargs)
        return launch

    @staticmethod
    async def _entered(pod: PodPlace, lease: KernelLease, view: PodGroupView) -> Any:
        """Return the connection to the kernel in its pod; a pod that ends meanwhile is told at once."""
        entering = asyncio.ensure_future(pod.enter(view))
        over = asyncio.ensure_future(lease.over())
        try:
            await asyncio.wait({entering, over}, return_when=asyncio.FIRST_COMPLETED)
            if not entering.done():
                raise NotGranted(f"The pod of this kernel ended: {over.result().sentence}")
            return entering.result()
        finally:
            entering.cancel()
            over.cancel()

    def _leave_pod(self) -> None:
        pod, self.pod = self.pod, None
        if pod is not None:
            pod.give_up()

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
        lease = self._lease = self._new_lease()
        before, self._before = self._before, None
        kept = before.lease if before is not None else self._handed()
        if kept is None or not await self._resumed(lease, kept, before):
            await lease.ask(await self._wanted(environment.get("JPY_SESSION_NAME", "")))
        self._changed()
        if not await lease.granted(start_s=self.start_timeout if self.pod else None):
            self._is_on_cpu, self._lease = True, None  # nothing is left to hold, or to lose
            self.log.info("kai: kernel %s starts without a GPU, as asked", self.kernel_id)
            return None
        return lease.view

    async def _watch(
        self, lease: KernelLease, process: Process | None, held: asyncio.Event
    ) -> None:
        """Keep the lease in the kernel's process; end the kernel when the lease is ended by anybody but its owner.

        A kernel in a pod ends with its pod, whoever ended that.
        """
        try:
            if self._named is not None:
                await lease.find(*self._named)
                self._named = None
            if process is not None:
                await lease.hold_in(process)
        except KaiJupyterError as error:  # it ended meanwhile, and is told below
            self.log.warning("kai: %s", error)
        finally:
            held.set()
        view = None if lease.view is None else await lease.over()
        if view is not None and view.ended_by == "owner" and self.pod is None:
            return  # `%gpu release`: the kernel goes on without a GPU
        self.log.warning("kai: kernel %s: %s", self.kernel_id, view.sentence if view else FORGOTTEN)
        await self._end(is_over=view is None or view.state in TERMINAL_STATES)

    async def _end(self, *, is_over: bool) -> None:
        """End the kernel whose lease ended. `is_over`: its pod, if it has one, is gone already."""
        kernel: Any = self.parent
        kernel.stop_restarter()
        in_pod = None if self.pod is None else self.pod.process
        if in_pod is not None and is_over:
            in_pod.lost()
        await self._ended_within(self.grace)
        if in_pod is not None:
            in_pod.lost()
        if in_pod is not None or await self.poll() is None:
            self._watching = None  # this task, which the kernel's cleanup would end with the shutdown it waits for
            await end_kernel(kernel, str(self.kernel_id))

    async def _ended_within(self, grace_s: float) -> None:
        """Leave the kernel its time to save."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while await self.poll() is None:  # noqa: ASYNC110 - a process tells nobody that it ends
                    await asyncio.sleep(LOOK_S)

    def _stop_watching(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None and watching is not asyncio.current_task():
            watching.cancel()

    def _new_lease(self) -> KernelLease:
        host = self._host = self._host or KernelHost.alone()
        return KernelLease(host.client, host.relay, str(self.kernel_id))

    def _handed(self) -> tuple[str, str] | None:
        """Return what the notebook held before it moved to this kernel."""
        return None if self._host is None else self._host.handed.pop(str(self.kernel_id), None)

    async def _resumed(
        self, lease: KernelLease, named: tuple[str, str], before: KernelRecord | None
    ) -> bool:
        """Take up the request that the server before this one made; this server stands in now."""
        if self.pod is not None:
            is_known = before is not None and self.pod.take_up(before.connection_file)
            if is_known and await lease.find(*named):
                await self.pod.work(lease.client)  # an offer that is taken needs it
                return True
            self.pod.give_up()
            return False
        process = process_of(os.getpid())
        move = None if process is None else Move(process=process, kernel_id=str(self.kernel_id))
        return move is not None and await lease.resume(*named, move)

    def _changed(self) -> None:
        if self._host is not None:
            self._host.changed.set()

    # -- a kernel that outlived its server --------------------------------------------------------------------------
    @property
    def holding(self) -> tuple[str, str] | None:
        """Namespace and name of what this kernel holds or waits for."""
        view = None if self._lease is None else self._lease.view
        return self._named if view is None else (view.namespace, view.name)

    async def _adopt(self, before: KernelRecord, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Take up a kernel that runs: its ports and keys are in its connection file, its lease is its own."""
        kernel: Any = self.parent
        kernel.load_connection_file(before.connection_file)
        kernel.connection_file = before.connection_file
        kernel._connection_file_written = True  # noqa: SLF001 - as if we had: it goes with the kernel
        self.ports_cached = True  # a restart keeps them
        self.connection_info = kernel.get_connection_info()
        self._adopted = before.process
        self._is_on_cpu = before.lease is None
        self._named = before.lease
        if before.lease is not None:
            self._lease = self._new_lease()
        launch: dict[str, Any] = await KernelProvisionerBase.pre_launch(self, cmd=[], **kwargs)
        return launch

    def _take_over(self, process: Process) -> Any:
        """Make a process that runs this kernel's."""
        adopted: Any = AdoptedProcess(process)
        self.process, self._adopted = adopted, None
        self.pid, self.pgid = process.pid, os.getpgid(process.pid)
        return self.connection_info

    async def _wanted(self, notebook: str) -> Submit:
        asked, host = self._asked(notebook), self._host
        if self.pod is None or host is None:
            # The server stands in until the kernel has a process.
            return replace(asked, process=process_of(os.getpid()))
        work, signature = await self.pod.work(host.client)
        chosen = ClusterAsk(
            namespace=self.namespace or None,
            image=self.image or None,
            profile=self.profile or None,
            folder=self.home or None,
        )
        return replace(asked, work=work, signature=signature, cluster=chosen)

    def _asked(self, notebook: str) -> Submit:
        return Submit(
            kind="kernel",
            gpu=None if self.memory else self.amount,
            gpu_memory=self.memory or None,
            queue=self.queue or None,
            preemptible=self.preemptible,
            lease_s=seconds(self.lasts, "lasts") if self.lasts else None,
            max_wait_s=seconds(self.max_wait, "max_wait") if self.max_wait else None,
            grace_s=self.grace,
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
