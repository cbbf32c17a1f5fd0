"""How good a node is for a shape: one integer, smaller is better, or None where it does not fit.

From the top: preferences, beside a shared GPU with room, free now before free later, CPU-only
nodes for CPU-only work, fullest or emptiest, and the name.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scheduler_service.ledger.nodes import CLAIM_PREFIX, NO_NODE, NodeTable
from scheduler_service.ledger.shape import NO_GPU, Shape
from scheduler_service.planning import fragmentation, static_fit
from scheduler_service.planning.board import Board
from scheduler_service.planning.devices import fits_shared

RANK_BITS = 20
RANK_MASK = (1 << RANK_BITS) - 1
PLACE_BITS = 40
CPU_ONLY = 1 << (PLACE_BITS + RANK_BITS)
LATER = CPU_ONLY << 1
ALONE = CPU_ONLY << 2
BONUS_SHIFT = PLACE_BITS + RANK_BITS + 3
RATIO = 1 << PLACE_BITS - 1
NO_COST = 1 << PLACE_BITS - 4
"""Costs may be negative, places may not."""

Judge = Callable[[int], "int | None"]
Rows = np.ndarray[tuple[int], np.dtype[np.int64]]


def judge_of(board: Board, shape: Shape, bonus: dict[int, int] | None) -> Judge:
    """Return the function that gives a node's place for a shape, or None if it does not fit."""
    judge = _plain_judge(board, shape)
    is_part = shape.is_shared and shape.devices == 1 and not board.ledger.nodes.sizes
    if is_part and not shape.extras and not shape.claims:
        judge = _part_judge(board, shape, judge)
    elif shape.extras or shape.claims or shape.is_shared:
        judge = _rare_judge(board, shape, judge)
    if bonus is None and not any(term.weight is not None for term in shape.node_affinity):
        return judge
    return _with_bonus(board, shape, judge, bonus or {})


def _plain_judge(board: Board, shape: Shape) -> Judge:
    """Return the judge of whole GPUs, CPU, memory and slots: the hottest lines of the engine."""
    nodes = board.ledger.nodes
    base = _base_of(board, shape)
    fullness = _fullness(board, shape)
    bases: dict[int, int] = {}
    idle_cpu, all_cpu = nodes.idle_cpu, nodes.all_cpu
    idle_memory, all_memory = nodes.idle_memory, nodes.all_memory
    idle_slots, all_slots = nodes.idle_slots, nodes.all_slots
    idle_gpu, all_gpu = nodes.idle_gpu, nodes.all_gpu
    cpu, memory, gpus = shape.milli_cpu, shape.memory_bytes, shape.gpus
    packs_gpus = board.policy.placement.gpu == "pack" and not _is_cpu_work(board, shape)
    offered = nodes.gpus

    def judge(row: int) -> int | None:
        free = all_gpu[row]
        if free < gpus or all_cpu[row] < cpu or all_memory[row] < memory or all_slots[row] < 1:
            return None
        place = bases.get(row)
        if place is None:
            place = bases[row] = base(row)
        if place < 0:
            return None
        if not packs_gpus:
            place += fullness(row) << RANK_BITS
        else:
            place += (free if offered[row] else RATIO) << RANK_BITS
        if (
            idle_gpu[row] >= gpus
            and idle_cpu[row] >= cpu
            and idle_memory[row] >= memory
            and idle_slots[row] > 0
        ):
            return place
        return place + LATER

    return judge


def _base_of(board: Board, shape: Shape) -> Callable[[int], int]:
    """Return the part of a node's place that stays the same in a cycle; -1: not allowed."""
    allowed, ranks, nodes = allowed_by(board, shape), board.ledger.nodes.ranks(), board.ledger.nodes
    is_cpu = _is_cpu_work(board, shape)

    def base(row: int) -> int:
        if not allowed(row):
            return -1
        place = ranks[row] + ALONE
        return place + CPU_ONLY if is_cpu and not _is_cpu_node(nodes, row) else place

    return base


def _part_judge(board: Board, shape: Shape, plain: Judge) -> Judge:
    """Return a judge of a part of one GPU: `fits_shared` spelled out for what is asked most."""
    nodes = board.ledger.nodes
    beside = ALONE if board.policy.placement.gpu == "pack" else 0
    idle_gpu, all_gpu, all_slots = nodes.idle_gpu, nodes.all_gpu, nodes.all_slots
    memory, most_room = nodes.gpu_memory, nodes.most_room
    needs: dict[int, int] = {}

    def judge(row: int) -> int | None:
        place = plain(row)
        if place is None:
            return None
        size = memory[row]
        need = needs.get(size)
        if need is None:
            need = needs[size] = shape.need_on(size)
        if most_room(row) >= need:
            return place - beside
        if all_gpu[row] < 1 or all_slots[row] < 2 or need > size:  # noqa: PLR2004 - its pod's too
            return None
        return place if idle_gpu[row] > 0 or place & LATER else place + LATER

    return judge


