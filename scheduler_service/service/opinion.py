"""What we would say where another scheduler decides: our order of those who wait, and the other's own words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from msgspec.structs import replace as with_changes

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.groups import RawPodGroup
from scheduler_service.ledger.store import Ledger
from scheduler_service.loop import Planner
from scheduler_service.model.plan import Plan, Waiting
from scheduler_service.model.policy import Policy
from scheduler_service.wire.pod_group import PodGroupView, ReasonView
from scheduler_service.words.group import clipped

TOLD = "told"
"""Code of a reason that another scheduler gave in its own words."""


def of(planner: Planner, ledger: Ledger, policy: Policy, now: int) -> Plan:
    """Return our plan with everybody still waiting: it is not we who start anybody here."""
    return unmade(planner(ledger, policy, now), ledger)


def unmade(plan: Plan, ledger: Ledger) -> Plan:
    """Return a plan that nobody carries out: who would start waits too, before all others."""
    return with_changes(plan, statements=(), waiting=tuple(_all_waiting(plan, ledger)))


def _all_waiting(plan: Plan, ledger: Ledger) -> Iterator[Waiting]:
    """Yield those we would start first, then the others, with their places in that order."""
    first = [statement.group for statement in plan.statements if statement.is_start]
    known = {item.group: item for item in plan.waiting}
    before: Counter[str] = Counter()
    keys = [key for key in dict.fromkeys([*first, *known]) if key in ledger.groups]
    for overall, key in enumerate(keys, 1):
        queue = ledger.groups[key].model.queue
        before[queue] += 1
        item = known.get(key) or Waiting(key, ())
        yield with_changes(item, position=before[queue], overall=overall)


def in_their_words(view: PodGroupView, raw: RawPodGroup, pool: str) -> PodGroupView:
    """Return the view with what the scheduler that decides says of the group, if it says anything."""
    text = told(raw, pool)
    if not text:
        return view
    detail = clipped(text)
    sentence = f"{view.headline} {detail}"
    reason = ReasonView(code=TOLD, text=text)
    return replace(view, detail=detail, sentence=sentence, reason=reason)


def told(raw: RawPodGroup, pool: str) -> str:
    """Return the newest verdict on a group in a node pool, in its scheduler's words; "" without one."""
    here = pool or names.DEFAULT_NODE_POOL
    found = [item for item in raw.status.scheduling_conditions if item.node_pool in {"", here}]
    if not found:
        return ""
    newest = max(found, key=lambda item: _number(item.transition_id))
    return newest.message.strip() if newest.status == "True" else ""


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
