"""How far an action looks into each queue: at the first so many of its waiting groups, where the policy says so."""

from __future__ import annotations

from collections import defaultdict

from scheduler_service.ledger.groups import Group
from scheduler_service.model.policy import Action
from scheduler_service.planning.board import Board
from scheduler_service.planning.ordering import group_key


def within_depth(board: Board, action: Action, groups: list[Group]) -> list[Group]:
    """Return the groups that the action may look at; all of them where no depth is set."""
    depth = board.policy.queue_depth.get(action)
    if depth is None:
        return groups
    by_queue: dict[int, list[Group]] = defaultdict(list)
    for group in groups:
        by_queue[group.queue].append(group)
    found: list[Group] = []
    for waiting in by_queue.values():
        waiting.sort(key=lambda group: group_key(board, group))
        found += waiting[:depth]
    return found