def _rare_judge(board: Board, shape: Shape, plain: Judge) -> Judge:
    """Return a judge that looks at shared GPUs, extended resources, MIG slices and claims too."""
    nodes = board.ledger.nodes
    packs = board.policy.placement.gpu == "pack"
    is_shared, needs_more = shape.is_shared, bool(shape.extras or shape.claims)

    def judge(row: int) -> int | None:
        place = plain(row)
        if place is None:
            return None
        now = True
        if is_shared:
            later, now, beside = fits_shared(nodes, row, shape)
            if not later:
                return None
            if beside and packs:
                place -= ALONE
        if needs_more:
            later, more_now = _more(board, row, shape)
            if not later:
                return None
            now = now and more_now
        return place if now or place & LATER else place + LATER

    return judge


def _with_bonus(board: Board, shape: Shape, judge: Judge, bonus: dict[int, int]) -> Judge:
    nodes = board.ledger.nodes

    def judge_with_bonus(row: int) -> int | None:
        value = judge(row)
        node = nodes.models[row]
        if value is None or node is None:
            return None
        wishes = static_fit.preference(node, shape) if shape.node_affinity else 0
        return value - ((wishes * 100 + bonus.get(row, 0)) << BONUS_SHIFT)

    return judge_with_bonus


def allowed_by(board: Board, shape: Shape) -> Callable[[int], bool]:
    """Return whether a row's class may take the shape; asked once a class."""
    nodes, policy = board.ledger.nodes, board.policy
    class_of = nodes.class_of
    known: dict[int, bool] = {}

    def allowed(row: int) -> bool:
        number = class_of[row]
        answer = known.get(number)
        if answer is None:
            answer = known[number] = static_fit.unfit(nodes, row, shape, policy) is None
        return answer

    if not shape.vetoes:
        return allowed
    return lambda row: allowed(row) and static_fit.vetoed(nodes.name_of(row), shape) is None


def _more(board: Board, row: int, shape: Shape) -> tuple[bool, bool]:
    """Return whether extended resources, MIG slices and claims fit in the end, and now."""
    nodes, claims = board.ledger.nodes, board.ledger.claims
    idle, later = nodes.idle_extra[row], nodes.all_extra[row]
    fits_now = all(idle.get(name, 0) >= amount for name, amount in shape.extras)
    fits_later = all(later.get(name, 0) >= amount for name, amount in shape.extras)
    if nodes.legacy_mig.get(row) and any(name.startswith("mig:") for name, _ in shape.extras):
        return False, False
    wanted: dict[str, int] = {}
    for name in shape.claims:
        key = f"{shape.namespace}/{name}"
        if key not in claims.models:
            return False, False
        now_here, later_here = claims.room(key, row)
        fits_now, fits_later = fits_now and now_here, fits_later and later_here
        claim = claims.models[key]
        if claims.use[key].node == NO_NODE:  # else its devices are taken already, once for all
            resource = CLAIM_PREFIX + claim.device_class
            wanted[resource] = wanted.get(resource, 0) + claim.count
    fits_now = fits_now and all(idle.get(name, 0) >= count for name, count in wanted.items())
    fits_later = fits_later and all(later.get(name, 0) >= count for name, count in wanted.items())
    return fits_later, fits_now


def _is_cpu_work(board: Board, shape: Shape) -> bool:
    return shape.kind == NO_GPU and not board.ledger.claims.gpus(shape.namespace, shape)


def _fullness(board: Board, shape: Shape) -> Callable[[int], int]:
    """Return how far back a node stands: by fullness, in GPUs or CPU, or by what the place costs."""
    if fragmentation.decides(board, shape):
        cost = fragmentation.costs(board).of(shape)
        return lambda row: NO_COST + cost(row)
    nodes, placement = board.ledger.nodes, board.policy.placement
    is_cpu = _is_cpu_work(board, shape)
    strategy = placement.cpu if is_cpu else placement.gpu
    free = nodes.all_cpu if is_cpu else nodes.all_gpu
    gpus = nodes.gpus

    def total(row: int) -> int:
        node = nodes.models[row]
        return (node.milli_cpu if node else 0) if is_cpu else gpus[row]

    def fullness(row: int) -> int:
        if not total(row):
            return RATIO
        if strategy == "pack":
            return max(0, min(free[row], RATIO))
        return (total(row) - max(0, free[row])) * RATIO // total(row)

    return fullness


def _is_cpu_node(nodes: NodeTable, row: int) -> bool:
    node = nodes.models[row]
    return node is not None and not nodes.gpus[row] and not node.mig


