"""The fast planner makes room as the slow reference does; small faults in it are noticed."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.model.policy import Action
from scheduler_service.planning import (
    capacity_check,
    reclaim_check,
    scenario,
    settling,
    staleness,
    topology_fit,
    victims,
)
from scheduler_service.planning.actions import consolidate, preempt, reclaim
from tests.properties.clusters import Cluster, cluster, level_cluster, semi_cluster
from tests.properties.test_short_cuts import alike_cluster
from tests.properties.victims import all_differences, victim_differences

Maker = Callable[[int, int], Cluster]
Fault = tuple[Action, Any, str, Callable[..., object], Maker, int]


@pytest.mark.parametrize(
    ("kind", "seeds"), [(cluster, 10), (alike_cluster, 5), (semi_cluster, 8), (level_cluster, 8)]
)
def test_room_is_made_as_the_reference_makes_it(kind: Maker, seeds: int):
    made = {seed: kind(seed, 1 + seed % 5) for seed in range(seeds)}
    lines = [f"{seed} {line}" for seed in made for line in all_differences(made[seed])]
    assert lines == []


def _all_below(room: Any, wish: Any) -> list[Any]:
    stack = room.pool.stack(wish.group.queue)
    return [entry for entry in stack if entry.group is not wish.group]


def _yes(*_: object) -> bool:
    return True


def _no(*_: object, **__: object) -> bool:
    return False


def _at_once(*_: object) -> int:
    return 0


def _never_half(group: Any) -> bool:
    return group.model.preemptibility is Preemptibility.NON_PREEMPTIBLE


def _everywhere(*given: Any) -> Any:
    return iter(given[-1:])


FAULTS: dict[str, Fault] = {
    "every queue is asked": ("reclaim", reclaim_check, "is_asked", _yes, cluster, 3),
    "anybody may reclaim": (
        "reclaim", reclaim, "_not_entitled", lambda *_: None, alike_cluster, 12,
    ),
    "no claim by quota": (
        "reclaim", reclaim_check, "guarantees_quota", _no, alike_cluster, 2,
    ),
    "no claim by fair share": (
        "reclaim", reclaim_check, "keeps_fair_share", _no, alike_cluster, 4,
    ),
    "no run time before preempt": (
        "preempt", preempt, "preempt_min_runtime", _at_once, cluster, 188,
    ),
    "priorities do not count": ("preempt", preempt, "_lesser", _all_below, alike_cluster, 0),
    "never several nodes": ("reclaim", scenario.Search, "_together", _no, alike_cluster, 7),
    "consolidation may lose pods": (
        "consolidate", consolidate, "_all_placed", _yes, cluster, 3,
    ),
    "who has little is moved": (
        "consolidate", consolidate, "_within_share", _yes, alike_cluster, 10,
    ),
    "nobody comes back": ("reclaim", settling._Lost, "is_hopeless", _yes, cluster, 3),
    "who protects its minimum gives it": ("preempt", victims, "SEMI", _no, semi_cluster, 18),
    "a protected minimum needs no quota": (
        "preempt", capacity_check, "must_fit_quota", _never_half, semi_cluster, 58,
    ),
    "levels bind nobody": ("reclaim", topology_fit, "subsets", _everywhere, level_cluster, 3),
    "who comes later goes elsewhere": (
        "consolidate", topology_fit, "_anchored", lambda *_: None, level_cluster, 36,
    ),
    "no grace": ("evict_stale_gangs", staleness, "is_over", _yes, cluster, 4),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch):
    action, owner, name, wrong, kind, seed = FAULTS[fault]
    made = kind(seed, 1 + seed % 5)
    assert not victim_differences(made, (action,))
    monkeypatch.setattr(owner, name, wrong)

    assert victim_differences(made, (action,))
