"""Scenario, snapshot and capture files, read into the model.

What belongs here: which top-level fields a file has, and the place of every error. What never
does: what a field means (`format`, `translate`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UnsetType

from scheduler_service.errors import ConfigurationError
from scheduler_service.model.node import Node
from scheduler_service.model.pod import Pod
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.policy import (
    DEFAULT_STUCK_AFTER_MS,
    Action,
    Placement,
    Policy,
)
from scheduler_service.model.resources import Resources
from scheduler_service.model.snapshot import BackOff, Hold, Snapshot, StaticVeto
from scheduler_service.model.topology import Topology
from scheduler_service.simulate import format as parts
from scheduler_service.simulate import source, translate
from scheduler_service.simulate.source import Located

NOW_MS: Final = 1_800_000_000_000
"""The moment of every scenario: time stands still."""
FORMAT: Final = 1
VERSION: Final = 1
ACTION_OF: Final[Mapping[parts.Action, Action]] = {
    "allocate": "allocate",
    "consolidation": "consolidate",
    "reclaim": "reclaim",
    "preempt": "preempt",
    "stale_gang_eviction": "evict_stale_gangs",
}
_WORLD: Final = {"policy": True, "nodes": True, "queues": True, "pod_groups": True} | dict.fromkeys(
    (
        "topologies",
        "topology_aliases",
        "resource_slices",
        "resource_claims",
        "vetoes",
        "holds",
        "back_offs",
        "usage",
        "owner_usage",
    ),
    False,
)
SCENARIO_FIELDS: Final = _WORLD | {
    "format": True,
    "id": True,
    "suite": True,
    "tags": True,
    "about": False,
    "rule": False,
    "run": True,
    "expect": True,
}
SNAPSHOT_FIELDS: Final = _WORLD | {"version": True, "now": True, "about": False, "plan": False}
T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class World:
    """A cluster at one moment and the policy that rules it."""

    snapshot: Snapshot
    policy: Policy
    stays_releasing: frozenset[str]
    """Keys of leaving pods that leave in no cycle."""
    key_of_pod: Mapping[str, str]
    """Keys by name and by themselves."""
    key_of_group: Mapping[str, str]
    """Keys by the name in the file."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A worked example: a world, what runs on it, and what must come out."""

    file: Path
    id: str
    suite: str
    tags: tuple[str, ...]
    about: str
    rule: str
    """The rule that a case of ours protects, and where it is written."""
    run: parts.Run
    world: World
    expect: parts.Expectation

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions of a cycle of this scenario."""
        return self.world.policy.actions


def read_scenario(file: Path, base: Policy) -> Scenario:
    """Return the scenario in `file`; what its policy leaves open is as in `base`."""
    return scenario_of(file, source.read(file), base)


def scenario_of(file: Path, raw: Mapping[str, Any], base: Policy) -> Scenario:
    """Return the scenario that `raw`, read from `file`, holds."""
    _check_fields(file, raw, SCENARIO_FIELDS)
    if raw["format"] != FORMAT:
        raise Located(file, "format", f"is {raw['format']!r}; this reader knows {FORMAT}.")
    run = source.convert(file, "run", raw["run"], parts.Run)
    _check_run(file, raw["run"], run)
    world = _world(file, raw, base, NOW_MS)
    if run.action != "cycle":  # a cycle runs what the policy says, by default all of them
        actions = (ACTION_OF[run.action],)
        world = replace(world, policy=msgspec.structs.replace(world.policy, actions=actions))
    expect = source.convert(file, "expect", raw["expect"], parts.Expectation)
    _check_names(file, expect, world)
    return Scenario(
        file=file,
        id=source.convert(file, "id", raw["id"], str),
        suite=source.convert(file, "suite", raw["suite"], str),
        tags=source.convert(file, "tags", raw["tags"], tuple[str, ...]),
        about=source.convert(file, "about", raw.get("about", ""), str),
        rule=source.convert(file, "rule", raw.get("rule", ""), str),
        run=run,
        world=world,
        expect=expect,
    )


def read_world(file: Path, base: Policy) -> World:
    """Return the world of a snapshot or capture file, or of a scenario file."""
    raw = source.read(file)
    if "format" in raw:
        return scenario_of(file, raw, base).world
    return world_of(file, raw, base)


def world_of(file: Path, raw: Mapping[str, Any], base: Policy) -> World:
    """Return the world of the snapshot that `raw`, read from `file`, holds."""
    version = raw.get("version", VERSION)
    if version != VERSION:
        hint = "Read it with the release that wrote it."
        error = f"is {version!r}; this reader knows {VERSION}."
        raise Located(file, "version", error, hint=hint)
    _check_fields(file, raw, SNAPSHOT_FIELDS)
    return _world(file, raw, base, source.convert(file, "now", raw["now"], int))


def _check_fields(file: Path, raw: Mapping[str, Any], fields: Mapping[str, bool]) -> None:
    for name in raw:
        if name not in fields:
            known = translate.listed(fields)
            raise Located(file, name, "is no field of the format.", hint=f"Fields are: {known}.")
    for name, is_needed in fields.items():
        if is_needed and name not in raw:
            raise Located(file, name, "is missing.", hint="FORMAT.md says what it holds.")


def _check_run(file: Path, raw: Mapping[str, Any], run: parts.Run) -> None:
    given = sorted(set(raw) & {"settle_cycles", "steady_cycles"})
    if run.action == "cycle" and len(given) < 2:  # noqa: PLR2004 - both of the two
        raise Located(file, "run", "a cycle needs settle_cycles and steady_cycles.")
    if run.action != "cycle" and given:
        raise Located(file, f"run.{given[0]}", "goes with the action cycle only.")


def _check_names(file: Path, expect: parts.Expectation, world: World) -> None:
    known: tuple[tuple[str, Mapping[str, Any], set[str]], ...] = (
        ("pods", expect.pods, set(world.key_of_pod)),
        ("pod_groups", expect.pod_groups, set(world.key_of_group)),
        ("nodes", expect.nodes, {node.name for node in world.snapshot.nodes}),
        ("queues", expect.queues, {queue.name for queue in world.snapshot.queues}),
    )
    for field, named, names in known:
        for name in named:
            if name not in names:
                hint = f"Known are: {translate.listed(names)}."
                raise Located(file, f"expect.{field}.{name}", "is not in the scenario.", hint=hint)


@contextmanager
def _located(file: Path, where: str) -> Iterator[None]:
    try:
        yield
    except Located:
        raise
    except ConfigurationError as error:
        raise Located(file, where, error.what, hint=error.hint) from None


def _named(
    file: Path, raw: Mapping[str, Any], field: str, part: type[P], build: Callable[[str, P], T]
) -> dict[str, T]:
    """Return the entries of a map by name, each converted and built."""
    entries = source.convert(file, field, raw.get(field, {}), dict[str, Any])
    found = {}
    for name, entry in entries.items():
        where = f"{field}.{name}"
        with _located(file, where):
            found[name] = build(name, source.convert(file, where, entry, part))
    return found


def _world(file: Path, raw: Mapping[str, Any], base: Policy, now_ms: int) -> World:
    nodes = _named(file, raw, "nodes", parts.NodePart, translate.node)
    queue_parts = _named(file, raw, "queues", parts.QueuePart, lambda _, part: part)
    queues = {}
    for name, part in queue_parts.items():
        with _located(file, f"queues.{name}"):
            queues[name] = translate.queue(name, part, queue_parts)
    groups = _named(file, raw, "pod_groups", parts.PodGroupPart, lambda _, part: part)
    members = _Members(file, nodes, now_ms)
    for name, group in groups.items():
        members.add(name, group)
    claims = _named(
        file,
        raw,
        "resource_claims",
        parts.ClaimPart,
        lambda name, part: translate.resource_claim(name, part, members.key_of_pod),
    )
    snapshot = Snapshot(
        now_ms=now_ms,
        nodes=tuple(nodes.values()),
        queues=tuple(queues.values()),
        pod_groups=tuple(members.groups),
        pods=tuple(members.pods),
        topologies=_topologies(file, raw),
        resource_slices=tuple(
            translate.resource_slice(part, nodes)
            for part in _listed(file, raw, "resource_slices", parts.SlicePart)
        ),
        resource_claims=tuple(claims.values()),
        **_extras(file, raw, now_ms),
    )
    return World(
        snapshot=snapshot,
        policy=_policy(source.convert(file, "policy", raw["policy"], parts.PolicyPart), base),
        stays_releasing=frozenset(members.stays_releasing),
        key_of_pod=members.key_of_pod,
        key_of_group=members.key_of_group,
    )


class _Members:
    """The groups and pods of a file, as they are read."""

    def __init__(self, file: Path, nodes: Mapping[str, Node], now_ms: int) -> None:
        self.file = file
        self.nodes = nodes
        self.now_ms = now_ms
        self.groups: list[PodGroup] = []
        self.pods: list[Pod] = []
        self.key_of_pod: dict[str, str] = {}
        self.key_of_group: dict[str, str] = {}
        self.stays_releasing: list[str] = []

    def add(self, name: str, part: parts.PodGroupPart) -> None:
        """Read one group with its pods."""
        where = f"pod_groups.{name}"
        with _located(self.file, where):
            group = translate.pod_group(name, part, self.now_ms)
        self.groups.append(group)
        self.key_of_group[name] = group.key
        for number, member in enumerate(part.pods):
            with _located(self.file, f"{where}.pods[{number}]"):
                pod = translate.pod(member, group, self.nodes, self.now_ms)
                if pod.key in self.key_of_pod:
                    raise ConfigurationError(f"the pod name {member.name!r} appears twice.")
            self.pods.append(pod)
            self.key_of_pod[member.name] = self.key_of_pod[pod.key] = pod.key
            if member.stays_releasing:
                self.stays_releasing.append(pod.key)


def _listed(file: Path, raw: Mapping[str, Any], field: str, part: type[P]) -> list[P]:
    entries = source.convert(file, field, raw.get(field, []), list[Any])
    return [
        source.convert(file, f"{field}[{number}]", entry, part)
        for number, entry in enumerate(entries)
    ]


def _topologies(file: Path, raw: Mapping[str, Any]) -> tuple[Topology, ...]:
    levels = source.convert(file, "topologies", raw.get("topologies", {}), dict[str, list[str]])
    all_aliases = source.convert(
        file, "topology_aliases", raw.get("topology_aliases", {}), dict[str, dict[str, str]]
    )
    for name in all_aliases:
        if name not in levels:
            raise Located(file, f"topology_aliases.{name}", "names no topology of the file.")
    found = []
    for name, keys in levels.items():
        with _located(file, f"topologies.{name}"):
            found.append(translate.topology(name, keys, all_aliases.get(name, {})))
    return tuple(found)


def _extras(file: Path, raw: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """Return what a live cluster has besides the format's own fields."""
    usage = source.convert(file, "usage", raw.get("usage", {}), dict[str, parts.UsagePart])
    return {
        "vetoes": tuple(
            StaticVeto(veto.pod, veto.why, veto.nodes, veto.by)
            for veto in _listed(file, raw, "vetoes", parts.VetoPart)
        ),
        "holds": tuple(
            Hold(hold.pod, hold.node, now_ms + translate.milliseconds(hold.for_s))
            for hold in _listed(file, raw, "holds", parts.HoldPart)
        ),
        "back_offs": tuple(
            BackOff(off.group, off.failures, now_ms + translate.milliseconds(off.for_s))
            for off in _listed(file, raw, "back_offs", parts.BackOffPart)
        ),
        "usage": {
            name: Resources(part.gpu_milli, part.cpu_milli, part.memory_bytes)
            for name, part in usage.items()
        },
        "owner_usage": source.convert(
            file, "owner_usage", raw.get("owner_usage", {}), dict[str, dict[str, int]]
        ),
    }


