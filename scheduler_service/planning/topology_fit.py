"""Which sets of nodes a (sub-)group with a topology constraint may use, best first.

A domain is known by the label values from the widest level down to its own, joined by ".".
Domains are tried narrow before wide, the fullest (least free) first; preferred domains give their
nodes a bonus, the freest of them the most, so that the group concentrates there. Source: KAI's
topology plug-in (kai-core 4.10, kai-changes 3.9); differently, a required level binds members
that start later too, and nodes that can not take the pods do not count as room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduler_service.ledger.domains import Ints
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.nodes import NO_NODE
from scheduler_service.ledger.shape import FRACTION, MEMORY, Shape
from scheduler_service.model.reasons import (
    Reason,
    TopologyNoDomainFits,
    TopologyTooSmall,
)
from scheduler_service.planning import tree
from scheduler_service.planning.board import Board, NodeSet
from scheduler_service.planning.judge import may_be_on
from scheduler_service.planning.topology_levels import (
    Levels,
    Members,
    common_level,
    levels_of,
    members_of,
)
from scheduler_service.planning.tree import Chunk

NOTHING_FREE = 1000.0
BONUS_STEPS = 10


@dataclass(slots=True)
class Domain:
    """The nodes of one domain (of those in question), and what is free on them."""

    path: tuple[str, ...]
    free: list[int]
    room: int = 0
    first: int = 0
    end: int = 0
    """Its stretch of the members."""
    ratio: float = 0.0

    @property
    def name(self) -> str:
        """The label values, widest first."""
        return ".".join(self.path)


@dataclass(slots=True)
class Demand:
    """What the pods of a chunk ask for, as far as domains are compared by it."""

    pods: int
    largest: dict[str, int]
    total: dict[str, int]
    is_alike: bool
    shapes: list[Shape]


def subsets(
    board: Board, group: Group, chunk: Chunk, node_set: NodeSet
) -> Iterator[NodeSet] | Reason:
    """Return the node sets to try for a chunk whose sub-group has a constraint, or a Reason."""
    constraint = chunk.sub_group.topology
    if constraint is None:
        return iter((node_set,))
    levels = levels_of(board, constraint)
    if not isinstance(levels, Levels):
        return levels
    members = members_of(board, levels.topology, node_set)
    common = common_level(members, levels)
    demand = _demand(board, chunk.members())
    domains = _Domains(board, levels, demand, members, common)
    whole = domains.whole()
    if not domains.fits(whole):
        return TopologyTooSmall(levels.topology.name, levels.name(), demand.pods, whole.room)
    anchored = _anchored(board, group, chunk, levels, members)
    candidates = domains.candidates(anchored)
    if not candidates:
        best = domains.roomiest()
        return TopologyNoDomainFits(
            levels.topology.name,
            levels.name(),
            demand.pods,
            best.room,
            best.name,
            ", ".join(sorted(".".join(path) for path in anchored or ())),
        )
    return (domains.node_set(domain, node_set) for domain in candidates)


def _demand(board: Board, pods: tuple[int, ...]) -> Demand:
    shapes = [board.ledger.shape_of(pod) for pod in pods]
    amounts = [_amounts(board, shape) for shape in shapes]
    largest: dict[str, int] = {}
    total: dict[str, int] = {}
    for amount in amounts:
        for name, value in amount.items():
            largest[name] = max(largest.get(name, 0), value)
            total[name] = total.get(name, 0) + value
    kinds = {frozenset(amount.keys() - {"cpu", "memory"}) for amount in amounts}
    unique = list(dict.fromkeys(shapes))
    return Demand(len(pods), largest, total, len(kinds) == 1, unique)


def _amounts(board: Board, shape: Shape) -> dict[str, int]:
    """Return what a shape asks for, by name, zeros left out."""
    amounts = {"cpu": shape.milli_cpu, "memory": shape.memory_bytes, **dict(shape.extras)}
    if shape.kind == FRACTION:
        amounts["gpu"] = shape.milli * shape.devices
    elif shape.kind == MEMORY:
        amounts["gpu"] = -(-shape.pending_mib * 1000 // (board.sizes.largest or 1))
    else:
        claimed = board.ledger.claims.gpus(shape.namespace, shape) if shape.claims else 0
        amounts["gpu"] = (shape.gpus + claimed) * 1000
    return {name: amount for name, amount in amounts.items() if amount}


class _Domains:
    """The domains of the nodes in question, from the common one down to the narrowest wanted."""

    def __init__(
        self,
        board: Board,
        levels: Levels,
        demand: Demand,
        members: Members,
        common: int,
    ) -> None:
        self.board = board
        self.levels = levels
        self.demand = demand
        self.members = members
        self.common = common
        self.at: dict[int, list[Domain]] = {}
        self._names = list(demand.total)
        self._shares = any(shape.is_shared for shape in demand.shapes)
        narrowest = max(common, levels.narrowest)
        self.at[narrowest] = self._partition(narrowest)
        for level in range(narrowest - 1, common - 1, -1):
            self.at[level] = self._joined(self.at[level + 1], level)
        for domains in self.at.values():
            for domain in domains:
                domain.ratio = self._ratio(domain)
        self._sort()

    def _partition(self, level: int) -> list[Domain]:
        """Return the domains of a level, with what is free on their nodes."""
        members, rows = self.members, self.members.tree.rows[self.members.at]
        if not len(rows):
            return [Domain((), [0] * len(self._names))]
        codes = members.codes(level)
        starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
        columns = [self._free(name, rows) for name in self._names]
        free = [np.add.reduceat(column, starts).tolist() for column in columns]
        room = np.add.reduceat(self._room(rows, columns), starts).tolist()
        ends = [*starts[1:].tolist(), len(rows)]
        return [
            Domain(
                members.path(int(rows[first]), level + 1),
                [amounts[number] for amounts in free],
                room[number],
                first,
                ends[number],
            )
            for number, first in enumerate(starts.tolist())
        ]

    def _room(self, rows: Ints, columns: list[Ints]) -> Ints:
        """Return how many pods, each as large as the largest, a node has room for."""
        slots = np.frombuffer(self.board.ledger.nodes.all_slots, dtype=np.int64)[rows]
        room = np.minimum(slots, self.demand.pods)
        for name, column in zip(self._names, columns, strict=True):
            room = np.minimum(room, column // self.demand.largest[name])
        room = np.maximum(room, 0)
        for shape in self.demand.shapes:
            room[~may_be_on(self.board, shape, rows)] = 0
        return room

    def _joined(self, narrower: list[Domain], level: int) -> list[Domain]:
        """Return the domains of the next wider level."""
        found: dict[tuple[str, ...], Domain] = {}
        for part in narrower:
            key = part.path[: level + 1]
            domain = found.get(key)
            if domain is None:
                found[key] = Domain(key, part.free, part.room, part.first, part.end)
                continue
            domain.end = part.end
            domain.room += part.room
            domain.free = [have + more for have, more in zip(domain.free, part.free, strict=True)]
        return list(found.values())

    def _free(self, name: str, rows: Ints) -> Ints:
        """Return what is free of a resource in the end, node by node."""
        nodes = self.board.ledger.nodes
        if name == "gpu":
            free = np.frombuffer(nodes.all_gpu, dtype=np.int64)[rows] * 1000
            if self._shares:
                free += np.array([self._parts(row) for row in rows.tolist()], dtype=np.int64)
            return free
        if name == "cpu":
            return np.frombuffer(nodes.all_cpu, dtype=np.int64)[rows]
        if name == "memory":
            return np.frombuffer(nodes.all_memory, dtype=np.int64)[rows]
        extras = [nodes.all_extra[row].get(name, 0) for row in rows.tolist()]
        return np.array(extras, dtype=np.int64)

    def _parts(self, row: int) -> int:
        """Return the free parts of a node's shared GPUs, in milli-GPU."""
        nodes = self.board.ledger.nodes
        size, parts = nodes.gpu_memory[row], 0
        for share in nodes.shared[row].values():
            stays = share.staying + share.promised
            parts += (size - stays) * 1000 // size if stays else 0
        return parts

    def _ratio(self, domain: Domain) -> float:
        """Return the largest part of its free resources that the demand takes."""
        wanted = self.demand.total.values()
        return max(
            (
                amount / free if free > 0 else NOTHING_FREE
                for amount, free in zip(wanted, domain.free, strict=True)
            ),
            default=0.0,
        )

    def _sort(self) -> None:
        """Put each level in tree order: the least free first, then by name, parents deciding."""
        ratio = {domain.path: domain.ratio for domains in self.at.values() for domain in domains}

        def key(domain: Domain) -> list[tuple[float, str]]:
            steps = range(self.common + 2, len(domain.path) + 1)
            return [
                (-ratio[domain.path[:length]], ".".join(domain.path[:length])) for length in steps
            ]

        for domains in self.at.values():
            domains.sort(key=key)

    def whole(self) -> Domain:
        """Return the common domain of all nodes."""
        return self.at[self.common][0]

    def fits(self, domain: Domain) -> bool:
        """Say whether a domain could hold the demand."""
        if self.demand.is_alike:
            return domain.room >= self.demand.pods
        return domain.ratio <= 1

    def candidates(self, anchored: set[tuple[str, ...]] | None) -> list[Domain]:
        """Return the domains that fit, narrow levels before wide ones."""
        levels = self.levels
        found: list[Domain] = []
        for level in range(
            max(levels.narrowest, self.common), max(levels.widest, self.common) - 1, -1
        ):
            found.extend(
                domain
                for domain in self.at[level]
                if self.fits(domain) and _is_inside(domain, anchored)
            )
        return found

    def roomiest(self) -> Domain:
        """Return the domain at the deciding level with the most room."""
        level = max(
            self.common,
            self.levels.narrowest if self.levels.required is None else self.levels.required,
        )
        return max(self.at[level], key=lambda domain: (domain.room, domain.name))

    def node_set(self, domain: Domain, within: NodeSet) -> NodeSet:
        """Return the nodes of a domain; those of the freest preferred domains have a bonus."""
        rows = self.members.rows(domain.first, domain.end)
        if self.levels.preferred is None:
            return NodeSet(rows, within.bonus)
        parts = self.at[max(self.common, self.levels.preferred)]
        bonus: dict[int, int] = {}
        for index, part in enumerate(parts, start=1):
            if domain.first <= part.first and part.end <= domain.end:
                points = index * BONUS_STEPS // len(parts)
                bonus |= dict.fromkeys(self.members.rows(part.first, part.end), points)
        return NodeSet(rows, bonus)


def _is_inside(domain: Domain, anchored: set[tuple[str, ...]] | None) -> bool:
    return anchored is None or any(
        domain.path[: len(path)] == path or path[: len(domain.path)] == domain.path
        for path in anchored
    )


def _anchored(
    board: Board, group: Group, chunk: Chunk, levels: Levels, members: Members
) -> set[tuple[str, ...]] | None:
    """Return the required-level domains where members are already; None: any will do."""
    if levels.required is None:
        return None
    pods = board.ledger.pods
    names = {leaf.name for leaf in chunk.sub_group.leaves()}
    found: set[tuple[str, ...]] = set()
    is_there = False
    for pod in tree.active_pods(board.ledger, group):
        leaf, row = pods.leaf[pod], pods.node[pod]
        if leaf is None or leaf.spec.name not in names or row == NO_NODE:
            continue
        is_there = True
        if members.has(row):
            found.add(members.path(row, levels.required + 1))
    return found if is_there else None
