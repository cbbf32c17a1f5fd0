"""What a lead changes in a cluster: nothing through this door yet; its Queue objects say what is in force."""

from __future__ import annotations

from scheduler_service.ports import Caller, RefusedRequest
from scheduler_service.service import access, lead_asks
from scheduler_service.service.cluster_core import ClusterCore
from scheduler_service.service.refusals import refusal
from scheduler_service.wire.team import ChangeView, LeadAsk, Undo, WhatIfView


class ClusterLead(ClusterCore):
    """The lead's side of a cluster's door: the page is there, changes are made on the objects."""

    clock_s = 5.0
    """Revisions are worked out for the other stream only; the page is made anew so often while somebody looks."""

    async def what_if(self, caller: Caller, ask: LeadAsk) -> WhatIfView:
        """Refuse, with where it is done."""
        raise self._refused(caller, ask.queue)

    async def change(self, caller: Caller, ask: LeadAsk) -> ChangeView:
        """Refuse, with where it is done."""
        raise self._refused(caller, ask.queue)

    async def undo(self, caller: Caller, number: int, ask: Undo) -> ChangeView:
        """Refuse: no change was made here."""
        del ask
        access.require_read(caller)
        raise lead_asks.no_such_change(number)

    def _refused(self, caller: Caller, queue: str) -> RefusedRequest:
        access.require_read(caller)
        queues = {item.name: item for item in self.queue_source.config.queues}
        lead_asks.require_lead(caller, queue, queues)
        return refusal(
            "not_here",
            "In a cluster a queue is changed on its Queue object, not from this page.",
            f"kubectl edit queues.scheduling.run.ai {queue}; end a request with its Cancel.",
            queue=queue,
        )
