"""Which groups have been below their minimum for too long."""

from __future__ import annotations

from msgspec import UnsetType

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.planning import tree
from scheduler_service.planning.board import Board

_ON_NODES = (*(code for code, on in enumerate(states.IS_ACTIVE) if on), states.RELEASING)


def is_stale(group: Group) -> bool:
    """Say whether some of the group runs, but less than it needs; leaving pods still count.

    Never so once a pod has succeeded: then the group is on its way to its end.
    """
    leaves = group.leaves.values()
    if any(leaf.counts[states.SUCCEEDED] for leaf in leaves):
        return False
    if not any(leaf.counts[code] for leaf in leaves for code in _ON_NODES):
        return False
    return not tree.has_enough(group, group.model.gang, tree.present)


def stale_since(board: Board, group: Group) -> int:
    """Return since when a stale group has been so; now, if nobody saw it before."""
    since = group.model.stale_since_ms
    return board.now_ms if since is None else since


def is_over(board: Board, group: Group) -> bool:
    """Say whether the grace of a stale group is over."""
    ends = ends_ms(board, group)
    return ends is not None and board.now_ms >= ends


def ends_ms(board: Board, group: Group) -> int | None:
    """Return when the grace of a stale group is over; None: never."""
    own = group.model.stale_grace_ms
    grace = board.policy.stale_gang_grace_ms if isinstance(own, UnsetType) else own
    return None if grace is None else stale_since(board, group) + grace


def will_be_stopped(board: Board, group: Group) -> bool:
    """Say whether this cycle ends the group anyway, as it stands."""
    return "evict_stale_gangs" in board.policy.actions and is_stale(group) and is_over(board, group)
