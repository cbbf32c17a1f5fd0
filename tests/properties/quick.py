"""Laws and the reference on a few numbered clusters, as plain functions: for `tools.mutate`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.properties.clusters import cluster
from tests.properties.exactness import allocate_differences, planned
from tests.properties.laws import breaches
from tests.properties.reserving import reserving_breaches, reserving_cluster
from tests.properties.rich import rich_breaches, rich_cluster
from tests.properties.shares import division_differs, order_differs
from tests.reference.nodes import Ambiguous

SEEDS = 120


def cases() -> list[tuple[str, Callable[[], bool]]]:
    """Return (name, whether it fails) for the planner on numbered clusters."""
    found: list[tuple[str, Callable[[], bool]]] = []
    for seed in range(SEEDS):
        found.append((f"laws-{seed}", partial(_breaks_a_law, seed)))
        found.append((f"rich-{seed}", partial(_fails_on_rich, seed)))
        found.append((f"kept-{seed}", partial(_fails_while_keeping, seed)))
        found.append((f"exact-{seed}", partial(_differs, seed)))
        found.append((f"division-{seed}", partial(division_differs, seed)))
        found.append((f"order-{seed}", partial(order_differs, seed)))
    return found


def _breaks_a_law(seed: int) -> bool:
    made_up = cluster(seed, 1 + seed % 5)
    return bool(breaches(made_up, planned(made_up.snapshot, made_up.policy)))


def _fails_on_rich(seed: int) -> bool:
    made_up = rich_cluster(seed, 1 + seed % 5)
    return bool(rich_breaches(made_up, planned(made_up.snapshot, made_up.policy)))


def _fails_while_keeping(seed: int) -> bool:
    made_up = reserving_cluster(seed, 1 + seed % 6)
    made = planned(made_up.snapshot, made_up.policy)
    return bool(breaches(made_up, made)) or any(reserving_breaches(made_up, made))


def _differs(seed: int) -> bool:
    try:
        return bool(allocate_differences(cluster(seed, 1 + seed % 5)))
    except Ambiguous:
        return False