# -- judging all nodes at once -------------------------------------------------------------------


def vector_places(board: Board, shape: Shape, index: Rows) -> tuple[Rows, Rows]:
    """Return which of these rows (all of them may take it) fit a shape, and their places."""
    nodes = board.ledger.nodes

    def column(values: object) -> Rows:
        return np.frombuffer(values, dtype=np.int64)[index]  # type: ignore[call-overload, no-any-return]

    fits_now = np.ones(len(index), dtype=bool)
    fits = np.ones(len(index), dtype=bool)
    needs = (
        (nodes.idle_gpu, nodes.all_gpu, shape.gpus),
        (nodes.idle_cpu, nodes.all_cpu, shape.milli_cpu),
        (nodes.idle_memory, nodes.all_memory, shape.memory_bytes),
        (nodes.idle_slots, nodes.all_slots, 1),
    )
    for idle, later, need in needs:
        fits_now &= column(idle) >= need
        fits &= column(later) >= need
    places = _vector_fullness(board, shape, index) << RANK_BITS
    places += column(nodes.ranks()) + ALONE
    places[~fits_now] += LATER
    return index[fits], places[fits]


def may_be_on(
    board: Board, shape: Shape, index: Rows
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return whether each of these rows may take a shape; asked once a class where that is less."""
    allowed, nodes = allowed_by(board, shape), board.ledger.nodes
    examples = nodes.class_examples()
    if shape.vetoes or len(examples) > len(index):
        return np.array([allowed(row) for row in index.tolist()], dtype=bool)
    may = np.array([row >= 0 and allowed(row) for row in examples], dtype=bool)
    return may[np.frombuffer(nodes.class_of, dtype=np.int64)[index]]


def copies(board: Board, shape: Shape, *, later: bool) -> int:
    """Return how many pods of a plain shape fit on all nodes, now or in the end."""
    nodes = board.ledger.nodes
    columns = (
        (nodes.all_gpu, nodes.all_cpu, nodes.all_memory, nodes.all_slots)
        if later
        else (nodes.idle_gpu, nodes.idle_cpu, nodes.idle_memory, nodes.idle_slots)
    )
    needs = (shape.gpus, shape.milli_cpu, shape.memory_bytes, 1)
    fits = np.full(len(nodes), np.iinfo(np.int64).max, dtype=np.int64)
    for column, need in zip(columns, needs, strict=True):
        if need:
            fits = np.minimum(fits, np.frombuffer(column, dtype=np.int64) // need)
    fits = np.clip(fits, 0, None)
    return int(fits[may_be_on(board, shape, np.arange(len(nodes)))].sum())


def repeats(board: Board, shape: Shape, row: int, *, now: bool = True) -> int:
    """Return how many pods of a plain shape the best node takes now (or later), one after another.

    Where fuller nodes come first it stays the best until it is full; else only one is certain.
    """
    nodes, placement = board.ledger.nodes, board.policy.placement
    if (placement.gpu if shape.gpus else placement.cpu) != "pack":
        return 1
    count, gpus, cpu, memory = nodes.all_slots[row], shape.gpus, shape.milli_cpu, shape.memory_bytes
    if gpus:
        count = min(count, nodes.all_gpu[row] // gpus)
    if cpu:
        count = min(count, nodes.all_cpu[row] // cpu)
    if memory:
        count = min(count, nodes.all_memory[row] // memory)
    return min(count, _repeats_now(nodes, shape, row)) if now else count


def _repeats_now(nodes: NodeTable, shape: Shape, row: int) -> int:
    count, gpus, cpu, memory = (
        nodes.idle_slots[row],
        shape.gpus,
        shape.milli_cpu,
        shape.memory_bytes,
    )
    if gpus:
        count = min(count, nodes.idle_gpu[row] // gpus)
    if cpu:
        count = min(count, nodes.idle_cpu[row] // cpu)
    if memory:
        count = min(count, nodes.idle_memory[row] // memory)
    return count


def _vector_fullness(
    board: Board, shape: Shape, index: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    nodes, placement = board.ledger.nodes, board.policy.placement
    is_cpu = shape.kind == NO_GPU
    if (placement.cpu if is_cpu else placement.gpu) == "pack" and not is_cpu:
        free = np.frombuffer(nodes.all_gpu, dtype=np.int64)[index]
        total = np.frombuffer(nodes.gpus, dtype=np.int64)[index]
        return np.where(total > 0, np.clip(free, 0, RATIO), RATIO)
    place, cpu_nodes = _fullness(board, shape), CPU_ONLY >> RANK_BITS
    extra = [
        place(row) + (cpu_nodes if is_cpu and not _is_cpu_node(nodes, row) else 0)
        for row in index.tolist()
    ]
    return np.asarray(extra, dtype=np.int64)
