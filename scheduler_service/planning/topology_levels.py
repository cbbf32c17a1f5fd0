"""A topology's levels as a constraint names them, and the nodes that belong to it.

What belongs here: which nodes are in question, and where one domain ends and the next begins.
What never does: what is free on them and which domain is better (`topology_fit`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler_service.ledger.domains import DomainTree, Ints
from scheduler_service.model.reasons import Reason, TopologyLevelUnknown, TopologyMissing
from scheduler_service.model.topology import Topology, TopologyConstraint
from scheduler_service.planning.board import Board, NodeSet

ROOT = -1
"""The level of the whole topology."""


@dataclass(frozen=True, slots=True)
class Levels:
    """A constraint in positions: `required` and `preferred` level, None where not given."""

    topology: Topology
    required: int | None
    preferred: int | None

    @property
    def narrowest(self) -> int:
        """The level at which candidates begin."""
        return max(level for level in (self.required, self.preferred) if level is not None)

    @property
    def widest(self) -> int:
        """The level at which candidates end; ROOT is the whole topology."""
        return ROOT if self.required is None else self.required

    def name(self) -> str:
        """Return the label key of the level that decides."""
        return self.topology.levels[self.narrowest if self.required is None else self.required]


def levels_of(board: Board, constraint: TopologyConstraint) -> Levels | Reason:
    """Return the constraint's levels, or why it means nothing here."""
    topology = board.ledger.topologies.get(constraint.name)
    if topology is None:
        return TopologyMissing(constraint.name)
    found: list[int | None] = []
    for word in (constraint.required_level, constraint.preferred_level):
        level = None if word is None else topology.level_index(word)
        if word is not None and level is None:
            return TopologyLevelUnknown(constraint.name, word)
        found.append(level)
    required, preferred = found
    if required is None and preferred is None:
        return TopologyLevelUnknown(constraint.name, "")
    if required is not None and preferred is not None and preferred < required:
        return TopologyLevelUnknown(constraint.name, constraint.preferred_level or "")
    return Levels(topology, required, preferred)


@dataclass(frozen=True, slots=True)
class Members:
    """The nodes in question that belong to a topology, in the order of its domains."""

    board: Board
    levels: tuple[str, ...]
    tree: DomainTree
    at: Ints
    """Where in the tree they are."""

    def codes(self, level: int) -> Ints:
        """Return the number of each one's domain; it only rises."""
        return self.tree.codes[level][self.at]

    def rows(self, first: int, end: int) -> list[int]:
        """Return a stretch of them."""
        found: list[int] = self.tree.rows[self.at[first:end]].tolist()
        return found

    def path(self, row: int, length: int) -> tuple[str, ...]:
        """Return a node's label values, widest first."""
        node = self.board.ledger.nodes.models[row]
        return tuple(node.labels[level] for level in self.levels[:length]) if node else ()

    def has(self, row: int) -> bool:
        """Say whether a node is one of them."""
        position = int(self.tree.position[row])
        found = int(np.searchsorted(self.at, position))
        return position >= 0 and found < len(self.at) and int(self.at[found]) == position


def members_of(board: Board, topology: Topology, node_set: NodeSet) -> Members:
    """Return the nodes of a set that belong to the topology."""
    domains = board.ledger.nodes.domains_in(topology.levels)
    if node_set.rows is None:
        at = np.arange(len(domains.rows))
    else:
        at = np.sort(domains.position[node_set.rows])
        at = at[np.searchsorted(at, 0) :]
    return Members(board, topology.levels, domains, at)


def common_level(members: Members, levels: Levels) -> int:
    """Return the narrowest level at which all nodes are in one domain, not below the preferred."""
    stop = len(levels.topology.levels) - 1 if levels.preferred is None else levels.preferred
    common = ROOT
    for level in range(stop + 1):
        codes = members.codes(level)
        if not len(codes) or codes[0] != codes[-1]:
            break
        common = level
    return common
