"""The nodes of a topology in the order of its domains, so that every domain is one stretch of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scheduler_service.model.node import Node

Ints = np.ndarray[Any, np.dtype[np.int64]]


class DomainTree(NamedTuple):
    """Nodes that have a label for each level. `codes`: by level the number of each one's domain.

    Nodes of one domain lie side by side at every level, so codes only rise along `rows`.
    """

    rows: Ints
    codes: tuple[Ints, ...]
    position: Ints
    """By node row: where in `rows` it is, -1 if it is not."""


def domain_tree(models: Sequence[Node | None], levels: Sequence[str]) -> DomainTree:
    """Return the nodes that are there by their domains. O(nodes · log nodes)."""
    there = [row for row, node in enumerate(models) if node is not None]
    nodes = [node for node in models if node is not None]
    rows, code = np.array(there, dtype=np.int64), np.zeros(len(there), dtype=np.int64)
    has_all = np.ones(len(there), dtype=bool)
    codes: list[Ints] = []
    for level in levels:
        numbers: dict[str, int] = {}
        values = [node.labels.get(level) for node in nodes]
        own = np.array(
            [-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values],
            dtype=np.int64,
        )
        has_all &= own >= 0
        # Numbered afresh at each level, from the widest on: products stay small, order is kept.
        code = np.unique(code * (len(numbers) + 1) + own, return_inverse=True)[1].astype(np.int64)
        codes.append(code)
    kept = np.flatnonzero(has_all)
    order = kept[np.argsort(code[kept], kind="stable")]
    position = np.full(len(models), -1, dtype=np.int64)
    position[rows[order]] = np.arange(len(order))
    return DomainTree(rows[order], tuple(own[order] for own in codes), position)