def _policy(part: parts.PolicyPart, base: Policy) -> Policy:
    """Return `base` with what the file says in its place."""
    stuck_ms = translate.optional_ms(part.stuck_after_s)
    simulations = part.max_simulations
    ours: dict[str, Any] = {
        "actions": None if part.actions is None else tuple(ACTION_OF[a] for a in part.actions),
        "hold_ms": translate.optional_ms(part.hold_s),
        "back_off_ms": translate.optional_ms(part.back_off_s),
        "max_back_off_ms": translate.optional_ms(part.max_back_off_s),
        "user_fairness": part.user_fairness,
        "usage_weight_milli": part.usage_weight_milli,
        "usage_half_life_ms": translate.optional_ms(part.usage_half_life_s),
        "usage_window_ms": translate.optional_ms(part.usage_window_s),
        "restrict_node_roles": part.restrict_node_roles,
        "reserve_after_ms": translate.optional_ms(part.reserve_after_s),
        "reserve_for_ms": translate.optional_ms(part.reserve_for_s),
        "age_ms": translate.optional_ms(part.age_s),
        "max_age": part.max_age,
    }
    given = {name: value for name, value in ours.items() if value is not None}
    if not isinstance(simulations, UnsetType):
        given["max_simulations"] = simulations
    placement = part.placement
    return msgspec.structs.replace(
        base,
        placement=Placement(placement.gpu, placement.cpu, placement.shared_gpu),
        stale_gang_grace_ms=translate.optional_ms(part.stale_gang_grace_s),
        max_consolidation_victims=part.max_consolidation_victims,
        stuck_after_ms=DEFAULT_STUCK_AFTER_MS if stuck_ms is None else stuck_ms,
        **given,
    )
