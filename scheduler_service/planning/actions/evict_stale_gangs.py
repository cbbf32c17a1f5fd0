"""Evict stale gangs: stop groups that have been below their minimum for too long."""

from __future__ import annotations

from scheduler_service.ledger.groups import Group
from scheduler_service.model.reasons import StaleGang
from scheduler_service.planning import staleness, tree
from scheduler_service.planning.board import Board


def run(board: Board) -> None:
    """Note who is below its minimum since when, and tell those to go whose grace is over."""
    groups = board.ledger.groups
    for key in sorted(board.ledger.gangs.keys() - board.set_aside.keys()):
        group = groups[key]
        if not staleness.is_stale(group):
            continue
        since = staleness.stale_since(board, group)
        board.stale[key] = since
        if staleness.is_over(board, group):
            _stop(board, group, board.now_ms - since)


def _stop(board: Board, group: Group, stale_ms: int) -> None:
    pods = list(tree.active_pods(board.ledger, group))
    if not pods:
        return
    present = sum(tree.present(leaf) for leaf in group.leaves.values())
    for pod in pods:
        board.evict(pod)
        board.evict_reasons[pod] = StaleGang(present, group.model.min_members, stale_ms)
    board.commit("evict_stale_gangs", group.model.key)
