"""Victims so far by group and by node: which of them leave together when nodes are emptied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler_service.ledger.groups import Group
from scheduler_service.planning import room
from scheduler_service.planning.board import Board
from scheduler_service.planning.victims import Step


class Nearby:
    """Victims so far, by group and by node."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.by_group: dict[str, list[Step]] = {}
        self.groups_on: dict[int, dict[str, None]] = {}
        self._tried: set[tuple[tuple[str, int], ...]] = set()

    def add(self, step: Step) -> None:
        """Add a victim."""
        key = step.group.model.key
        self.by_group.setdefault(key, []).append(step)
        node_of = self.board.ledger.pods.node
        for pod in step.pods:
            self.groups_on.setdefault(node_of[pod], {})[key] = None

    def steps(self) -> list[Step]:
        """Return all victims so far."""
        return [step for steps in self.by_group.values() for step in steps]

    def scenarios(self, group: Group) -> Iterator[list[Step]]:
        """Yield, for each node of a group, what leaves if it is emptied of the victims so far."""
        nodes = self.board.ledger.nodes
        node_of = self.board.ledger.pods.node
        own = {node_of[pod] for pod in group.pods() if node_of[pod] >= 0}
        for node in sorted(own, key=nodes.name_of):
            keys = self.groups_on.get(node)
            if keys:
                yield from self._new(list(keys))

    def _new(self, keys: list[str]) -> Iterator[list[Step]]:
        """Yield the victims of these groups, unless exactly they were given before."""
        name = tuple((key, len(self.by_group[key])) for key in keys)
        if name not in self._tried:
            self._tried.add(name)
            yield [step for key in keys for step in self.by_group[key]]

    def prefixes(self, filters: room.Room) -> Iterator[list[Step]]:
        """Yield the victims of the nodes with least room: as few as could do, then more."""
        freed = filters.freed(self.steps())
        order = sorted(
            (node for node in self.groups_on if filters.holds_smallest(node, freed)),
            key=lambda node: filters.room_of(node, freed),
        )
        count = grown = 0
        for count in range(1, len(order) + 1):
            if filters.might_fit(self._on(order[:count])):
                break
        while order and count <= len(order):
            yield from self._new(list(self._keys(order[:count])))
            if count == len(order):
                return
            grown = grown * 2 or 1
            count = min(count + grown, len(order))

    def _keys(self, nodes: Iterable[int]) -> dict[str, None]:
        return {key: None for node in nodes for key in self.groups_on[node]}

    def _on(self, nodes: Iterable[int]) -> list[Step]:
        return [step for key in self._keys(nodes) for step in self.by_group[key]]
