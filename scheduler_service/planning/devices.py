"""Which GPUs of a node a shared request takes.

Candidates are the shared GPUs that somebody is going to stay on and that have room for the part
that is asked for once leaving pods have left, and every whole GPU that is or becomes free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from scheduler_service.ledger.nodes import NodeTable, Shared
from scheduler_service.ledger.pods import Devices
from scheduler_service.ledger.shape import Shape
from scheduler_service.planning import mixed
from scheduler_service.planning.device_names import FRESH

Fresh = Callable[[int], Sequence[str]]
Rank = Callable[[int], int]
"""How dear it is to take a part of a GPU with so many thousandths left."""


class Choice(NamedTuple):
    """The chosen GPUs of a node; `waits`: the place is not free yet."""

    devices: Devices
    waits: bool


def open_rooms(nodes: NodeTable, row: int, need: int) -> list[str]:
    """Return the shared GPUs of a node that stay shared and have room for a further part."""
    size = nodes.gpu_memory[row]
    most = size - need
    return [
        name
        for name, (staying, _, promised) in nodes.shared[row].items()
        if 0 < staying + promised <= most
    ]


def fits_shared(nodes: NodeTable, row: int, shape: Shape) -> tuple[bool, bool, bool]:
    """Return whether a shared request fits in the end, whether now, and whether beside others."""
    if nodes.sizes and row in nodes.sizes:
        return mixed.fits(nodes, row, shape)
    size = nodes.gpu_memory[row]
    need = shape.need_on(size)
    if need > size:
        return False, False, False
    if not nodes.shared[row] or nodes.most_room(row) < need:
        rooms = 0
    else:
        rooms = 1 if shape.devices == 1 else len(open_rooms(nodes, row, need))
    fresh = max(0, shape.devices - rooms)
    later = nodes.all_gpu[row] >= fresh and nodes.all_slots[row] >= 1 + fresh
    return later, nodes.idle_gpu[row] >= fresh, rooms > 0


def choose(
    nodes: NodeTable,
    row: int,
    shape: Shape,
    *,
    spread: bool,
    fresh: Fresh,
    rank: Rank | None = None,
) -> Choice:
    """Return the GPUs of a node that `fits_shared`; `fresh` names so many GPUs to open.

    Pack: the fullest shared one first and a free GPU last; spread: a free GPU first, then the
    least used shared one; with a rank the least dear one, free or not. Equal ones by name.
    """
    if nodes.sizes and row in nodes.sizes:
        own = [name for name in fresh(shape.devices) if not name.startswith(FRESH)]
        return Choice(*mixed.choose(nodes, row, shape, own, spread=spread))
    size = nodes.gpu_memory[row]
    need = shape.need_on(size)
    table = nodes.shared[row]
    rooms = open_rooms(nodes, row, need) if nodes.most_room(row) >= need else []
    if len(rooms) > 1:
        sign = 1 if spread else -1
        order = sorted([(sign * sum(table[name]), name) for name in rooms])
        rooms = [name for _, name in order]
    whole = min(nodes.idle_gpu[row], nodes.all_gpu[row])  # promised GPUs are not free to open
    may_open = max(0, min(whole, nodes.all_slots[row] - 1, shape.devices))
    opened = max(may_open if spread else 0, shape.devices - len(rooms))
    if rank is not None and rooms:
        rooms, opens = _least_dear(nodes, row, need, rooms, rank)
        opened = may_open if opens else 0
    joined = rooms[: shape.devices - opened]
    devices = (*joined, *fresh(opened)) if opened else tuple(joined)
    waits = (
        nodes.idle_gpu[row] < opened
        or nodes.idle_slots[row] < 1 + opened
        or any(_must_wait(table[name], size, need) for name in joined)
    )
    return Choice(devices, waits)


def _least_dear(
    nodes: NodeTable, row: int, need: int, rooms: list[str], rank: Rank
) -> tuple[list[str], bool]:
    """Return shared GPUs in order, the least dear first, and whether a free one is less dear."""
    size, table = nodes.gpu_memory[row], nodes.shared[row]
    order = sorted(
        (
            _must_wait(share, size, need),
            rank((size - share.staying - share.promised) * 1000 // size),
            name,
        )
        for name in rooms
        for share in (table[name],)
    )
    return [name for *_, name in order], (False, rank(1000)) < order[0][:2]


def _must_wait(share: Shared, size: int, need: int) -> bool:
    held = share.staying + share.leaving
    return held == 0 or held + need > size
