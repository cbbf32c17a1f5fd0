"""Limits of all queues on the way to the top, and quotas for work that may not be preempted."""

from __future__ import annotations

from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.queues import Amounts
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.model.reasons import KeptForOther, NonPreemptibleOverQuota, OverLimit
from scheduler_service.model.resources import Resource
from scheduler_service.planning.board import Board
from scheduler_service.planning.capacity import first_exceeded
from scheduler_service.planning.tree import Chunk, is_satisfied

NAMES: tuple[Resource, Resource, Resource] = ("cpu", "memory", "gpu")
CapacityReason = OverLimit | NonPreemptibleOverQuota | KeptForOther


def exceeded(board: Board, group: Group, amounts: Amounts) -> CapacityReason | None:
    """Return the first bound that `amounts` more would exceed, from the queue up, or None."""
    over: CapacityReason | None = over_limit(board, group, amounts)
    if over is None and must_fit_quota(group):
        over = over_quota(board, group, amounts)
    if over is None and board.kept is not None:
        is_firm = must_fit_quota(group)
        over = board.kept.refuses(group, amounts, board.now_ms, is_firm=is_firm)
    return over


def must_fit_quota(group: Group) -> bool:
    """Say whether what the group starts next has to fit into quotas."""
    kind = group.model.preemptibility
    if kind is Preemptibility.SEMI_PREEMPTIBLE:
        return not is_satisfied(group)
    return kind is Preemptibility.NON_PREEMPTIBLE


def over_limit(board: Board, group: Group, amounts: Amounts) -> OverLimit | None:
    """Return the first limit that `amounts` more would exceed."""
    queues = board.ledger.queues
    path = queues.paths[group.queue]
    over = first_exceeded(path, queues.limit, queues.allocated, amounts)
    if over is None:
        return None
    row, index, bound, held = over
    return OverLimit(queues.models[row].name, NAMES[index], bound, held, amounts[index])


def over_quota(board: Board, group: Group, amounts: Amounts) -> NonPreemptibleOverQuota | None:
    """Return the first quota that non-preemptible work would exceed with `amounts` more."""
    queues = board.ledger.queues
    path = queues.paths[group.queue]
    over = first_exceeded(path, queues.quota, queues.non_preemptible, amounts)
    if over is None:
        return None
    row, index, bound, held = over
    name = queues.models[row].name
    return NonPreemptibleOverQuota(name, NAMES[index], bound, held, amounts[index])


def chunk_exceeds(board: Board, group: Group, chunk: Chunk) -> CapacityReason | None:
    """Return the first bound that a chunk would exceed, even on the largest GPUs."""
    is_free = not board.ledger.queues.limited_paths[group.queue]
    if is_free and group.model.preemptibility is Preemptibility.PREEMPTIBLE:
        return None
    return exceeded(board, group, board.sizes.least(board.asked_by(chunk)))
