"""Preempt: take from groups of lower priority in the same queue."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_service.ledger.groups import Group
from scheduler_service.model.reasons import PreemptedBy, Reason
from scheduler_service.planning import capacity_check
from scheduler_service.planning.board import Board
from scheduler_service.planning.making_room import MakingRoom, Why, Wish
from scheduler_service.planning.tree import Chunk
from scheduler_service.planning.victims import Entry, Step, preempt_min_runtime


def run(board: Board) -> None:
    """Serve each waiting group at the cost of lesser ones of its own queue."""
    room = MakingRoom(board, "preempt")
    for wish in room.wishes(lambda _: True):
        over = _over_quota(board, wish)
        if over is not None:
            board.say("preempt", wish.group, over)
            continue
        room.win(wish, {wish.group.queue: _lesser(room, wish)}, _allow, _why(wish))


def _over_quota(board: Board, wish: Wish) -> Reason | None:
    if not capacity_check.must_fit_quota(wish.group):
        return None
    least = board.sizes.least(board.asked_by(wish.chunk))
    return capacity_check.over_quota(board, wish.group, least)


def _lesser(room: MakingRoom, wish: Wish) -> Sequence[Entry]:
    """Return the groups of the same queue with lower priority."""
    priority, group = wish.group.model.priority, wish.group
    stack = room.pool.stack(group.queue)
    lesser = [entry for entry in stack if entry.group.model.priority < priority]
    return room.pool.guarded(lesser, lambda victim: preempt_min_runtime(room.board, victim))


def _allow(_: Chunk, __: Sequence[Step]) -> bool:
    return True


def _why(wish: Wish) -> Why:
    def why(victim: Group) -> Reason:
        return PreemptedBy(wish.key, wish.group.model.priority, victim.model.priority)

    return why
