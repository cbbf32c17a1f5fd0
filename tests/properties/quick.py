"""Laws, the reference and the general way on a few numbered clusters, as plain functions: for `tools.mutate`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.policy import Policy
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.cycle import plan
from tests.properties import (
    test_alike,
    test_dealing,
    test_fragmentation,
    test_moving,
    test_placing,
    test_short_cuts,
)
from tests.properties.book import image
from tests.properties.clusters import Cluster, cluster, level_cluster, semi_cluster
from tests.properties.exactness import allocate_differences, planned
from tests.properties.large_ways import differs_for_many
from tests.properties.laws import breaches
from tests.properties.reserving import reserving_breaches, reserving_cluster
from tests.properties.rich import rich_breaches, rich_cluster
from tests.properties.shares import division_differs, order_differs
from tests.properties.victims import all_differences
from tests.reference.nodes import Ambiguous

SEEDS = 120
SEEDS_OF_WORLDS = 150
SEEDS_OF_WAYS = 60

World = Callable[[int], tuple[Snapshot, Policy]]
Kind = Callable[[int, int], Cluster]


def _alike(seed: int) -> tuple[Snapshot, Policy]:
    return test_alike.cluster(seed), Policy(max_consolidation_victims=8)


WORLDS: dict[str, World] = {
    "alike": _alike,
    "dealt": test_dealing.cluster,
    "moved": test_moving.cluster,
    "placed": test_placing.cluster,
}
KINDS: tuple[Kind, ...] = (cluster, rich_cluster, reserving_cluster, test_short_cuts.alike_cluster)


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
    for name, world in WORLDS.items():
        found += [
            (f"{name}-{seed}", partial(_is_not_general, world, seed))
            for seed in range(SEEDS_OF_WORLDS)
        ]
    for seed in range(SEEDS_OF_WAYS):
        for name, world in WORLDS.items():
            found.append((f"sums-{name}-{seed}", partial(_sums_differ, world, seed)))
            found.append((f"many-{name}-{seed}", partial(_differs_for_many, world, seed)))
        found.append((f"many-{seed}", partial(_differs_for_many, _rich, seed)))
        found.append((f"parts-{seed}", partial(_takes_another_part, seed)))
        for kind in (cluster, semi_cluster, level_cluster, test_short_cuts.alike_cluster):
            name = f"room-{kind.__name__}-{seed}"
            found.append((name, partial(_makes_other_room, kind, seed)))
        for kind in KINDS:
            name = f"slow-{kind.__name__.partition('_cluster')[0]}-{seed}"
            found.append((name, partial(_is_not_one_by_one, kind, seed)))
    return found


def _makes_other_room(kind: Kind, seed: int) -> bool:
    """Say whether an action, or the cycle, makes room otherwise than the slow reference."""
    return any(all_differences(kind(seed, 1 + seed % 6)))


def _takes_another_part(seed: int) -> bool:
    made_up, shared = cluster(seed, 1 + seed % 5), "pack" if seed % 2 else "spread"
    return bool(test_fragmentation.wrong_parts(made_up, shared))


def _is_not_one_by_one(kind: Kind, seed: int) -> bool:
    """Say whether the plan is another one with all short cuts off."""
    made_up = kind(seed, 1 + seed % 5)
    return test_short_cuts.differs_one_by_one(made_up)


def _rich(seed: int) -> tuple[Snapshot, Policy]:
    made_up = rich_cluster(seed, 1 + seed % 5)
    return made_up.snapshot, made_up.policy


def _is_not_general(world: World, seed: int) -> bool:
    """Say whether short ways decide otherwise than the general one, or do not leave the book as it was."""
    snapshot, policy = world(seed)
    ledger = Ledger.from_snapshot(snapshot)
    before = image(ledger)
    found = plan(ledger, policy, 0)
    general = plan(Ledger.from_snapshot(test_alike.with_a_rule(snapshot)), policy, 0)
    decided, expected = (
        (made.statements, test_alike.told(made), after)
        for made, after in ((found, image(ledger)), (general, before))
    )
    return decided != expected


def _sums_differ(world: World, seed: int) -> bool:
    snapshot, policy = world(seed)
    general = test_alike.sums(test_alike.with_a_rule(snapshot), policy)
    return test_alike.sums(snapshot, policy) != general


def _differs_for_many(world: World, seed: int) -> bool:
    return differs_for_many(Cluster(seed, *world(seed)))


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
