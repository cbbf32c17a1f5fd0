"""What a companion has to do with the service: cells in, output and values back; what was not heard is repeated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scheduler_service.runner.connection import (
    LONG_POLL_S,
    Connection,
    ServiceRefused,
    until_answered,
)
from scheduler_service.wire.companion import CellOrders, CellReport


class CellDesk:
    """The service, as one companion sees it: with its own token, read anew each time (the kubelet renews it)."""

    def __init__(self, connection: Connection, incarnation: str, token: Callable[[], str]) -> None:
        self._connection = connection
        self.incarnation = incarnation
        self._token = token

    async def orders(self, busy: str, interrupts: int) -> CellOrders:
        """Wait for something to do, for as long as it takes."""
        query = {"busy": busy, "interrupts": str(interrupts), "wait_s": str(LONG_POLL_S)}
        found = CellOrders()

        async def ask() -> None:
            nonlocal found
            found = await self._connection.cell_orders(self.incarnation, self._token(), query)

        refused = await until_answered(ask)
        if refused is not None:
            raise refused
        return found

    async def report(self, report: CellReport) -> ServiceRefused | None:
        """Tell how a cell stands; return why the service does not take it."""
        return await until_answered(
            lambda: self._connection.report_cell(self.incarnation, self._token(), report)
        )

    async def fetch(self, cell: str, target: Path) -> ServiceRefused | None:
        """Write the payload of a cell to `target`; return why it can not be had."""
        return await until_answered(
            lambda: self._connection.cell_payload(self.incarnation, self._token(), cell, target)
        )

    async def bring(self, cell: str, file: Path, signature: str) -> ServiceRefused | None:
        """Send the values of a cell; return why they can not be kept."""
        return await until_answered(
            lambda: self._connection.put_cell_result(
                self.incarnation, self._token(), cell, file=file, signature=signature
            )
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()
