"""Which groups an action takes up, and why the others are left out."""

from __future__ import annotations

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.queues import NO_QUEUE
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.model.policy import Action
from scheduler_service.model.reasons import (
    BackingOff,
    NotReady,
    QueueMissing,
    QueueNotLeaf,
    Reason,
)
from scheduler_service.planning import tree
from scheduler_service.planning.board import Board

PENDING = states.PENDING


def pending_groups(board: Board, action: Action) -> list[Group]:
    """Return the groups that could start something, the rest get their reason."""
    found: list[Group] = []
    groups, back_offs, queues = board.ledger.groups, board.ledger.back_offs, board.ledger.queues
    works = [queues.runs_work(row) for row in range(len(queues))]
    works.append(False)  # no queue
    for key, pending in board.ledger.open_groups.items():
        if not pending:
            continue
        group = groups[key]
        leaf = group.leaf
        if (
            group.is_flat
            and leaf.counts[PENDING] >= leaf.spec.min_members
            and works[group.queue]
            and key not in back_offs
        ):
            found.append(group)  # most of them: nothing of `_left_out` can be
            continue
        reason = _left_out(board, group)
        if reason is None:
            found.append(group)
        else:
            board.say(action, group, reason)
    return found


def lone_pending(board: Board, group: Group) -> int:
    """Return the pod of a preemptible group that waits, is all there is, and has no rules; else -1.

    Where it may be is for resources alone to say, and no delay is in the way.
    """
    ledger, model, pods = board.ledger, group.model, group.leaf.pods
    if (
        len(pods) != 1
        or not group.is_flat
        or ledger.pods.state[pods[0]] != states.PENDING
        or group.leaf.spec.min_members > 1
        or group.topology is not None
        or model.preemption_delay_ms
        or model.preemptibility is not Preemptibility.PREEMPTIBLE
        or not ledger.shape_of(pods[0]).is_plain
        or ledger.affinity_pods
    ):
        return -1
    return pods[0]


def _left_out(board: Board, group: Group) -> Reason | None:
    queues = board.ledger.queues
    if group.queue == NO_QUEUE or not queues.paths[group.queue]:
        return QueueMissing(group.model.queue)
    if not queues.is_leaf[group.queue]:
        return QueueNotLeaf(group.model.queue)
    if not tree.is_ready(group):
        return not_ready(group)
    back_off = board.ledger.back_offs.get(group.key)
    if back_off is not None and back_off.until_ms > board.now_ms:
        return BackingOff(back_off.failures, back_off.until_ms - board.now_ms)
    return None


def incomplete(group: Group) -> NotReady:
    """Return what a group that runs lacks to start more: pods of a part that are not there."""
    for leaf in group.leaves.values():
        there = tree.possible(leaf)
        if leaf.counts[states.PENDING] and there < leaf.spec.min_members:
            return NotReady(there, leaf.spec.min_members, leaf.counts[states.GATED])
    return not_ready(group)


def not_ready(group: Group) -> NotReady:
    """Return how many of the pods that start together are there."""
    gated = group.count(states.GATED)
    there = sum(tree.possible(leaf) for leaf in group.leaves.values())
    return NotReady(there, group.model.min_members, gated)
