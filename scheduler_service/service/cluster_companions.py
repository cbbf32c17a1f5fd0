"""Cells that notebooks send to their companions: who may, which pod runs them, and what becomes of one whose pod ends.

Rule: a cell is its owner's alone. Who leads a queue ends a companion, and reads nothing of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

from scheduler_service.ports import Caller, CellLook, OrderLook
from scheduler_service.service import access
from scheduler_service.service.cells import Cell, Cells
from scheduler_service.service.cluster_core import ClusterParts
from scheduler_service.service.cluster_files import SIGNATURE_MIB, ClusterFiles, once
from scheduler_service.service.cluster_writes import ClusterWrites
from scheduler_service.service.keeping import keep_result, payload_missing
from scheduler_service.service.refusals import not_found, refusal
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.companion import CellAsk, CellOrders, CellReport, CellView
from scheduler_service.wire.pod_group import LEASE_KINDS

LONGEST_WAIT_S = 30.0
LOOK_S = 5.0
"""So often a wait looks whether the pod is still there."""
CELL_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


class ClusterCompanions(ClusterFiles, ClusterWrites):
    """Keeps `ports.CompanionPort`."""

    def __init__(self, parts: ClusterParts) -> None:
        super().__init__(parts)
        self._cells = Cells()

    # -- people ------------------------------------------------------------------------------------
    async def run_cell(self, caller: Caller, namespace: str, name: str, ask: CellAsk) -> CellView:
        """Hand a cell to the companion that runs it."""
        access.require_request(caller)
        record = await self._own_lease(caller, namespace, name)
        if not CELL_ID.fullmatch(ask.id):
            raise refusal("bad_name", "That is no id of a cell.", "Write 32 hex digits.")
        incarnation = _companion_of(record)
        sent = record.owner, ask.payload_sha256
        if not await asyncio.to_thread(self.files.has_payload, *sent):
            raise refusal("unknown_payload", "The cell was not uploaded.", "Upload it first.")
        return self._cells.put(incarnation, ask).view(incarnation, 0)

    async def cell(self, caller: Caller, namespace: str, name: str, ask: CellLook) -> CellView:
        """Return how a cell stands, once there is news of it."""
        access.require_read(caller)
        left = min(max(0.0, ask.wait_s), LONGEST_WAIT_S)
        while True:
            record = await self._own_lease(caller, namespace, name)
            incarnation, cell = self._found(record, ask.cell)
            if cell.is_over or cell.next > ask.after or left <= 0:
                return cell.view(incarnation, ask.after)
            await self._cells.news(incarnation, min(left, LOOK_S))
            left -= LOOK_S

    async def interrupt_cell(
        self, caller: Caller, namespace: str, name: str, cell: str
    ) -> CellView:
        """Interrupt a cell that runs, or withdraw one that does not yet."""
        access.require_request(caller)
        record = await self._own_lease(caller, namespace, name)
        incarnation, found = self._found(record, cell)
        self._cells.interrupt(incarnation, found)
        return found.view(incarnation, 0)

    async def cell_result(
        self, caller: Caller, namespace: str, name: str, cell: str
    ) -> tuple[Path, str]:
        """Return the file of a cell's values and its signature."""
        access.require_read(caller)
        record = await self._own_lease(caller, namespace, name)
        incarnation, _ = self._found(record, cell)
        path = await self.files.result(_file(incarnation, cell))
        signature = await self.files.result(_file(incarnation, cell, "signature"))
        if path is None or signature is None:
            raise refusal("no_result", "This cell brought nothing back.", "Name values with --out.")
        return path, signature.read_text()

    async def _own_lease(self, caller: Caller, namespace: str, name: str) -> GroupRecord:
        record = self.seen(caller, namespace, name)
        if record.ask.kind not in LEASE_KINDS or not await self.is_theirs(caller, record):
            raise not_found(namespace, name)
        return record

    def _found(self, record: GroupRecord, name: str) -> tuple[str, Cell]:
        """Return the cell and its companion. Of one whose pod is gone it is known that it is lost."""
        for pod in record.pods:
            cell = None if pod.incarnation is None else self._cells.find(pod.incarnation, name)
            if pod.incarnation is None or cell is None:
                continue
            if not cell.is_over and (pod.is_finished or record.is_over):
                cell.state, cell.text = "lost", "The companion ended while the cell ran."
            return pod.incarnation, cell
        raise refusal(
            "not_found",
            f"No cell {name} is known of {record.name}.",
            "Send it again with the same id: it does not run twice.",
        )

    # -- companions --------------------------------------------------------------------------------
    async def cell_orders(self, incarnation: str, look: OrderLook) -> CellOrders:
        """Return what a companion is to do, once there is something."""
        self.own_pod(incarnation)
        wait = min(max(0.0, look.wait_s), LONGEST_WAIT_S)
        while True:
            found = self._cells.orders(incarnation, look.busy, look.interrupts)
            if found is not None or not await self._cells.news(incarnation, wait):
                return found or CellOrders(interrupts=look.interrupts)

    async def report_cell(self, incarnation: str, report: CellReport) -> None:
        """Take note of what a companion says of a cell."""
        self.own_pod(incarnation)
        self._cells.take(incarnation, report)

    async def cell_payload(self, incarnation: str, cell: str) -> Path:
        """Return the payload of a cell: one that the companion's owner uploaded."""
        belongs = self.own_pod(incarnation)
        found = self._cells.find(incarnation, cell)
        path = None
        if found is not None:
            path = await self.files.payload(belongs.owner, found.ask.payload_sha256)
        if path is None:
            raise payload_missing()
        return path

    async def store_cell_result(
        self, incarnation: str, cell: str, chunks: AsyncIterator[bytes], *, signature: str
    ) -> None:
        """Keep the values of a cell, the signature last."""
        self.own_pod(incarnation)
        if self._cells.find(incarnation, cell) is None:
            raise refusal("not_found", f"No cell {cell} is known here.", "Run it again.")
        most = self.parts.settings.result_limit_mib
        await keep_result(self.files, _file(incarnation, cell), chunks, most_mib=most)
        name = _file(incarnation, cell, "signature")
        await keep_result(self.files, name, once(signature), most_mib=SIGNATURE_MIB)


def _companion_of(record: GroupRecord) -> str:
    """Return the incarnation of the pod that runs cells. Raises the refusal of a lease without one."""
    pod = next((one for one in record.pods if one.is_occupied and one.incarnation), None)
    if pod is None or pod.incarnation is None:
        raise refusal(
            "not_granted",
            f"No pod of {record.name} runs: it waits for its grant, or has ended.",
            "Wait for the grant, or ask for a new lease with %gpu.",
        )
    return pod.incarnation


def _file(incarnation: str, *parts: str) -> str:
    return ".".join((incarnation, *parts))
