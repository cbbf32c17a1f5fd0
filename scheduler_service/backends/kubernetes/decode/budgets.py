"""PodDisruptionBudgets: whether they allow that these pods leave together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from scheduler_service.backends.kubernetes.decode.selectors import selects
from scheduler_service.backends.kubernetes.objects import LabelSelector, Meta, RawPod, decoder


class BudgetSpec(msgspec.Struct, frozen=True, gc=False):
    """Which pods are meant; no selector means none."""

    selector: LabelSelector | None = None


class BudgetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How many may go now."""

    disruptions_allowed: int = 0


class RawBudget(msgspec.Struct, frozen=True, gc=False):
    """A PodDisruptionBudget of the API."""

    metadata: Meta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


decode_budget = decoder(RawBudget)


def exceeded(budgets: Iterable[RawBudget], victims: Sequence[RawPod]) -> str | None:
    """Return the sentence of the first budget that does not allow all victims to leave, if there is one."""
    if not victims:
        return None
    for budget in budgets:
        selector = budget.spec.selector
        if selector is None:
            continue
        meant = [
            raw
            for raw in victims
            if raw.metadata.namespace == budget.metadata.namespace
            and selects(selector, raw.metadata.labels)
        ]
        allowed = budget.status.disruptions_allowed
        if len(meant) > allowed:
            return (
                f"The disruption budget {budget.metadata.name} lets {allowed} more pods go, "
                f"not {len(meant)}."
            )
    return None
