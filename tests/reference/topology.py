"""Which nodes a part of a group with a topology constraint may use, best first: kai-core 4.10.

As FORMAT.md and `topology_fit` have it: a required level binds members that start later too, parts
of shared GPUs count as free, and nodes that can not take the pods are no room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, Mig, WholeGpus
from scheduler_service.model.pod import COUNTS_FOR_QUEUE, Pod
from scheduler_service.model.pod_group import SubGroup
from scheduler_service.model.topology import TopologyConstraint
from tests.reference.nodes import PROMISED, STAYS, NodeNow, Shared, device_size

if TYPE_CHECKING:
    from tests.reference.allocate import Reference

Path = tuple[str, ...]


@dataclass(frozen=True)
class NodeSet:
    """Nodes by name, and what some of them are worth more, in tenths."""

    names: tuple[str, ...]
    bonus: Mapping[str, int]


@dataclass(frozen=True)
class Levels:
    """The label keys of a topology, widest first, and which of them is required and preferred."""

    keys: Sequence[str]
    required: int | None
    preferred: int | None

    @property
    def narrowest(self) -> int:
        """The level at which candidates begin."""
        return max(level for level in (self.required, self.preferred) if level is not None)


def node_sets(
    now: Reference, key: str, part: SubGroup, pods: Sequence[Pod], within: NodeSet
) -> Iterator[NodeSet]:
    """Yield the sets of nodes to try for these pods of a part of a group."""
    if part.topology is None:
        yield within
        return
    levels = _levels(now, part.topology)
    if levels is None:
        return
    domains = Domains(now, levels, pods, within.names)
    anchors = _anchors(now, key, part, levels, domains)
    if not domains.fits(domains.whole):
        return
    top = -1 if levels.required is None else levels.required
    for level in range(max(levels.narrowest, domains.common), max(top, domains.common) - 1, -1):
        for path in domains.in_order(level):
            if domains.fits(path) and (anchors is None or any(_meet(path, a) for a in anchors)):
                yield NodeSet(domains.nodes(path), domains.bonus(path, within.bonus))


def _levels(now: Reference, constraint: TopologyConstraint) -> Levels | None:
    topology = next((t for t in now.snapshot.topologies if t.name == constraint.name), None)
    if topology is None:
        return None
    words = (constraint.required_level, constraint.preferred_level)
    found = [None if word is None else topology.level_index(word) for word in words]
    if any(w is not None and f is None for w, f in zip(words, found, strict=True)):
        return None
    required, preferred = found
    if found == [None, None]:
        return None
    if required is not None and preferred is not None and preferred < required:
        return None
    return Levels(topology.levels, required, preferred)


def _anchors(
    now: Reference, key: str, part: SubGroup, levels: Levels, domains: Domains
) -> set[Path] | None:
    """Return the domains of the required level in which members are already."""
    if levels.required is None:
        return None
    names = {leaf.name for leaf in part.leaves()}
    places = [now.places[pod.key] for pod in now.members[key] if pod.sub_group in names]
    there = [str(place.node) for place in places if place.state in COUNTS_FOR_QUEUE]
    found = {domains.paths[name][: levels.required + 1] for name in there if name in domains.paths}
    return found if there else None


def _meet(one: Path, other: Path) -> bool:
    return one[: len(other)] == other or other[: len(one)] == one


class Domains:
    """The domains of some nodes, from the one that they have in common down."""

    def __init__(
        self, now: Reference, levels: Levels, pods: Sequence[Pod], names: Sequence[str]
    ) -> None:
        self.levels = levels
        self.pods = pods
        self.asked = [_amounts(now, pod) for pod in pods]
        self.at: dict[str, NodeNow] = {name: now.node_now(name) for name in names}
        self.paths: dict[str, Path] = {}
        for name in names:
            labels = now.nodes[name].labels
            if all(level in labels for level in levels.keys):
                self.paths[name] = tuple(labels[level] for level in levels.keys)
        stop = len(levels.keys) - 1 if levels.preferred is None else levels.preferred
        self.common = -1
        while self.common < stop and len({p[: self.common + 2] for p in self.paths.values()}) == 1:
            self.common += 1
        self.whole: Path = next(iter(self.paths.values()), ())[: self.common + 1]

    def nodes(self, path: Path) -> tuple[str, ...]:
        """Return the nodes of a domain."""
        return tuple(name for name, own in self.paths.items() if own[: len(path)] == path)

    def in_order(self, level: int) -> list[Path]:
        """Return the domains of a level: the least free first, those around them deciding first."""

        def rank(path: Path) -> list[tuple[float, str]]:
            lengths = range(self.common + 2, len(path) + 1)
            return [(-self.ratio(path[:n]), ".".join(path[:n])) for n in lengths]

        return sorted({path[: level + 1] for path in self.paths.values()}, key=rank)

    def ratio(self, path: Path) -> float:
        """Return the largest part of what is free of a resource that all pods together ask."""
        parts = [0.0]
        for name in {name for asked in self.asked for name in asked}:
            wanted = sum(asked.get(name, 0) for asked in self.asked)
            free = sum(self._free(node, name) for node in self.nodes(path))
            parts.append(wanted / free if free > 0 else 1000.0)
        return max(parts)

    def fits(self, path: Path) -> bool:
        """Whether so many pods, each as large as the largest, or (if unlike) their sum have room."""
        kinds = {frozenset(asked.keys() - {"cpu", "memory"}) for asked in self.asked}
        if len(kinds) > 1:
            return self.ratio(path) <= 1
        return sum(self._copies(node) for node in self.nodes(path)) >= len(self.pods)

    def _copies(self, node: str) -> int:
        at = self.at[node]
        if not all(at.is_allowed(pod) for pod in self.pods):
            return 0
        found = min(at.later.pods, len(self.pods))
        for name in {name for asked in self.asked for name in asked}:
            largest = max(asked.get(name, 0) for asked in self.asked)
            found = min(found, self._free(node, name) // largest)
        return max(0, found)

    def _free(self, node: str, name: str) -> int:
        at = self.at[node]
        room = at.later
        match name:
            case "cpu":
                return room.milli_cpu
            case "memory":
                return room.memory_bytes
            case "gpu":
                size, parts = device_size(at.node), 0
                if any(isinstance(pod.request.gpu, Shared) for pod in self.pods):
                    taken = at.tenants({STAYS, PROMISED}).values()
                    parts = sum((size - part) * 1000 // size for part in taken)
                return 1000 * room.gpus + parts
        return room.mig.get(name, 0)

    def bonus(self, path: Path, inherited: Mapping[str, int]) -> Mapping[str, int]:
        """Return what the nodes of a domain are worth: those of the freest preferred one the most."""
        if self.levels.preferred is None:
            return inherited
        parts = self.in_order(max(self.common, self.levels.preferred))
        return {
            node: number * 10 // len(parts)
            for number, part in enumerate(parts, start=1)
            for node in self.nodes(part)
        }


def _amounts(now: Reference, pod: Pod) -> dict[str, int]:
    """Return what a pod asks for by name, zeros left out."""
    found = {"cpu": pod.request.milli_cpu, "memory": pod.request.memory_bytes}
    match pod.request.gpu:
        case WholeGpus(count=count):
            found["gpu"] = 1000 * count
        case FractionOfGpu(milli=milli, devices=devices):
            found["gpu"] = milli * devices
        case GpuMemory(mib=mib, devices=devices):
            found["gpu"] = -(-mib * devices * 1000 // (now.largest or 1))
        case Mig(profiles=profiles):
            found |= dict(profiles)
    return {name: amount for name, amount in found.items() if amount}
