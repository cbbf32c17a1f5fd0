"""KAI's SchedulingShard and Config, field by field, as scope and policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler_service.backends.kubernetes.decode.stores import Scope
from scheduler_service.backends.kubernetes.shards import (
    Choices,
    chosen,
    decode_config,
    decode_shard,
    window_ms,
)
from scheduler_service.model.policy import Placement, Policy
from tests.unit.kubernetes.objects import raw

BASE = Choices(Scope(), Policy.default())


def by_shard(**spec: Any) -> Choices:
    return chosen(BASE, decode_shard(raw({"metadata": {"name": "default"}, "spec": spec})), None)


def test_without_objects_the_base_holds() -> None:
    assert chosen(BASE, None, None) == BASE


def test_an_empty_shard_changes_nothing() -> None:
    assert by_shard() == BASE


def test_spreading_leaves_consolidation_out_unless_it_is_asked_for() -> None:
    policy = by_shard(placementStrategy={"gpu": "spread"}).policy
    assert policy.placement == Placement("spread", "pack", "spread")
    assert "consolidate" not in policy.actions
    both = by_shard(
        placementStrategy={"gpu": "spread"}, actions={"consolidation": {"enabled": True}}
    )
    assert "consolidate" in both.policy.actions


def test_actions_are_switched_and_ordered() -> None:
    policy = by_shard(actions={"reclaim": {"enabled": False}, "preempt": {"priority": 450}}).policy
    assert policy.actions == ("allocate", "preempt", "consolidate", "evict_stale_gangs")


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [
        ({"default-staleness-grace-period": "2m"}, "stale_gang_grace_ms", 120_000),
        ({"default-staleness-grace-period": "-1s"}, "stale_gang_grace_ms", None),
        ({"default-staleness-grace-period": "soon"}, "stale_gang_grace_ms", 60_000),
        ({"restrict-node-scheduling": "true"}, "restrict_node_roles", True),
        ({"max-consolidation-preemptees": "0"}, "max_consolidation_victims", 0),
        ({"max-consolidation-preemptees": "-1"}, "max_consolidation_victims", None),
        ({"max-consolidation-preemptees": "many"}, "max_consolidation_victims", 16),
        ({"stuck-in-releasing-threshold": "5m"}, "stuck_after_ms", 300_000),
        ({"stuck-in-releasing-threshold": "0s"}, "stuck_after_ms", 120_000),
    ],
)
def test_flags_of_the_scheduler(args: dict[str, str], field: str, value: object) -> None:
    assert getattr(by_shard(args=args).policy, field) == value


def test_the_scope() -> None:
    scope = by_shard(
        partitionLabelValue="blue",
        args={"full-hierarchy-fairness": "false"},
        minRuntime={"preemptMinRuntime": "90s", "reclaimMinRuntime": "1h"},
    ).scope
    assert (scope.pool, scope.is_flat) == ("blue", True)
    assert (scope.preempt_min_runtime_ms, scope.reclaim_min_runtime_ms) == (90_000, 3_600_000)


def test_the_depth_of_actions() -> None:
    depth = by_shard(
        queueDepthPerAction={"allocate": 3, "consolidation": 0, "dance": 1}
    ).policy.queue_depth
    assert depth == {"allocate": 3, "consolidate": 0}


def test_usage_counts_where_a_store_is_named() -> None:
    assert by_shard(kValue=2).policy.usage_weight_milli == 0
    parameters = {"halfLifePeriod": "10m", "windowSize": "1d12h"}
    policy = by_shard(
        kValue=2.5, usageDBConfig={"clientType": "x", "usageParams": parameters}
    ).policy
    assert (policy.usage_weight_milli, policy.usage_half_life_ms) == (2500, 600_000)
    assert policy.usage_window_ms == 36 * 3_600_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1w", 604_800_000), ("0", 0), ("90s", 90_000), ("x", 604_800_000), ("1500ms", 1500)],
)
def test_windows(text: str, ms: int) -> None:
    assert window_ms(text) == ms


def test_the_config_names_scheduler_and_label() -> None:
    told = {"global": {"schedulerName": "other", "nodePoolLabelKey": "pool"}}
    config = decode_config(raw({"metadata": {"name": "kai-config"}, "spec": told}))
    scope = chosen(BASE, None, config).scope
    assert (scope.scheduler_names, scope.pool_label) == (frozenset({"other"}), "pool")


def test_a_scheduler_of_its_own_name_keeps_it() -> None:
    own = replace(BASE, scope=replace(BASE.scope, scheduler_names=frozenset({"mine"})))
    told = {"global": {"schedulerName": "kai-scheduler"}}
    config = decode_config(raw({"metadata": {"name": "kai-config"}, "spec": told}))
    assert chosen(own, None, config).scope.scheduler_names == {"mine"}
