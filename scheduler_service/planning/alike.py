"""One for one, many at once: a group won the place of a victim, and so will those behind it.

Where the groups that wait behind and the victims that come next are lone pods of the same shape as
the first two, each of them gets the place that the next victim leaves; no node changes. With each
such swap the winner's queue holds more and the giver's less, so every rule that could forbid it
(shares, limits, whose turn it is) turns from yes to no at most once: the last swap is judged, on
the sums as they would be, and those before it follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.shape import WHOLE
from scheduler_service.ledger.swap import shift, swap
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.planning import candidates, capacity_check
from scheduler_service.planning.board import Board
from scheduler_service.planning.finder import finder_for
from scheduler_service.planning.judge import allowed_by
from scheduler_service.planning.ordering import GroupOrder
from scheduler_service.planning.settling import Settling
from scheduler_service.planning.tree import Chunk
from scheduler_service.planning.victims import Entry, Pool, Step

Pair = tuple[Group, int, Group, int]
"""A waiting group and its pod, a victim group and its pod."""


@dataclass(frozen=True, slots=True)
class Swaps:
    """The swaps that may follow one that was granted: `group` won a place with `chunk`."""

    board: Board
    order: GroupOrder
    settling: Settling
    pool: Pool
    group: Group
    chunk: Chunk

    def pairs(self, giver: int) -> list[Pair]:
        """Return who could swap next: waiting groups with victims of `giver`, in order."""
        board, queue = self.board, self.group.queue
        ledger = board.ledger
        pods = self.chunk.members()
        if len(pods) != 1 or ledger.affinity_pods:
            return []
        number = ledger.pods.shape[pods[0]]
        shape = ledger.shapes.shapes[number]
        if shape.kind != WHOLE or not shape.is_plain or self.pool.has_min_runtimes:
            return []
        if finder_for(board, pods[0], board.all_nodes).best() is not None:
            return []
        waiting = self.settling.only_waiting(queue)
        behind, victims = self.order.only_stack(queue), self.pool.stack(giver)
        found: list[Pair] = []
        has_place = self._has_place(number)
        for (_, group), turned, entry in zip(
            reversed(behind), waiting, reversed(victims), strict=False
        ):
            winner, victim = _waits_alone(board, group, number), _runs_alone(board, entry, number)
            if group is not turned or winner < 0 or victim < 0 or not has_place(victim):
                break
            found.append((group, winner, entry.group, victim))
        return found

    def _has_place(self, number: int) -> Callable[[int], bool]:
        """Return whether a pod of this shape may be where another is, once that has left."""
        board, nodes = self.board, self.board.ledger.nodes
        allowed = allowed_by(board, board.ledger.shapes.shapes[number])
        columns = (nodes.all_gpu, nodes.all_cpu, nodes.all_memory, nodes.all_slots)
        node_of = board.ledger.pods.node
        known: dict[int, bool] = {}

        def has_place(pod: int) -> bool:
            row = node_of[pod]
            answer = known.get(row)
            if answer is None:
                is_free = all(column[row] >= 0 for column in columns)
                answer = known[row] = is_free and allowed(row)
            return answer

        return has_place

    def allowed(self, pairs: list[Pair], is_allowed: Callable[[Step], bool]) -> int:
        """Return how many of the pairs may swap, one after another."""
        low, high = 0, len(pairs)
        if not pairs or self._passes(high, pairs, is_allowed):
            return high
        while high - low > 1:
            middle = (low + high) // 2
            if self._passes(middle, pairs, is_allowed):
                low = middle
            else:
                high = middle
        return low

    def _passes(self, count: int, pairs: list[Pair], is_allowed: Callable[[Step], bool]) -> bool:
        """Say whether the last of so many swaps would be granted, those before it done."""
        board = self.board
        board.counts.simulations += 1
        _, winner, group, victim = pairs[count - 1]
        charge = board.ledger.pods.charge[victim]
        mark = board.checkpoint()
        shift(board.ledger, victim, winner, count - 1)
        passes = is_allowed(Step(group, (victim,), (charge,)))
        shape = board.ledger.shape_of(victim)
        gone = (-shape.milli_cpu, -shape.memory_bytes, -charge)
        board.ledger.queues.add_allocated(group.queue, gone, non_preemptible=False)
        passes = (
            passes
            and self.settling.goes_first(self.group, self.chunk, group)
            and capacity_check.chunk_exceeds(board, self.group, self.chunk) is None
        )
        board.rollback(mark)
        return passes

    def carry_out(self, pairs: list[Pair]) -> None:
        """Swap all pairs, and take them out of all lists."""
        board, count = self.board, len(pairs)
        swap(board.ledger, ([pair[3] for pair in pairs], [pair[1] for pair in pairs]))
        self.order.drop(self.group.queue, count)
        self.pool.drop(pairs[0][2].queue, count)
        self.settling.drop(self.group.queue, count)
        board.counts.groups_tried += count
        board.counts.victims_walked += count


def _waits_alone(board: Board, group: Group, number: int) -> int:
    """Return the pod of a group that is nothing but one waiting pod of this shape; -1 if not."""
    ledger, pod = board.ledger, candidates.lone_pending(board, group)
    if pod < 0 or ledger.pods.shape[pod] != number or pod in ledger.before:
        return -1
    return pod


def _runs_alone(board: Board, entry: Entry, number: int) -> int:
    """Return the pod of a victim that is nothing but one running pod of this shape; -1 if not."""
    ledger, pod = board.ledger, entry.only_pod()
    if (
        pod is None
        or ledger.pods.state[pod] != states.RUNNING
        or ledger.pods.shape[pod] != number
        or pod in ledger.before
        or entry.group.topology is not None
        or entry.group.model.preemptibility is not Preemptibility.PREEMPTIBLE
    ):
        return -1
    return pod
