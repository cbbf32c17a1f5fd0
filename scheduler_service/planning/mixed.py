"""Which GPUs a shared request takes on a node whose GPUs are of different size: each by its own.

A part is a part of that very GPU; memory goes only where a GPU has it. Smaller GPUs are opened
first, so that the large ones stay for whoever needs them. The same rules as in `devices`.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_service.ledger.nodes import NOBODY, NodeTable
from scheduler_service.ledger.pods import Devices
from scheduler_service.ledger.shape import Shape


def largest_free(nodes: NodeTable, row: int) -> int:
    """Return the memory of the largest GPU of a node that is free now, 0 if none is."""
    shared, whole = nodes.shared[row], nodes.whole[row]
    return max(
        (
            size
            for device, size in nodes.sizes[row].items()
            if not any(shared.get(device, NOBODY)) and not any(whole.get(device, (0, 0)))
        ),
        default=0,
    )


def need_on(nodes: NodeTable, row: int, shape: Shape, device: str) -> int:
    """Return what a shared request takes of this GPU."""
    return shape.need_on(nodes.size_of(row, device))


def open_rooms(nodes: NodeTable, row: int, shape: Shape) -> list[str]:
    """Return the shared GPUs of a node that stay shared and have room for a further part."""
    return [
        device
        for device, (staying, _, promised) in nodes.shared[row].items()
        if staying + promised
        and nodes.size_of(row, device) - staying - promised >= need_on(nodes, row, shape, device)
    ]


def free(nodes: NodeTable, row: int, shape: Shape, *, later: bool) -> list[str]:
    """Return the GPUs that are large enough and free, now or in the end; the smallest first."""
    shared, whole = nodes.shared[row], nodes.whole[row]
    found: list[tuple[int, str]] = []
    for device, size in nodes.sizes[row].items():
        staying, leaving, promised = shared.get(device, NOBODY)
        now_held, later_held = whole.get(device, (0, 0))
        held = staying + promised + later_held
        if not later:
            held += leaving + now_held
        if not held and shape.need_on(size) <= size:
            found.append((size, device))
    return [device for _, device in sorted(found)]


def fits(nodes: NodeTable, row: int, shape: Shape) -> tuple[bool, bool, bool]:
    """Return whether a shared request fits in the end, whether now, and whether beside others."""
    rooms = len(open_rooms(nodes, row, shape))
    fresh = max(0, shape.devices - rooms)
    later = (
        nodes.all_gpu[row] >= fresh
        and nodes.all_slots[row] >= 1 + fresh
        and len(free(nodes, row, shape, later=True)) >= fresh
    )
    now = nodes.idle_gpu[row] >= fresh and len(free(nodes, row, shape, later=False)) >= fresh
    return later, now, rooms > 0


def choose(
    nodes: NodeTable, row: int, shape: Shape, own: Sequence[str], *, spread: bool
) -> tuple[Devices, bool]:
    """Return the GPUs of a node that `fits`, and whether some are not free yet; `own` come first."""
    table, rooms = nodes.shared[row], open_rooms(nodes, row, shape)
    sign = 1 if spread else -1
    rooms.sort(key=lambda device: (sign * sum(table[device]), device))
    now = free(nodes, row, shape, later=False)
    whole = min(nodes.idle_gpu[row], nodes.all_gpu[row], len(now))
    may_open = max(0, min(whole, nodes.all_slots[row] - 1, shape.devices))
    opened = max(may_open if spread else 0, shape.devices - len(rooms))
    in_order = dict.fromkeys([*own, *now, *free(nodes, row, shape, later=True)])
    fresh, joined = list(in_order)[:opened], rooms[: shape.devices - opened]
    waits = (
        nodes.idle_gpu[row] < opened
        or nodes.idle_slots[row] < 1 + opened
        or not set(fresh) <= set(now)
        or any(_must_wait(nodes, row, shape, device) for device in joined)
    )
    return (*joined, *fresh), waits


def _must_wait(nodes: NodeTable, row: int, shape: Shape, device: str) -> bool:
    share = nodes.shared[row][device]
    held = share.staying + share.leaving
    return not held or held + need_on(nodes, row, shape, device) > nodes.size_of(row, device)


def most_charged(nodes: NodeTable, row: int, shape: Shape) -> int:
    """Return what a queue is charged for a memory request at most: on the smallest GPU that has it."""
    sizes = [size for size in nodes.sizes.get(row, {}).values() if size >= shape.mib]
    return shape.charge_on(min(sizes)) if sizes else shape.charge_on(nodes.gpu_memory[row])
