"""What this machine answers about companions: there are none, a lease is the kernel's own here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from scheduler_service.ports import Caller, CellLook, OrderLook, RefusedRequest
from scheduler_service.service import access
from scheduler_service.service.refusals import refusal
from scheduler_service.wire.companion import CellAsk, CellOrders, CellReport, CellView


class NoCompanions:
    """Keeps `ports.CompanionPort` by refusing."""

    async def run_cell(self, caller: Caller, namespace: str, name: str, ask: CellAsk) -> CellView:
        """Refuse: the cell runs where it was written."""
        del namespace, name, ask
        access.require_request(caller)
        raise _none_here()

    async def cell(self, caller: Caller, namespace: str, name: str, ask: CellLook) -> CellView:
        """Refuse: there is none."""
        del namespace, name, ask
        access.require_read(caller)
        raise _none_here()

    async def interrupt_cell(
        self, caller: Caller, namespace: str, name: str, cell: str
    ) -> CellView:
        """Refuse: there is none."""
        del namespace, name, cell
        access.require_request(caller)
        raise _none_here()

    async def cell_result(
        self, caller: Caller, namespace: str, name: str, cell: str
    ) -> tuple[Path, str]:
        """Refuse: there is none."""
        del namespace, name, cell
        access.require_read(caller)
        raise _none_here()

    async def cell_orders(self, incarnation: str, look: OrderLook) -> CellOrders:
        """Refuse: no companion lives here."""
        del incarnation, look
        raise _none_here()

    async def report_cell(self, incarnation: str, report: CellReport) -> None:
        """Refuse: no companion lives here."""
        del incarnation, report
        raise _none_here()

    async def cell_payload(self, incarnation: str, cell: str) -> Path:
        """Refuse: no companion lives here."""
        del incarnation, cell
        raise _none_here()

    async def store_cell_result(
        self, incarnation: str, cell: str, chunks: AsyncIterator[bytes], *, signature: str
    ) -> None:
        """Refuse: no companion lives here."""
        del incarnation, cell, chunks, signature
        raise _none_here()


def _none_here() -> RefusedRequest:
    return refusal(
        "no_companion",
        "On this machine a lease is the kernel's own; there is no companion that runs cells.",
        "Run the cell in the notebook itself: it has the device.",
    )
