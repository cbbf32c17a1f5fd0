"""KAI's SchedulingShard and Config: what a cluster's owner flips while we run, as our scope and policy. Pure.

Fields that say how KAI's own search or processes work are accepted and mean nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.stores import Scope
from scheduler_service.backends.kubernetes.objects import Meta, decoder
from scheduler_service.grouping.durations import duration_ms
from scheduler_service.model.policy import Action, Placement, Policy, Strategy

ACTION_OF: Mapping[str, Action] = {
    "allocate": "allocate",
    "consolidation": "consolidate",
    "reclaim": "reclaim",
    "preempt": "preempt",
    "stalegangeviction": "evict_stale_gangs",
}
RANKS: Mapping[str, int] = {
    "allocate": 500,
    "consolidation": 400,
    "reclaim": 300,
    "preempt": 200,
    "stalegangeviction": 100,
}
STRATEGIES: Mapping[str, Strategy] = {"binpack": "pack", "spread": "spread"}
WEEK_MS = 7 * 86_400_000
_WINDOW = re.compile(r"(\d+)(ms|[ywdhms])")
_WINDOW_MS = {
    "y": 365 * 86_400_000,
    "w": WEEK_MS,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}


class Switch(msgspec.Struct, frozen=True, gc=False):
    """Whether an action runs, and when."""

    enabled: bool | None = None
    priority: int | None = None


class Strategies(msgspec.Struct, frozen=True, gc=False):
    """Fullest or emptiest node first."""

    gpu: str = "binpack"
    cpu: str = "binpack"


class Runtimes(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How long work is safe after its start, where no queue says it."""

    preempt_min_runtime: str | None = None
    reclaim_min_runtime: str | None = None


class UsageParameters(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How what was used is forgotten."""

    half_life_period: str = ""
    window_size: str = "1w"


class UsageStore(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Whether what was used counts; where KAI reads it from means nothing to us, we keep our own book."""

    client_type: str = ""
    usage_params: UsageParameters = UsageParameters()


class ShardSpec(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "partition_label_value": "partitionLabelValue",
        "placement_strategy": "placementStrategy",
        "queue_depth_per_action": "queueDepthPerAction",
        "min_runtime": "minRuntime",
        "k_value": "kValue",
        "usage_db_config": "usageDBConfig",
        "stuck_in_releasing_threshold": "stuckInReleasingThreshold",
    },
):
    """The fields that decide something."""

    partition_label_value: str = ""
    placement_strategy: Strategies = Strategies()
    args: Mapping[str, str] = {}
    actions: Mapping[str, Switch] = {}
    queue_depth_per_action: Mapping[str, int] = {}
    min_runtime: Runtimes = Runtimes()
    k_value: float | None = None
    usage_db_config: UsageStore | None = None
    stuck_in_releasing_threshold: str = ""


class RawShard(msgspec.Struct, frozen=True, gc=False):
    """A SchedulingShard of the API."""

    metadata: Meta
    spec: ShardSpec = ShardSpec()


