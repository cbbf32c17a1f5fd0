"""The GPU kernels of a server after its restart: those that run are taken up, those that waited keep their places.

Rule: what Jupyter keeps in memory alone (which notebook has which kernel) is written down while the server runs, and
told to the next server's managers in the same words. A kernel of a server that lives is never touched.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from typing import Any

from jupyter_core.utils import ensure_async

from kai_jupyter import kernel_records
from kai_jupyter.kernel_host import KernelHost
from kai_jupyter.kernel_lease import process_of
from kai_jupyter.kernel_records import KernelRecord, Session
from scheduler_service.wire.pod_group import Process

TURN_S = 1.0


class KernelReturn:
    """Writes down the GPU kernels of one server, and takes up those of its predecessor."""

    def __init__(self, server: Any, host: KernelHost, log: logging.Logger, *, keep_s: int) -> None:
        self._server = server
        self._host = host
        self._log = log
        self._keep_s = keep_s
        self._where = kernel_records.folder()
        self._known: dict[str, KernelRecord] = {}
        self._has_keeper = False
        host.outlives_server = keep_s > 0

    @property
    def _own(self) -> Process | None:
        return process_of(os.getpid())

    async def run(self) -> None:
        """Take up what is there, then write down what changes, until cancelled."""
        await self.take_up()
        while True:
            await self.note()
            try:
                await asyncio.wait_for(self._host.changed.wait(), TURN_S)
            except TimeoutError:
                continue

    async def note(self) -> None:
        """Write down how things stand now."""
        self._host.changed.clear()
        now = await self._present()
        for kernel_id, record in now.items():
            if self._known.get(kernel_id) != record:
                kernel_records.write(record, self._where)
        for kernel_id in self._known.keys() - now.keys():
            kernel_records.remove(kernel_id, self._where)
        self._known = now
        if now and not self._has_keeper:
            self._has_keeper = True
            self._start_keeper()

    def _start_keeper(self) -> None:
        own = self._own
        if own is None or self._keep_s <= 0:
            return
        numbers = [str(own.pid), str(own.start_ticks), str(self._keep_s)]
        subprocess.Popen(
            [sys.executable, "-m", "kai_jupyter.kernel_keeper", str(self._where), *numbers],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    async def _present(self) -> dict[str, KernelRecord]:
        """Return the records of the GPU kernels that this server has now."""
        own, manager = self._own, self._server.kernel_manager
        leases = {
            kernel_id: kernel
            for kernel_id in manager.list_kernel_ids()
            if (kernel := manager.get_kernel(kernel_id)) and hasattr(kernel.provisioner, "holding")
        }
        if own is None or not leases or self._keep_s <= 0:
            return {}
        sessions = await self._sessions()
        return {
            kernel_id: KernelRecord(
                kernel_id=kernel_id,
                kernel_name=kernel.kernel_name,
                root=str(manager.root_dir),
                server=own,
                connection_file=str(kernel.connection_file),
                session=sessions.get(kernel_id),
                process=process_of(kernel.provisioner.pid),
                lease=kernel.provisioner.holding,
            )
            for kernel_id, kernel in leases.items()
            if kernel.provisioner.holding is not None or kernel.provisioner.pid is not None
        }

    async def _sessions(self) -> dict[str, Session]:
        listed = await ensure_async(self._server.session_manager.list_sessions())
        return {
            model["kernel"]["id"]: Session(
                id=model["id"], path=model["path"], name=model["name"], type=model["type"]
            )
            for model in listed
        }

    # -- after a restart --------------------------------------------------------------------------------------------
    async def take_up(self) -> None:
        """Take up what the predecessor of this server left."""
        root = str(self._server.kernel_manager.root_dir)
        for record in list(kernel_records.read_all(self._where)):
            if record.root != root or not record.is_orphan:
                continue
            if record.process is not None and not record.is_running:
                kernel_records.remove(record.kernel_id, self._where)
                continue
            try:
                await self._take_up(record)
            except Exception:  # noqa: BLE001 - must not cost the others; the keeper ends it
                self._log.exception("kai: kernel %s can not be taken up", record.kernel_id)
        await self.note()

    async def _take_up(self, record: KernelRecord) -> None:
        server, session = self._server, record.session
        if record.kernel_id in server.kernel_manager:
            return
        self._host.returning[record.kernel_id] = record
        where: dict[str, Any] = {}
        if session is not None:
            path = await ensure_async(server.contents_manager.get_kernel_path(path=session.path))
            environment = server.session_manager.get_kernel_env(session.path, session.name)
            where = {"path": path, "env": environment}
        await server.kernel_manager.start_kernel(
            kernel_id=record.kernel_id, kernel_name=record.kernel_name, **where
        )
        if session is not None:
            await server.session_manager.save_session(
                session.id,
                path=session.path,
                name=session.name,
                type=session.type,
                kernel_id=record.kernel_id,
            )
        word = "runs on" if record.is_running else "waits on"
        self._log.info("kai: kernel %s %s", record.kernel_id, word)
