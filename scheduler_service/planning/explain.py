"""Why a group waits, moves or goes, who is before it, and what would help."""

from __future__ import annotations

import msgspec

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Operation, Plan, Waiting
from scheduler_service.model.policy import Policy
from scheduler_service.model.reasons import Reason
from scheduler_service.planning.cycle import plan
from scheduler_service.planning.forecast import NOBODY_KNOWS, CounterOffer, RunTimes
from scheduler_service.planning.offers import counter_offers


class Explanation(msgspec.Struct, frozen=True, gc=False):
    """What the next plan does with one group (`happens`), and why the rest of it waits, if it does.

    `ahead`: the groups before it in its queue. `offers`: what would help, each tried out.
    """

    group: str
    waiting: Waiting | None
    ahead: tuple[str, ...] = ()
    offers: tuple[CounterOffer, ...] = ()
    happens: tuple[Operation, ...] = ()

    @property
    def reason(self) -> Reason | None:
        """The reason to show first."""
        return self.waiting.main_reason if self.waiting else None


def explain(
    ledger: Ledger,
    policy: Policy,
    group: str,
    now_ms: int,
    run_times: RunTimes = NOBODY_KNOWS,
) -> Explanation:
    """Return why a group stands as it does; the ledger is afterwards as before."""
    found = ledger.groups.get(group)
    if found is None:
        return Explanation(group, None)
    result = plan(ledger, policy, now_ms)
    happens = _happens(ledger, result, group)
    mine = next((item for item in result.waiting if item.group == group), None)
    if mine is None:
        return Explanation(group, None, happens=happens)
    ahead = tuple(
        item.group
        for item in result.waiting
        if item.overall < mine.overall and ledger.groups[item.group].queue == found.queue
    )
    offers = counter_offers(ledger, policy, found, now_ms, run_times)
    return Explanation(group, mine, ahead, offers, happens)


def _happens(ledger: Ledger, result: Plan, group: str) -> tuple[Operation, ...]:
    """Return what the plan does with the group's own pods, for itself or for others."""
    own = {ledger.pods.models[pod].key for pod in ledger.groups[group].pods()}
    return tuple(operation for operation in result.operations() if operation.pod in own)