class GlobalConfig(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What holds for all of KAI's parts."""

    scheduler_name: str = ""
    node_pool_label_key: str = ""


class ConfigSpec(msgspec.Struct, frozen=True, gc=False, rename={"everywhere": "global"}):
    """The part of the Config that a scheduler reads."""

    everywhere: GlobalConfig = GlobalConfig()


class RawConfig(msgspec.Struct, frozen=True, gc=False):
    """A Config of the API."""

    metadata: Meta
    spec: ConfigSpec = ConfigSpec()


decode_shard = decoder(RawShard)
decode_config = decoder(RawConfig)


@dataclass(frozen=True, slots=True)
class Choices:
    """Which part of the cluster is scheduled, and how."""

    scope: Scope
    policy: Policy


def chosen(base: Choices, shard: RawShard | None, config: RawConfig | None) -> Choices:
    """Return the choices in force. `base`: what holds where neither object says anything.

    A scheduler that was started with a name of its own keeps it: the Config names the usual one.
    """
    scope = base.scope
    if config is not None:
        told = config.spec.everywhere
        if told.scheduler_name and scope.scheduler_names == {names.SCHEDULER_NAME}:
            scope = replace(scope, scheduler_names=frozenset({told.scheduler_name}))
        if told.node_pool_label_key:
            scope = replace(scope, pool_label=told.node_pool_label_key)
    if shard is None:
        return replace(base, scope=scope)
    return Choices(_scope(scope, shard.spec), _policy(base.policy, shard.spec))


def _scope(base: Scope, spec: ShardSpec) -> Scope:
    full = _flag(spec.args.get("full-hierarchy-fairness"), default=not base.is_flat)
    return replace(
        base,
        pool=spec.partition_label_value or base.pool,
        is_flat=not full,
        preempt_min_runtime_ms=_duration(spec.min_runtime.preempt_min_runtime)
        or base.preempt_min_runtime_ms,
        reclaim_min_runtime_ms=_duration(spec.min_runtime.reclaim_min_runtime)
        or base.reclaim_min_runtime_ms,
    )


def _policy(base: Policy, spec: ShardSpec) -> Policy:
    policy = msgspec.structs.replace(
        base,
        placement=Placement(
            gpu=STRATEGIES.get(spec.placement_strategy.gpu, base.placement.gpu),
            cpu=STRATEGIES.get(spec.placement_strategy.cpu, base.placement.cpu),
            shared_gpu=STRATEGIES.get(spec.placement_strategy.gpu, base.placement.shared_gpu),
        ),
        actions=_actions(spec),
        queue_depth={
            ACTION_OF[name]: depth
            for name, depth in spec.queue_depth_per_action.items()
            if name in ACTION_OF and depth >= 0
        },
        restrict_node_roles=_flag(
            spec.args.get("restrict-node-scheduling"), default=base.restrict_node_roles
        ),
        stale_gang_grace_ms=_grace(spec, base),
        stuck_after_ms=_stuck_after(spec, base),
        max_consolidation_victims=_victims(spec, base),
    )
    return _with_usage(policy, spec)


def _actions(spec: ShardSpec) -> tuple[Action, ...]:
    """Return the actions that run, in their order. Spreading and consolidating undo each other."""
    spreads = "spread" in {spec.placement_strategy.gpu, spec.placement_strategy.cpu}
    ranked: list[tuple[int, str]] = []
    for name, rank in RANKS.items():
        told = spec.actions.get(name, Switch())
        is_on = not (spreads and name == "consolidation")
        if told.enabled if told.enabled is not None else is_on:
            ranked.append((-(rank if told.priority is None else told.priority), name))
    return tuple(ACTION_OF[name] for _, name in sorted(ranked))


def _grace(spec: ShardSpec, base: Policy) -> int | None:
    value = _duration(spec.args.get("default-staleness-grace-period"))
    if value is None:
        return base.stale_gang_grace_ms
    return None if value < 0 else value


def _stuck_after(spec: ShardSpec, base: Policy) -> int:
    told = spec.args.get("stuck-in-releasing-threshold") or spec.stuck_in_releasing_threshold
    value = _duration(told)
    return value if value is not None and value > 0 else base.stuck_after_ms


def _victims(spec: ShardSpec, base: Policy) -> int | None:
    text = spec.args.get("max-consolidation-preemptees", "")
    try:
        value = int(text)
    except ValueError:
        return base.max_consolidation_victims
    return None if value < 0 else value


def _with_usage(policy: Policy, spec: ShardSpec) -> Policy:
    if spec.usage_db_config is None:
        return policy
    parameters = spec.usage_db_config.usage_params
    weight = 1.0 if spec.k_value is None else max(0.0, spec.k_value)
    return msgspec.structs.replace(
        policy,
        usage_weight_milli=round(weight * 1000),
        usage_half_life_ms=max(0, _duration(parameters.half_life_period) or 0),
        usage_window_ms=window_ms(parameters.window_size),
    )


def window_ms(text: str) -> int:
    """Return ms of a time as Prometheus spells it: "1w", "1d12h"; anything else is the default week."""
    parts = cast("list[tuple[str, str]]", _WINDOW.findall(text))
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return 0 if text == "0" else WEEK_MS
    return sum(int(number) * _WINDOW_MS[unit] for number, unit in parts)


def _duration(text: str | None) -> int | None:
    return duration_ms(text) if text else None


def _flag(text: str | None, *, default: bool) -> bool:
    if text is None:
        return default
    return text.strip().lower() in {"true", "1", "yes"}
