"""When waiting groups would start if running ones end as they said: a virtual clock over the book.

Only endings and free room are played; nobody is evicted here. Groups of which nothing is known
run for ever, so a start that is found rests on numbers, and one that is not found is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.policy import Policy
from scheduler_service.planning import tree
from scheduler_service.planning.actions import allocate
from scheduler_service.planning.board import Board

MAX_STEPS = 200
MAX_ATTEMPTS = 20_000


def starts(
    ledger: Ledger, policy: Policy, now_ms: int, *, ends_in_ms: Mapping[str, int]
) -> dict[str, int]:
    """Return group -> ms from now at which it has its minimum, for those that get there.

    `ends_in_ms`: how long a running group still runs, or a waiting one runs once it started.
    Bounded by work, not by time: what is not found in 200 endings is unknown.
    """
    mark = ledger.checkpoint()
    try:
        return _play(ledger, policy, now_ms, ends_in_ms)
    finally:
        ledger.rollback(mark)
        ledger.journal.touched.clear()


def _play(
    ledger: Ledger, policy: Policy, now_ms: int, ends_in_ms: Mapping[str, int]
) -> dict[str, int]:
    found: dict[str, int] = {}
    _let_leave(ledger)
    running = (key for key in ends_in_ms if _is_running(ledger, key))
    ends = [(ends_in_ms[key], key) for key in running]
    heapify(ends)
    attempts, moment = 0, 0
    for _ in range(MAX_STEPS):
        waiting = [key for key, pending in ledger.open_groups.items() if pending]
        attempts += len(waiting)
        if not waiting or attempts > MAX_ATTEMPTS:
            break
        allocate.run(Board.of(ledger, policy, now_ms + moment))
        for key in _started(ledger, waiting):
            if key not in found:
                found[key] = moment
                if key in ends_in_ms:
                    heappush(ends, (moment + ends_in_ms[key], key))
        if not ends:
            break
        moment = max(moment, ends[0][0])
        while ends and ends[0][0] <= moment:
            _end(ledger, ledger.groups[heappop(ends)[1]])
    return found


def _let_leave(ledger: Ledger) -> None:
    """Take those that are leaving as gone."""
    for pod in ledger.pods.row_of.values():
        if ledger.pods.state[pod] == states.RELEASING:
            ledger.move(pod, states.FAILED)


def _is_running(ledger: Ledger, key: str) -> bool:
    group = ledger.groups.get(key)
    return group is not None and any(tree.active(leaf) for leaf in group.leaves.values())


def _started(ledger: Ledger, keys: Iterable[str]) -> list[str]:
    started: list[str] = []
    for key in keys:
        group = ledger.groups[key]
        if tree.is_satisfied(group) and not group.count(states.PIPELINED):
            started.append(key)
    return started


def _end(ledger: Ledger, group: Group) -> None:
    for pod in list(group.pods()):
        if states.HAS_PLACE[ledger.pods.state[pod]]:
            ledger.move(pod, states.SUCCEEDED)
