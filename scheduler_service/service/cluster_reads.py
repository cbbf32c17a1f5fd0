"""What can be asked of a cluster beside its groups: cycles, snapshot, health, figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from scheduler_service import history
from scheduler_service.loop import Cycle
from scheduler_service.model import quantities
from scheduler_service.model.node import Node
from scheduler_service.ports import ADMIN, Caller
from scheduler_service.service import access
from scheduler_service.service.cluster_core import ClusterCore
from scheduler_service.service.refusals import refusal
from scheduler_service.simulate import capture
from scheduler_service.wire.cluster import CycleView, Health
from scheduler_service.wire.explain import ExplainItem, ExplainView


class ClusterReads(ClusterCore):
    """What is told of the scheduler itself."""

    async def cycles(self, caller: Caller, *, last: int) -> tuple[CycleView, ...]:
        """Return the last cycles that decided something, newest first; their lines name others: for admins."""
        access.require_read(caller)
        found = [*_told(self.scheduler.cycles)][::-1][: max(0, last)]
        if caller.is_admin:
            return tuple(found)
        return tuple(replace(cycle, lines=()) for cycle in found)

    async def snapshot(self, caller: Caller, *, cycle: int | None = None) -> dict[str, object]:
        """Return the ledger as a file's content (admin only)."""
        access.require(caller, ADMIN)
        if cycle is not None:
            raise refusal(
                "no_capture",
                "In a cluster past cycles are not kept as captures: they are too large.",
                "GET /snapshot without a cycle gives the ledger of now, for `kai plan --snapshot`.",
            )
        ledger = self.scheduler.loop.ledger
        return capture.snapshot_file(ledger.snapshot(self.clock()), self.cluster.policy)

    async def health(self) -> Health:
        """Return whether the service lives and is ready, and what must be told."""
        nodes = self.cluster.world.told.nodes.values()
        return Health(
            ok=True,
            ready=self.scheduler.is_following and self.parts.is_leading(),
            version=self.parts.version,
            backend=self.cluster.name,
            simulated=False,
            rev=self.changes.rev,
            devices_text=devices_text(nodes),
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        manner = self.scheduler.manner
        if not manner.decides:
            yield "Another scheduler decides here; positions are how this one would order the requests."
        elif manner.dry_run:
            yield "This scheduler only says what it would do; another one decides."

    def metrics_text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        controllers = self.scheduler.controllers
        return b"" if controllers is None else controllers.metrics.text()

    def with_their_words(self, view: ExplainView, text: str) -> ExplainView:
        """Return an explanation that begins with what the scheduler that decides said."""
        if not text:
            return view
        first = ExplainItem(title="Scheduler", text=text)
        return replace(view, items=(first, *view.items))


def _told(cycles: Iterable[Cycle]) -> Iterator[CycleView]:
    """Yield the cycles that decided something or saw another number of waiting groups."""
    waiting: int | None = None
    for cycle in cycles:
        view = history.cycle_view(
            cycle.plan,
            number=cycle.number,
            duration_us=cycle.duration_us,
            accepted=cycle.accepted,
            refused=cycle.refused,
        )
        if view.lines or view.waiting != waiting:
            waiting = view.waiting
            yield view


def devices_text(nodes: Iterable[Node]) -> str:
    """Return what a cluster has: "16 GPUs on 2 nodes"."""
    found = [node for node in nodes if node.gpus]
    if not found:
        return "no GPU"
    words = quantities.gpu_words(sum(node.gpus for node in found) * 1000)
    return f"{words} on {len(found)} node{'' if len(found) == 1 else 's'}"
