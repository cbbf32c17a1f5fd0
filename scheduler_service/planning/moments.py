"""When time alone may change what is planned: the loop plans again then, though nothing happened."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler_service.ledger import states
from scheduler_service.planning import reservation, staleness
from scheduler_service.planning.board import Board


def next_moment(board: Board) -> int | None:
    """Return the first moment after now at which a delay, a grace or a reservation ends."""
    return min((moment for moment in _moments(board) if moment > board.now_ms), default=None)


def _moments(board: Board) -> Iterator[int]:
    yield from _of_those_who_wait(board)
    yield from _of_those_who_run(board)
    ledger = board.ledger
    for pod in ledger.deleted:
        deleted = ledger.pods.models[pod].deleted_ms
        if deleted is not None and ledger.pods.state[pod] == states.RELEASING:
            yield deleted + board.policy.stuck_after_ms + 1
    for key in board.stale:
        ends = staleness.ends_ms(board, ledger.groups[key])
        if ends is not None:
            yield ends


def _of_those_who_wait(board: Board) -> Iterator[int]:
    """Yield when delays before others may be asked to leave are over, and reservations begin."""
    ledger, policy, now = board.ledger, board.policy, board.now_ms
    for key, pending in ledger.open_groups.items():
        group = ledger.groups[key]
        model = group.model
        if not pending:
            continue
        if model.preemption_delay_ms and (model.made_ms or model.last_evicted_ms):
            since = max(model.made_ms or 0, model.last_evicted_ms or 0)
            if any(pod in board.evict_reasons for pod in group.pods()):
                since = now
            yield since + model.preemption_delay_ms
        if policy.reserve_after_ms > 0 and model.waits_since_ms is not None:
            yield now + reservation.next_turn_ms(policy, model.waited_ms(now))


def _of_those_who_run(board: Board) -> Iterator[int]:
    """Yield when minimum run times are over, where queues have some and somebody waits."""
    ledger = board.ledger
    times = {
        time
        for queue in ledger.queues.models
        for time in (queue.preempt_min_runtime_ms, queue.reclaim_min_runtime_ms)
        if time
    }
    if not times or not any(ledger.open_groups.values()):
        return
    for group in ledger.groups.values():
        started = group.model.started_ms
        if started is not None and group.key not in board.set_aside:
            yield from (started + time for time in times)
