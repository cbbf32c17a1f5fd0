"""A notebook moves to a GPU kernel: the new kernel is started first, with the lease or the place of the old one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_core.utils import ensure_async

from kai_jupyter import calls
from kai_jupyter.identity import this_process
from kai_jupyter.kernel_host import KernelHost
from kai_jupyter.relay import Group
from scheduler_service.wire.pod_group import LEASE_KINDS, Cancel, Move

if TYPE_CHECKING:
    from kai_jupyter.kernels import KernelLeases

CARRIED = ("Waiting", "Starting", "Running")


class KernelMove:
    """Starts the kernels that notebooks of one server move to."""

    def __init__(self, server: Any, host: KernelHost, leases: KernelLeases) -> None:
        self._server = server
        self._host = host
        self._leases = leases

    async def start(self, kernel_id: str, kernel_name: str) -> str:
        """Start `kernel_name` for the notebook of `kernel_id`; return the new kernel's id.

        The page puts it in the place of the old one, which Jupyter then ends.
        """
        manager = self._server.kernel_manager
        where = await self._where(kernel_id)
        new_id = str(manager.new_kernel_id())
        held = self._held(kernel_id)
        if held is not None and await self._host.in_cluster():
            await self._let_go(held)
        elif held is not None:
            await self._carry(held, kernel_id, new_id)
            self._host.handed[new_id] = (held["namespace"], held["name"])
        try:
            await manager.start_kernel(kernel_id=new_id, kernel_name=kernel_name, **where)
        except Exception:
            if self._host.handed.pop(new_id, None) and held is not None:
                await self._host.client.cancel(held["namespace"], held["name"])
            raise
        return new_id

    async def _let_go(self, held: Group) -> None:
        """Give back the pod that the notebook holds: it can not become the new kernel, and would be asked for twice."""
        self._leases.let_go(held)
        ask = Cancel(reason="the notebook moved to a kernel of its own")
        await self._host.client.send(calls.cancel(held["namespace"], held["name"], ask))

    def _held(self, kernel_id: str) -> Group | None:
        """Return what the kernel holds or waits for."""
        for group in self._host.relay.known.groups.values():
            origin = group.get("origin") or {}
            is_its_own = group["kind"] in LEASE_KINDS and origin.get("kernel_id") == kernel_id
            if is_its_own and group.get("mine") and group["state"] in CARRIED:
                return group
        return None

    async def _carry(self, held: Group, kernel_id: str, new_id: str) -> None:
        self._leases.let_go(held)
        ask = Move(process=this_process(), kernel_id=kernel_id, to_kernel_id=new_id)
        await self._host.client.move(held["namespace"], held["name"], ask)

    async def _where(self, kernel_id: str) -> dict[str, Any]:
        """Return the folder and the variables of the kernel's notebook, as Jupyter would start it."""
        server = self._server
        for session in await ensure_async(server.session_manager.list_sessions()):
            if session["kernel"]["id"] == kernel_id:
                path, name = session["path"], session["name"]
                folder = await ensure_async(server.contents_manager.get_kernel_path(path=path))
                environment = server.session_manager.get_kernel_env(path, name)
                return {"path": folder, "env": environment}
        return {}
