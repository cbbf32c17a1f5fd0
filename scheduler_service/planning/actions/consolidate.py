"""Consolidate: move running groups so that a waiting one fits; everybody moved has a new place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.nodes import NodeTable
from scheduler_service.ledger.queues import ZERO, Amounts
from scheduler_service.ledger.shape import MEMORY
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.model.reasons import MovedFor, NotMovable, Reason
from scheduler_service.planning import candidates, staleness
from scheduler_service.planning.board import Board
from scheduler_service.planning.making_room import MakingRoom, Why, Wish
from scheduler_service.planning.moving import Moving
from scheduler_service.planning.tree import Chunk
from scheduler_service.planning.victims import Entry, Step


def run(board: Board) -> None:
    """Serve each waiting preemptible group by moving others."""
    if board.policy.max_consolidation_victims == 0:
        return
    room = MakingRoom(
        board, "consolidate", spares=lambda group: staleness.will_be_stopped(board, group)
    )
    givers = partial(_givers, room)
    moving = Moving(room.settling, lambda: room.pool, givers, "consolidate")
    room.serves_alike = moving.run
    free, changes = _free_milli(board), 0
    if not any(board.ledger.nodes.shared):
        room.sifts = lambda groups: _with_hope(board, groups, free)

    for wish in room.wishes(lambda group: _may_move_others(board, group)):
        if changes != room.won:
            free, changes = _free_milli(board), room.won
        if free + _kept(board, wish.group) < 1000 * sum(
            board.ledger.shape_of(pod).gpus for pod in wish.chunk.members()
        ):
            board.say("consolidate", wish.group, NotMovable("there is too little room in all"))
            continue
        room.win(wish, _movable(room, wish), _all_placed, _why(wish))


def _with_hope(board: Board, groups: list[Group], free: int) -> list[Group]:
    """Leave out hopeless groups below top queues where nobody has hope.

    Elsewhere they keep their turn: a queue is served where its next group puts it.
    """
    paths = board.ledger.queues.paths
    hopeless = {id(group) for group in groups if _is_hopeless(board, group, free)}
    if not hopeless:
        return groups
    tops = {paths[group.queue][-1] for group in groups if id(group) not in hopeless}
    return [group for group in groups if paths[group.queue][-1] in tops]


def _is_hopeless(board: Board, group: Group, free: int) -> bool:
    """Say whether a lone pod asks for more than is free in all: moving does not make it more."""
    pod = candidates.lone_pending(board, group)
    if pod < 0 or free + _kept(board, group) >= 1000 * board.ledger.shape_of(pod).gpus:
        return False
    board.say("consolidate", group, NotMovable("there is too little room in all"))
    return True


def _kept(board: Board, group: Group) -> int:
    """Return the free GPU that is kept for this group, in thousandths."""
    return 0 if board.kept is None else 1000 * board.kept.gpus_for(group.key)


def _may_move_others(board: Board, group: Group) -> bool:
    if group.model.preemptibility is not Preemptibility.NON_PREEMPTIBLE:
        return True
    board.say("consolidate", group, NotMovable("it may not be preempted itself"))
    return False


def _free_milli(board: Board) -> int:
    """Return all free GPU, parts of shared ones rounded up: moving does not make it more."""
    nodes = board.ledger.nodes
    free = sum(gpus for gpus in nodes.all_gpu if gpus > 0) * 1000
    if not any(nodes.shared):
        return free
    by_memory = any(shape.kind == MEMORY for shape in board.ledger.shapes.shapes)
    largest = board.sizes.largest if by_memory else 0
    for row, shared in enumerate(nodes.shared):
        for device, share in shared.items():
            stays = share.staying + share.promised
            if stays > 0:
                size = _size_for(nodes, row, device, largest)
                free += max(0, size - stays) * 1000 // size + 1
    return free


def _size_for(nodes: NodeTable, row: int, device: str, largest: int) -> int:
    """Return the GPU on which what shares this one takes the smallest part: by memory the largest."""
    model = nodes.models[row]
    size = nodes.size_of(row, device)
    return size if model is None or model.gpu_memory_mib is None else max(size, largest)


def _movable(room: MakingRoom, wish: Wish) -> dict[int, Sequence[Entry]]:
    """Return all groups that may be moved for the wish."""
    leaves = _givers(room, wish.group.queue, wish.asked)
    return {leaf: room.pool.stack(leaf, without=wish.group) for leaf in leaves}


def _givers(room: MakingRoom, own: int, asked: Amounts) -> list[int]:
    """Return the leaf queues whose groups may be moved if a leaf queue asks for so much.

    If it is lifted above its fair share, queues at or below theirs are left in peace.
    """
    board = room.board
    if _within_share(board, own, asked):
        return list(room.pool.stacks)
    stacks = room.pool.stacks
    return [leaf for leaf in stacks if leaf == own or not _within_share(board, leaf, ZERO)]


def _within_share(board: Board, row: int, asked: Amounts) -> bool:
    held, share = board.ledger.queues.allocated[row], board.fair_share[row]
    return all(
        amount + more <= bound for amount, more, bound in zip(held, asked, share, strict=True)
    )


def _all_placed(_: Chunk, lost: Sequence[Step]) -> bool:
    return not lost


def _why(wish: Wish) -> Why:
    def why(victim: Group) -> Reason:
        return MovedFor(wish.key, victim.model.key)

    return why
