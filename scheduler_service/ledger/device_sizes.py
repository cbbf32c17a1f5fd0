"""Nodes whose GPUs are of different size: what each GPU has, and who has one whole and by name."""

from __future__ import annotations

from scheduler_service.model.node import Node

Sizes = dict[int, dict[str, int]]
"""By row, of such nodes only: the memory of each GPU to hand out, by its id."""
Whole = dict[int, dict[str, tuple[int, int]]]
"""By row: how many hold a GPU whole, now and later."""


def no_rows() -> tuple[Sizes, Whole]:
    """Return both tables, empty."""
    return {}, {}


def sizes_of(node: Node | None) -> dict[str, int]:
    """Return the memory of each GPU that is handed out where they differ and are known, else nothing."""
    devices = node.devices if node is not None and node.gpu_memory_mib else ()
    known = {d.id: d.memory_mib for d in devices if d.memory_mib and not d.taken}
    if node is None or len(known) != node.gpus or len(set(known.values())) <= 1:
        return {}
    return known
