"""Which nodes there are: their rows, names, classes and domains.

What never belongs here: what is free on them (`nodes`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np

from scheduler_service.ledger.domains import DomainTree, domain_tree
from scheduler_service.model.node import Node

LAST = "\uffff"
"""Comes after every name."""


class NodeRows:
    """Nodes by row. Rows of nodes that are gone are used again once nothing names them."""

    def __init__(self) -> None:
        self.row_of: dict[str, int] = {}
        self.models: list[Node | None] = []
        self.gone: dict[int, str] = {}
        """Rows of nodes that are gone, or were only named so far."""
        self._free_rows: list[int] = []
        self.claimable: dict[int, dict[str, int]] = {}
        """Devices handed out through claims: node row -> device class -> count."""
        self.class_of = array("q")
        self._classes: dict[object, int] = {}
        self._examples: list[int] | None = None
        self.sums: tuple[tuple[int, int, int], int, int] | None = None
        """Capacity, smallest and largest GPU: kept by who summed them until a node changes."""
        self._domains: dict[tuple[str, ...], DomainTree] = {}
        self.mentioned: frozenset[str] = frozenset()
        """The node labels that some pod's rules name: only they tell classes apart."""
        self._ranks: array[int] | None = None
        self._names: list[int] = []

    def __len__(self) -> int:
        return len(self.models)

    def open_row(self, name: str) -> int:
        """Return the row of a node, an empty one if need be."""
        row = self.row_of.get(name)
        if row is None and self._free_rows:
            row = self.row_of[name] = self._free_rows.pop()
            self.gone[row] = name
        elif row is None:
            row = len(self.models)
            self.open_rows([name])
            self.gone[row] = name
        return row

    def close_rows(self, rows: list[int]) -> None:
        """Let rows of nodes that are gone be used for others; nothing names them any more."""
        for row in rows:
            del self.row_of[self.gone.pop(row)]
        self._free_rows += rows
        self._renumber()
        self._ranks = None

    def open_rows(self, names: list[str]) -> None:
        """Add rows for nodes that are not there yet."""
        first, count = len(self.models), len(names)
        self.row_of.update(zip(names, range(first, first + count), strict=True))
        self.class_of.frombytes(bytes(8 * count))
        self.models.extend([None] * count)
        self.sums = self._ranks = self._examples = None
        self._domains.clear()

    def _is_now(self, row: int, node: Node | None, slices: dict[str, int]) -> None:
        """Put a node at its row, None if it is gone; `slices`: devices handed out by claims."""
        was = self.models[row]
        if node is not None:
            self.gone.pop(row, None)
        elif was is not None:
            self.gone[row] = was.name
        self.models[row] = node
        self.sums = self._ranks = self._examples = None
        self._domains.clear()
        if slices:
            self.claimable[row] = slices
        elif self.claimable:
            self.claimable.pop(row, None)
        self.class_of[row] = self._class_number(row, node)

    def mention(self, labels: Iterable[str]) -> None:
        """Tell labels apart from now on that some pod's rules name; classes are made anew."""
        names = frozenset(labels)
        if not names <= self.mentioned:
            self.mentioned |= names
            self._renumber()

    def _renumber(self) -> None:
        """Number the classes of all nodes afresh; those that no node is of any more are gone."""
        self._classes.clear()
        self._number_from(0)

    def _number_from(self, first: int) -> None:
        """Number the classes of all rows from one on; alike neighbours are looked up once."""
        last: object = None
        number, self._examples = 0, None
        for row, node in enumerate(self.models[first:], first):
            key = None if node is None else self._class_key(row, node)
            if key is None or key != last:
                number, last = self._number_of(key), key
            self.class_of[row] = number

    def _class_number(self, row: int, node: Node | None) -> int:
        """Return the number of a node's class: nodes on which the same shapes may be."""
        return self._number_of(None if node is None else self._class_key(row, node))

    def _class_key(self, row: int, node: Node) -> object:
        labels: tuple[tuple[str, str | None], ...] = ()
        if self.mentioned:
            labels = tuple([(name, node.labels.get(name)) for name in sorted(self.mentioned)])
        return (
            labels,
            node.taints,
            node.ready,
            node.role,
            node.mig_strategy,
            node.gpu_memory_mib is not None,
            row in self.claimable,
        )

    def _number_of(self, key: object) -> int:
        number = self._classes.get(key)
        if number is None:
            number = self._classes[key] = len(self._classes)
        return number

    def class_examples(self) -> list[int]:
        """Return a row of each class, by its number; -1: no node is of it any more."""
        if self._examples is None:
            rows = np.full(len(self._classes), -1, dtype=np.int64)
            rows[np.frombuffer(self.class_of, dtype=np.int64)] = np.arange(len(self.class_of))
            self._examples = rows.tolist()
        return self._examples

    def ranks(self) -> array[int]:
        """Return each row's place in the order of names; gone nodes are last."""
        if self._ranks is None:
            names = [LAST if node is None else node.name for node in self.models]
            self._names = sorted(self.row_of.values(), key=names.__getitem__)
            ranks = np.zeros(len(names), dtype=np.int64)
            ranks[self._names] = np.arange(len(self._names))
            self._ranks = array("q", ranks.tobytes())
        return self._ranks

    def by_name(self) -> list[int]:
        """Return all rows in the order of their names."""
        self.ranks()
        return self._names

    def domains_in(self, levels: tuple[str, ...]) -> DomainTree:
        """Return the nodes that have a label for each level, by domain; kept until one changes."""
        found = self._domains.get(levels)
        if found is None:
            found = self._domains[levels] = domain_tree(self.models, levels)
        return found

    def name_of(self, row: int) -> str:
        """Return the name of a node that is there."""
        model = self.models[row]
        return model.name if model is not None else ""

    def live_rows(self) -> list[int]:
        """Return the rows of nodes that are there, by name."""
        return [row for row in self.by_name() if self.models[row] is not None]
