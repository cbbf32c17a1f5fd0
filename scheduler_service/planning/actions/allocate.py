"""Allocate: start pending groups on free room; nobody is disturbed.

Groups are taken up in queue order. A group that starts competes again for its next pods; one that
does not fit is done for this cycle, and smaller ones behind it may still start. Fair share is not
asked for here: only limits, and quotas for work that may not be preempted (FORMAT.md, 9).
"""

from __future__ import annotations

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.model.reasons import ClaimUnusable, GangShort, PlanningFailed
from scheduler_service.planning import candidates, capacity_check, faults, placement, plain
from scheduler_service.planning.board import Board, Mark
from scheduler_service.planning.candidates import incomplete, pending_groups
from scheduler_service.planning.dealing import Dealing
from scheduler_service.planning.depth import within_depth
from scheduler_service.planning.finder import finder_for
from scheduler_service.planning.ordering import GroupOrder, QueuePlaces
from scheduler_service.planning.placement import Placer
from scheduler_service.planning.reservation import Keeper
from scheduler_service.planning.tree import Chunk
from scheduler_service.planning.unfit import Unfit


def run(board: Board) -> None:
    """Start what fits; leave a statement for each step and a reason for each failure."""
    waiting = within_depth(board, "allocate", pending_groups(board, "allocate"))
    order = GroupOrder(board, waiting, QueuePlaces(board))
    unfit = Unfit(board)
    dealing, keeper = Dealing(board, order), Keeper(board)
    while (taken := dealing.pop()) is not None:
        group, chunk = taken
        board.counts.groups_tried += 1
        board.attempts.setdefault(group.key, len(board.attempts))
        if chunk is None:
            board.say("allocate", group, incomplete(group))
            continue
        mark = board.checkpoint()
        try:
            starts = (
                _bind(board, group, chunk, mark)
                or _start(board, group, chunk, unfit, mark)
                or _squeeze_in(board, group, chunk)
            )
        except Exception as error:
            if faults.is_of_another(error, group):
                raise
            board.rollback(mark)
            board.say("allocate", group, PlanningFailed(type(error).__name__))
            continue
        if not starts:
            keeper.consider(group, chunk)
            if len(chunk.members()) == 1:
                _fail_alike(board, order, group)
        if starts and board.ledger.open_groups.get(group.key):
            order.push(group)


def _fail_alike(board: Board, order: GroupOrder, failed: Group) -> None:
    """Give groups behind a lone pod that fits nowhere its reasons, as long as they are like it."""
    pod, shape_no = candidates.lone_pending(board, failed), board.ledger.pods.shape
    reasons = board.reasons.get(failed.key, {}).get("allocate", ())
    if pod < 0 or not reasons:
        return
    number = shape_no[pod]

    def is_alike(group: Group) -> bool:
        other = candidates.lone_pending(board, group)
        return other >= 0 and shape_no[other] == number and not _may_squeeze_in(board, group)

    while (group := order.pop_if(failed.queue, is_alike)) is not None:
        board.counts.groups_tried += 1
        board.attempts.setdefault(group.key, len(board.attempts))
        for reason in reasons:
            board.say("allocate", group, reason)


def _bind(board: Board, group: Group, chunk: Chunk, mark: Mark) -> bool:
    """Start a plain chunk on free room; False leaves everything to the general way."""
    if not plain.bind(board, group, chunk, mark):
        return False
    board.commit_bound("allocate", group.key, chunk.pods)
    return True


def _start(board: Board, group: Group, chunk: Chunk, unfit: Unfit, mark: Mark) -> bool:
    over = capacity_check.chunk_exceeds(board, group, chunk)
    if over is not None:
        never = unfit.never(chunk.members())
        if never is not None:
            board.say("allocate", group, never)
        board.say("allocate", group, over)
        return False
    placer = Placer(board, group, board.all_nodes)
    if placer.place(chunk):
        # Pods promised before count too: a later one must not start without them.
        if placement.must_wait_whole(group):
            placement.make_wait(board, placer.placed)
        board.commit("allocate", group.key)
        return True
    board.rollback(mark)
    _explain(board, group, chunk, placer, unfit)
    return False


def _may_squeeze_in(board: Board, group: Group) -> bool:
    kept = board.kept
    return kept is not None and kept.lets_pass(group.model.run_ms, board.now_ms)


def _squeeze_in(board: Board, group: Group, chunk: Chunk) -> bool:
    """Start a chunk on room that is kept for another group, if it ends before that one starts."""
    kept = board.kept
    if kept is None or not kept.lets_pass(group.model.run_ms, board.now_ms):
        return False
    kept.lift()
    try:
        return _start_now(board, group, chunk)
    finally:
        kept.restore()


def _start_now(board: Board, group: Group, chunk: Chunk) -> bool:
    """Bind a chunk if all of it fits on free room; otherwise nothing changes."""
    if capacity_check.chunk_exceeds(board, group, chunk) is not None:
        return False
    mark, state = board.checkpoint(), board.ledger.pods.state
    placer = Placer(board, group, board.all_nodes)
    is_placed = placer.place(chunk) and not placement.must_wait_whole(group)
    if is_placed and all(state[pod] == states.BINDING for pod in placer.placed):
        board.commit("allocate", group.key)
        return True
    board.rollback(mark)
    return False


def _is_hidden(board: Board, pod: int) -> bool:
    """Say whether a pod would fit now, were no room kept for another group."""
    kept, shape = board.kept, board.ledger.shape_of(pod)
    if kept is None or not shape.is_plain:
        return False
    kept.lift()
    found = finder_for(board, pod, board.all_nodes).best()
    kept.restore()
    return found is not None and found[1]


def _explain(board: Board, group: Group, chunk: Chunk, placer: Placer, unfit: Unfit) -> None:
    for reason in placer.reasons:
        board.say("allocate", group, reason)
    if placer.stuck_pod is None:
        return
    needed = len(chunk.members())
    if board.kept is not None and _is_hidden(board, placer.stuck_pod):
        board.say("allocate", group, board.kept.reason(board.now_ms))
    elif placer.furthest and needed > 1:
        leaf = board.ledger.pods.leaf[placer.stuck_pod]
        name = leaf.spec.name if leaf is not None else ""
        board.say("allocate", group, GangShort(placer.furthest, needed, name))
    elif not any(isinstance(reason, ClaimUnusable) for reason in placer.reasons):
        board.say("allocate", group, unfit.reason(placer.stuck_pod))
