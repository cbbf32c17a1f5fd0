"""What can be asked of this machine alone without changing anything: logs, cycles, snapshot, health, results."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from scheduler_service.ports import ADMIN, Caller, LogAsk
from scheduler_service.service import access, cluster_view, metrics
from scheduler_service.service.core import Core
from scheduler_service.service.refusals import refusal
from scheduler_service.simulate import capture
from scheduler_service.wire.cluster import CycleView, Health
from scheduler_service.wire.runner import LogPage

LONGEST_WAIT_S = 30.0
MOST_CYCLES = 500


class Reads(Core):
    """What only this machine has."""

    async def logs(self, caller: Caller, namespace: str, name: str, ask: LogAsk) -> LogPage:
        """Return log lines, waiting up to `wait_s` for the first new one."""
        record = self.seen(caller, namespace, name)
        loop = asyncio.get_running_loop()
        until = loop.time() + min(max(0.0, ask.wait_s), LONGEST_WAIT_S)
        while True:
            now = self.records.find(record.key)
            page = self.log_store.page(
                record.key,
                rank=ask.rank,
                after=ask.after,
                tail=ask.tail,
                ended=now is None or now.is_over,
            )
            left = until - loop.time()
            if page.lines or page.ended or left <= 0:
                return page
            await self.log_store.wait_for_more(left)

    async def cycles(self, caller: Caller, *, last: int) -> tuple[CycleView, ...]:
        """Return the last cycles, newest first; their lines name others, so they are for admins."""
        access.require_read(caller)
        found = self.history.last(min(last, MOST_CYCLES))
        if caller.is_admin:
            return found
        return tuple(replace(cycle, lines=()) for cycle in found)

    async def snapshot(self, caller: Caller, *, cycle: int | None = None) -> dict[str, object]:
        """Return the ledger, or one of the last cycles with its decision, as a file's content (admin only)."""
        access.require(caller, ADMIN)
        if cycle is not None:
            return self.captures.content(cycle)
        return capture.snapshot_file(self.loop.ledger.snapshot(self.clock()), self.loop.policy)

    async def health(self) -> Health:
        """Return whether the service lives and is ready, and what must be told."""
        notes = [*self.recovery.notes(), *self.notes, *self.cluster.machine.notes]
        notes += self.foreign_lines()
        notes += [
            note for note in (self.queue_source.note, self.log_store.fault, self.loop.note) if note
        ]
        notes += self.faults.values()
        return Health(
            ok=True,
            ready=self.overview.plan is not None,
            version=self.version,
            backend=self.cluster.name,
            simulated=self.is_simulated,
            rev=self.changes.rev,
            devices_text=cluster_view.devices_text(self.cluster.node),
            notes=tuple(notes),
        )

    def metrics_text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return metrics.text(self)

    async def result(
        self, caller: Caller, namespace: str, name: str, *, rank: int
    ) -> tuple[Path, str]:
        """Return the file of a result and its signature."""
        record = self.seen(caller, namespace, name)
        pod = next((pod for pod in record.pods if pod.rank == rank), None)
        path = None
        if pod is not None and pod.incarnation is not None and pod.result_signature is not None:
            path = await self.files.result(pod.incarnation)
        if pod is None or path is None or pod.result_signature is None:
            raise refusal(
                "no_result",
                f"Worker {rank} of {name} left no result.",
                "It has one when it has finished and was asked for values (--out).",
            )
        return path, pod.result_signature
