"""The requests for GPUs that the book knows: what may come next looks like what is there.

Pods that wait, run or are about to leave all count; a request is forgotten with its last pod.
Pods without GPUs leave no fragments and are left out. O(pods), once in a plan that asks.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from scheduler_service.ledger.shape import FRACTION, MEMORY, WHOLE, Shape
from scheduler_service.planning.board import Board

GPU = 1000
MOST = 256
"""So many requests are told apart, the most frequent ones."""

Rules = tuple[str, ...]
Key = tuple[int, int, int, int, Rules]


class Request(NamedTuple):
    """`gpus` GPUs of one node, `size` thousandths of each, and how many pods ask for that."""

    size: int
    gpus: int
    milli_cpu: int
    memory_bytes: int
    weight: int
    shape: Shape
    """One of the shapes that ask for it: on what kinds of node it may be."""


def requests_of(board: Board) -> list[Request]:
    """Return the requests of all pods in the book, the most frequent first."""
    ledger = board.ledger
    numbers = Counter([ledger.pods.shape[row] for row in ledger.pods.row_of.values()])
    sums: dict[Key, int] = {}
    shapes: dict[Key, Shape] = {}
    for number, pods in numbers.items():
        shape = ledger.shapes.shapes[number]
        size, count = _size(board, shape)
        if size:
            key = (size, count, shape.milli_cpu, shape.memory_bytes, _rules(shape))
            sums[key] = sums.get(key, 0) + pods
            shapes[key] = shape
    first = sorted(sums, key=lambda key: (-sums[key], key))[:MOST]
    return [Request(*key[:4], sums[key], shapes[key]) for key in first]


def _rules(shape: Shape) -> Rules:
    """Return what decides on which kinds of node it may be, as words that can be put in order."""
    labels = [f"{t.label}={t.values}" for t in shape.node_affinity if t.weight is None]
    taints = [f"{t.key}={t.value}:{t.effect}" for t in shape.tolerations]
    return (f"{shape.kind}", *sorted(labels), "", *sorted(taints))


def _size(board: Board, shape: Shape) -> tuple[int, int]:
    """Return how much of how many GPUs it takes; a memory request is measured by the largest."""
    if shape.legacy_mig:
        return 0, 0
    if shape.kind == WHOLE:
        return GPU, shape.gpus
    if shape.kind == FRACTION:
        return shape.milli, shape.devices
    largest = board.sizes.largest
    if shape.kind == MEMORY and largest:
        return min(GPU, -(-shape.mib * GPU // largest)), shape.devices
    return 0, 0
