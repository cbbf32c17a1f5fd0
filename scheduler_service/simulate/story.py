"""A trace in YAML or JSON: a cluster in FORMAT.md's fields, whose pod groups come and go.

A pod group may say `arrives_s`, `runs_s` (none = to the end), `fails_after_s`, and `copies` with
`every_s` for alike ones that follow each other. `failures` lists nodes that go: `node`, `at_s` and
`for_s` (none = for ever). Everything else is as in a scenario, without `run` and `expect`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_service.model.pod import Pod
from scheduler_service.model.policy import Policy
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.simulate import reader, source, translate
from scheduler_service.simulate.clock import Coming, NodeFailure
from scheduler_service.simulate.format import Part, Positive, Seconds
from scheduler_service.simulate.reader import World
from scheduler_service.simulate.source import Located

BESIDE: Final = frozenset({"format", "tags", "about", "failures"})


class TimesPart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """When a group comes and how long it runs."""

    arrives_s: Seconds = 0
    runs_s: Seconds | None = None
    fails_after_s: Seconds | None = None
    copies: Positive = 1
    every_s: Seconds = 0


class FailurePart(Part, frozen=True, forbid_unknown_fields=True, gc=False):
    """A node that goes, and comes back after a time."""

    node: str
    at_s: Seconds
    for_s: Seconds | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """A cluster, its policy, and what happens."""

    cluster: Snapshot
    policy: Policy
    comings: tuple[Coming, ...]
    failures: tuple[NodeFailure, ...]


def is_story(raw: Mapping[str, Any]) -> bool:
    """Say whether a file holds work that comes and goes, not a scenario, snapshot or capture."""
    return not raw.keys() & {"run", "expect", "version"}


def story_of(file: Path, raw: Mapping[str, Any], base: Policy) -> Story:
    """Return what `raw`, read from `file`, tells."""
    entries = source.convert(file, "pod_groups", raw.get("pod_groups", {}), dict[str, Any])
    groups: dict[str, Any] = {}
    times: dict[str, tuple[int, TimesPart]] = {}
    for name, entry in entries.items():
        where = f"pod_groups.{name}"
        fields = source.convert(file, where, entry, dict[str, Any])
        own = {key: fields.pop(key) for key in TimesPart.__struct_fields__ if key in fields}
        part = source.convert(file, where, own, TimesPart)
        for index, (copy, copied) in enumerate(_copies(name, fields, part.copies)):
            groups[copy] = copied
            times[copy] = translate.milliseconds(part.arrives_s + index * part.every_s), part
    world = reader.world_of(
        file,
        {name: value for name, value in raw.items() if name not in BESIDE}
        | {"version": reader.VERSION, "now": 0, "pod_groups": groups},
        base,
    )
    return Story(
        cluster=msgspec.structs.replace(world.snapshot, pod_groups=(), pods=()),
        policy=world.policy,
        comings=tuple(_comings(world, times)),
        failures=tuple(_failures(file, raw, world.snapshot)),
    )


def _copies(name: str, fields: dict[str, Any], number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the group, or so many with a number behind their names and their pods' names."""
    if number == 1:
        yield name, fields
        return
    for index in range(number):
        pods = [{**pod, "name": f"{pod['name']}-{index}"} for pod in fields.get("pods", [])]
        yield f"{name}-{index}", {**fields, "pods": pods}


def _comings(world: World, times: Mapping[str, tuple[int, TimesPart]]) -> Iterator[Coming]:
    members: dict[str, list[Pod]] = {}
    for pod in world.snapshot.pods:
        members.setdefault(pod.group, []).append(pod)
    by_key = {group.key: group for group in world.snapshot.pod_groups}
    for name, (at_ms, part) in times.items():
        group = by_key[world.key_of_group[name]]
        if not group.created:
            group = msgspec.structs.replace(group, created=at_ms)
        yield Coming(
            at_ms=at_ms,
            group=group,
            pods=tuple(members.get(group.key, ())),
            run_ms=translate.optional_ms(part.runs_s),
            fails_after_ms=translate.optional_ms(part.fails_after_s),
        )


def _failures(file: Path, raw: Mapping[str, Any], cluster: Snapshot) -> Iterator[NodeFailure]:
    known = {node.name for node in cluster.nodes}
    entries = source.convert(file, "failures", raw.get("failures", []), list[Any])
    for number, entry in enumerate(entries):
        where = f"failures[{number}]"
        part = source.convert(file, where, entry, FailurePart)
        if part.node not in known:
            raise Located(file, f"{where}.node", f"names no node: {part.node}.")
        at_ms = translate.milliseconds(part.at_s)
        yield NodeFailure(part.node, at_ms, translate.optional_ms(part.for_s))
