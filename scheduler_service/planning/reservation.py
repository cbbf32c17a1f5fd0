"""For whom room is kept: the first group in the order that has waited long for more than is free.

Otherwise a steady stream of smaller work takes each GPU as it gets free, and a large group never
sees enough at once. Found by letting those that run end one after another (as they said, then,
if they did not say, the emptiest nodes first) until the group fits. Others may use what is kept
if they end before that moment. One reservation a cycle; no memory: it follows from the book.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.queues import Amounts
from scheduler_service.ledger.shape import WHOLE
from scheduler_service.model.policy import Policy
from scheduler_service.model.reasons import (
    GpuMemoryUnknown,
    NeverFits,
    NoMatchingNode,
    NonPreemptibleOverQuota,
    OverLimit,
    Reason,
    RoomKept,
)
from scheduler_service.planning import capacity_check, tree
from scheduler_service.planning.board import Board
from scheduler_service.planning.kept import Kept, Later, later
from scheduler_service.planning.placement import Placer
from scheduler_service.planning.tree import Chunk

MOST_HEADS = 3
"""Groups for which a reservation is looked for in one cycle."""
MOST_NODES = 256
"""Nodes that are looked at: those with the most free."""
CLOSE_LOOK = 16
"""After so many tries only every eighth ending is followed by one."""
NEVER = (GpuMemoryUnknown, NeverFits, NoMatchingNode)


class Batch(NamedTuple):
    """Pods that end at one moment, None = nobody knows when."""

    end_ms: int | None
    pods: Sequence[int]


def keeps_by_guess(policy: Policy, waited_ms: int) -> bool:
    """Say whether room is kept though nobody knows when there is enough: longer each time."""
    step, pause = policy.reserve_for_ms, policy.reserve_after_ms
    if step <= 0:
        return False
    left, window = waited_ms - pause, step
    while left >= window + pause:
        left -= window + pause
        window += step
    return 0 <= left < window


def next_turn_ms(policy: Policy, waited_ms: int) -> int:
    """Return after how much more waiting room begins, or ends, to be kept by guess."""
    step, pause = policy.reserve_for_ms, policy.reserve_after_ms
    if waited_ms < pause or step <= 0:
        return pause - waited_ms
    left, window = waited_ms - pause, step
    while left >= window + pause:
        left -= window + pause
        window += step
    return window - left if left < window else window + pause - left


class Keeper:
    """Makes at most one reservation in a cycle."""

    __slots__ = ("_board", "_left")

    def __init__(self, board: Board) -> None:
        self._board = board
        self._left = MOST_HEADS if board.policy.reserve_after_ms > 0 else 0

    def consider(self, group: Group, chunk: Chunk) -> None:
        """Keep room for a group that found none, if it has waited for long enough."""
        board = self._board
        if not self._left or board.kept is not None or not _is_due(board, group):
            return
        self._left -= 1
        found = _Search(board, group, chunk).kept()
        if found is None:
            return
        found.book()
        board.kept = found
        ranks = board.ledger.nodes.ranks()
        row = max(found.nodes, key=lambda row: (found.nodes[row], -ranks[row]))
        left = None if found.until_ms is None else found.until_ms - board.now_ms
        name = board.ledger.nodes.name_of(row)
        board.say("allocate", group, RoomKept(name, len(found.nodes), left))


def _is_due(board: Board, group: Group) -> bool:
    if group.model.waited_ms(board.now_ms) < board.policy.reserve_after_ms:
        return False
    if tree.is_satisfied(group):
        return False
    reasons = board.reasons.get(group.key, {}).get("allocate", ())
    return not any(map(_is_for_good, reasons))


def _is_for_good(reason: Reason) -> bool:
    """Say whether the group waits for what no ending changes."""
    if isinstance(reason, OverLimit):
        return reason.requested > reason.limit
    if isinstance(reason, NonPreemptibleOverQuota):
        return reason.requested > reason.quota
    return isinstance(reason, NEVER)


@dataclass(slots=True)
class _Search:
    board: Board
    group: Group
    chunk: Chunk

    def kept(self) -> Kept | None:
        """Return what to keep, None if the group would not fit even then."""
        board, ledger = self.board, self.board.ledger
        rows = self._rows()
        now = {row: later(ledger.nodes, row) for row in rows}
        path = ledger.queues.paths[self.group.queue]
        held = {row: ledger.queues.allocated[row] for row in path}
        firm = {row: ledger.queues.non_preemptible[row] for row in path}
        may_guess = keeps_by_guess(board.policy, self.group.model.waited_ms(board.now_ms))
        mark, tries = board.checkpoint(), 0
        batches = list(self._batches(rows))
        for number, batch in enumerate(batches, start=1):
            if batch.end_ms is None and not may_guess:
                break
            for pod in batch.pods:
                pods = ledger.pods
                ledger.move(pod, states.RELEASING, pods.node[pod], pods.devices[pod])
            is_last = number == len(batches)
            if (tries > CLOSE_LOOK and number % 8 and not is_last) or not self._may_fit(rows):
                continue
            tries += 1
            needs = self._needs()
            if needs is not None:
                nodes = {
                    row: _kept(need, later(ledger.nodes, row), now[row]) for row, need in needs
                }
                limits, quotas = self._bounds(held, firm)
                free = {row: self._unshared(row) for row, need in needs if need[0]}
                board.rollback(mark)
                closed = {
                    row: tuple(device for device in names if self._is_shared(row, device))
                    for row, names in free.items()
                }
                return Kept(ledger, self.group.key, batch.end_ms, nodes, limits, quotas, closed)
        board.rollback(mark)
        return None

    def _unshared(self, row: int) -> list[str]:
        """Return the GPUs of a node that nobody will be on."""
        table = self.board.ledger.nodes.shared[row]
        return [device for device, on_it in table.items() if not on_it.staying + on_it.promised]

    def _is_shared(self, row: int, device: str) -> bool:
        return self.board.ledger.nodes.shared[row][device].staying > 0

    def _rows(self) -> list[int]:
        """Return the nodes to look at, those with the most free first."""
        nodes = self.board.ledger.nodes
        column = nodes.all_gpu if self._wants_gpus() else nodes.all_cpu
        order = np.lexsort(
            (np.frombuffer(nodes.ranks(), dtype=np.int64), -np.frombuffer(column, dtype=np.int64))
        )
        found = (row for row in order.tolist() if nodes.models[row] is not None)
        return [row for row, _ in zip(found, range(MOST_NODES), strict=False)]

    def _wants_gpus(self) -> bool:
        ledger = self.board.ledger
        return any(ledger.shape_of(pod).asked[2:] != (0, 0) for pod in self.chunk.members())

    def _batches(self, rows: list[int]) -> Iterator[Batch]:
        """Yield who ends next: those who said when, then the others, node by node."""
        ledger, board = self.board.ledger, self.board
        by_end: dict[int, list[int]] = {}
        by_node: dict[int, list[int]] = {row: [] for row in rows}
        for _, pod in sorted(ledger.pods.row_of.items()):
            node = ledger.pods.node[pod]
            if node not in by_node or not states.IS_ALLOCATED[ledger.pods.state[pod]]:
                continue
            group = ledger.group_of(pod)
            if group is self.group:
                continue
            end = None if group is None else _end_ms(board, group, ledger.pods.state[pod])
            (by_node[node] if end is None else by_end.setdefault(end, [])).append(pod)
        yield from (Batch(end, by_end[end]) for end in sorted(by_end))
        yield from (Batch(None, pods) for pods in by_node.values() if pods)

    def _may_fit(self, rows: list[int]) -> bool:
        """Say whether pods that want whole GPUs could have them; never no wrongly."""
        ledger = self.board.ledger
        shapes = [ledger.shape_of(pod) for pod in self.chunk.members()]
        wanted = [shape.gpus for shape in shapes if shape.kind == WHOLE]
        if not wanted:
            return True
        free = np.maximum(np.frombuffer(ledger.nodes.all_gpu, dtype=np.int64)[rows], 0)
        return int((free // min(wanted)).sum()) >= len(wanted) and int(free.sum()) >= sum(wanted)

    def _needs(self) -> list[tuple[int, Later]] | None:
        """Return what the group takes of each node, None if it does not fit."""
        board, ledger = self.board, self.board.ledger
        if capacity_check.chunk_exceeds(board, self.group, self.chunk) is not None:
            return None
        mark, nodes = board.checkpoint(), ledger.nodes
        placer = Placer(board, self.group, board.all_nodes, simulated=True)
        if not placer.place(self.chunk):
            board.rollback(mark)
            return None
        rows = sorted({ledger.pods.node[pod] for pod in placer.placed})
        after = [later(nodes, row) for row in rows]
        board.rollback(mark)
        return [
            (row, _less(later(nodes, row), left)) for row, left in zip(rows, after, strict=True)
        ]

    def _bounds(
        self, held: dict[int, Amounts], firm: dict[int, Amounts]
    ) -> tuple[dict[int, Amounts], dict[int, Amounts]]:
        """Return what to keep of limits and quotas: what is asked and does not come back by itself."""
        board, queues = self.board, self.board.ledger.queues
        asked = board.sizes.least(board.asked_by(self.chunk))
        limits = {row: _missing(asked, held[row], queues.allocated[row]) for row in held}
        if not capacity_check.must_fit_quota(self.group):
            return limits, {}
        quotas = {row: _missing(asked, firm[row], queues.non_preemptible[row]) for row in firm}
        return limits, quotas


def _end_ms(board: Board, group: Group, state: int) -> int | None:
    """Return when a group said that it ends; None if it did not, or is still there after that."""
    if group.model.run_ms is None:
        return None
    began = group.model.started_ms if state == states.RUNNING else board.now_ms
    if began is None or began + group.model.run_ms <= board.now_ms:
        return None
    return began + group.model.run_ms


def _less(one: Later, two: Later) -> Later:
    return one[0] - two[0], one[1] - two[1], one[2] - two[2], one[3] - two[3]


def _kept(need: Later, then: Later, now: Later) -> Later:
    """Return what is needed of a node beyond what gets free by itself."""
    short = _less(need, _less(then, now))
    return max(0, short[0]), max(0, short[1]), max(0, short[2]), max(0, short[3])


def _missing(asked: Amounts, held: Amounts, then: Amounts) -> Amounts:
    cpu, memory, gpu = (max(0, asked[i] - held[i] + then[i]) for i in range(3))
    return cpu, memory, gpu
