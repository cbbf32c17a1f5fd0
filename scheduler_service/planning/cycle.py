"""One cycle: the ledger, a policy and a moment in, a plan out. Pure: the ledger is as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Plan, Waiting, Work
from scheduler_service.model.policy import Action, Policy
from scheduler_service.model.reasons import PlanningFailed, Reason, WaitsForRelease
from scheduler_service.model.resources import Resources
from scheduler_service.planning import faults, holds, moments
from scheduler_service.planning.actions import (
    allocate,
    consolidate,
    evict_stale_gangs,
    preempt,
    reclaim,
)
from scheduler_service.planning.board import Board

ACTION_TABLE: Mapping[Action, Callable[[Board], None]] = {
    "allocate": allocate.run,
    "consolidate": consolidate.run,
    "reclaim": reclaim.run,
    "preempt": preempt.run,
    "evict_stale_gangs": evict_stale_gangs.run,
}


def plan(ledger: Ledger, policy: Policy, now_ms: int) -> Plan:
    """Return what should happen now, and why everything else waits.

    A group that meets an internal error is left out and says so; the others are planned for.
    """
    return faults.without_the_faulty(lambda aside: _plan(ledger, policy, now_ms, aside))


def _plan(ledger: Ledger, policy: Policy, now_ms: int, aside: faults.Aside) -> Plan:
    mark = ledger.checkpoint()
    written = ledger.journal.written
    try:
        for key in aside:
            ledger.journal.put(ledger.open_groups, key, 0)
        board = Board.of(ledger, policy, now_ms)
        board.set_aside = aside
        mark_stuck(board)
        if policy.hold_ms and ledger.holds:
            holds.honour(board)
        for action in policy.actions:
            if action == "evict_stale_gangs" or any(ledger.open_groups.values()):
                ACTION_TABLE[action](board)
        result = _result(board)
    finally:
        ledger.rollback(mark)
        work = ledger.journal.written - written
        ledger.journal.touched.clear()
    return _with_entries(result, work)


def mark_stuck(board: Board) -> None:
    """Book pods that should long have left as staying: nobody is promised what they hold."""
    pods = board.ledger.pods
    latest = board.now_ms - board.policy.stuck_after_ms
    for pod in board.ledger.deleted:
        deleted = pods.models[pod].deleted_ms
        if pods.state[pod] == states.RELEASING and deleted is not None and deleted < latest:
            board.ledger.move(pod, states.STUCK, pods.node[pod], pods.devices[pod])


def _result(board: Board) -> Plan:
    counts = board.counts
    shares = {
        queue.name: Resources(milli_cpu=share[0], memory_bytes=share[1], milli_gpu=share[2])
        for queue, share in zip(board.ledger.queues.models, board.fair_share, strict=True)
    }
    return Plan(
        now_ms=board.now_ms,
        statements=tuple(board.statements),
        waiting=tuple(_waiting(board)),
        fair_shares=shares,
        stale=dict(board.stale),
        wake_ms=moments.next_moment(board),
        work=Work(
            nodes_examined=counts.nodes_examined,
            groups_tried=counts.groups_tried,
            victims_walked=counts.victims_walked,
            simulations=counts.simulations,
        ),
    )


def _with_entries(result: Plan, entries: int) -> Plan:
    work = result.work
    return Plan(
        result.now_ms,
        result.statements,
        result.waiting,
        result.fair_shares,
        result.stale,
        Work(
            work.nodes_examined,
            work.groups_tried,
            work.victims_walked,
            work.simulations,
            entries,
        ),
        result.wake_ms,
    )


def _waiting(board: Board) -> list[Waiting]:
    """Return each group with pending or promised pods, in the order they were taken up."""
    groups, attempts = _waiting_groups(board), board.attempts
    last = len(attempts)
    groups.sort(key=lambda group: (attempts.get(group.key, last), group.key))
    seen: dict[int, int] = {}
    result: list[Waiting] = []
    for overall, group in enumerate(groups, start=1):
        place = seen[group.queue] = seen.get(group.queue, 0) + 1
        back_off = board.ledger.back_offs.get(group.key)
        until = back_off.until_ms if back_off and back_off.until_ms > board.now_ms else None
        result.append(Waiting(group.key, _reasons(board, group), place, overall, until))
    result.extend(_left_out(board, last=len(result)))
    return result


def _left_out(board: Board, last: int) -> Iterator[Waiting]:
    """Yield who was left out for an internal error, at the end of everything."""
    actions = [action for action in board.policy.actions if action != "evict_stale_gangs"]
    for place, (key, error) in enumerate(board.set_aside.items(), start=last + 1):
        if board.ledger.groups[key].count(states.PENDING):
            why = (PlanningFailed(error),)
            yield Waiting(key, tuple((action, why) for action in actions), place, place)


def _waiting_groups(board: Board) -> list[Group]:
    ledger = board.ledger
    keys = {key for key, pending in ledger.open_groups.items() if pending}
    promised = [ledger.pods.row_of[op.pod] for op in board.pipelines()]
    for pod in (*promised, *ledger.promised):
        group = ledger.group_of(pod)
        if group is not None and ledger.pods.state[pod] == states.PIPELINED:
            keys.add(group.key)
    return [ledger.groups[key] for key in keys - board.set_aside.keys()]


def _reasons(board: Board, group: Group) -> tuple[tuple[Action, tuple[Reason, ...]], ...]:
    known = board.reasons.get(group.key)
    found = {action: tuple(reasons) for action, reasons in known.items()} if known else {}
    promised = _promised(board, group)
    if promised:
        pods, name_of = board.ledger.pods, board.ledger.nodes.name_of
        first = promised[0]
        if len(promised) > 1:
            first = min(promised, key=lambda pod: pods.models[pod].name)
        # What it has comes before what it lacked: this is what it waits for now.
        promise = WaitsForRelease(name_of(pods.node[first]), len(promised))
        found = {**found, "allocate": (promise, *found.get("allocate", ()))}
    return tuple(found.items())


def _promised(board: Board, group: Group) -> list[int]:
    """Return the pods of a group that have a promise."""
    state = board.ledger.pods.state
    return [
        pod
        for leaf in ((group.leaf,) if group.several is None else group.several.values())
        if leaf.counts[states.PIPELINED]
        for pod in leaf.pods
        if state[pod] == states.PIPELINED
    ]
