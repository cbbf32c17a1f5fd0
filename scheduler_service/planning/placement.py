"""Places a chunk: all of its pods, or nothing.

Each pod takes the best node that may have it; there is no going back over single nodes, only over
the node sets that topology constraints offer. In a simulation everything is promised, never
bound. The caller holds a checkpoint and rolls back a failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group, Leaf
from scheduler_service.ledger.pods import Devices
from scheduler_service.ledger.queues import Asked
from scheduler_service.ledger.shape import MEMORY, Shape
from scheduler_service.ledger.starts import Run
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.model.reasons import ClaimUnusable, Reason
from scheduler_service.planning import (
    affinity,
    capacity_check,
    devices,
    fragmentation,
    judge,
    mixed,
    topology_fit,
    tree,
)
from scheduler_service.planning.board import Board, NodeSet
from scheduler_service.planning.finder import Finder, finder_for
from scheduler_service.planning.tree import Chunk

FEW = 4
"""So many alike pods are placed node by node."""
MANY = 32
"""From so many pods on it is worth to count first whether all of them fit."""


@dataclass(slots=True)
class Placer:
    """One attempt to place chunks of a group; tells afterwards how far it came."""

    board: Board
    group: Group
    nodes: NodeSet
    simulated: bool = False
    placed: list[int] = field(default_factory=list)
    furthest: int = 0
    stuck_pod: int | None = None
    is_measured: bool = False
    """Whether memory is placed: it may cost more than was thought, so what follows is checked."""
    reasons: list[Reason] = field(default_factory=list)

    def place(self, chunk: Chunk) -> bool:
        """Place all pods of a chunk; on failure the caller rolls back."""
        if chunk.children or chunk.sub_group.topology is not None:
            return self._place(chunk, self.nodes)
        return self._fill(chunk, self.nodes)

    def _place(self, chunk: Chunk, node_set: NodeSet) -> bool:
        if chunk.sub_group.topology is None:
            return self._fill(chunk, node_set)
        choices = topology_fit.subsets(self.board, self.group, chunk, node_set)
        if not isinstance(choices, Iterable):
            if choices not in self.reasons:
                self.reasons.append(choices)
            return False
        for choice in choices:
            mark, before = self.board.checkpoint(), len(self.placed)
            if self._fill(chunk, choice):
                return True
            self.board.rollback(mark)
            del self.placed[before:]
        return False

    def _fill(self, chunk: Chunk, node_set: NodeSet) -> bool:
        if chunk.children:
            return all(self._place(child, node_set) for child in chunk.children)
        if len(chunk.pods) >= MANY and node_set.rows is None and self._is_too_many(chunk.pods):
            return False
        pods = chunk.pods
        if len(pods) >= FEW and self._are_alike(pods):
            pods = pods[self._place_alike(pods, node_set) :]
        for pod in pods:
            if not self._place_pod(pod, node_set):
                if len(self.placed) >= self.furthest:
                    self.furthest, self.stuck_pod = len(self.placed), pod
                return False
            self.placed.append(pod)
        return bool(chunk.pods)

    def _is_too_many(self, pods: tuple[int, ...]) -> bool:
        """Say whether equal plain pods are more than fit in all, without placing them in vain."""
        ledger, board = self.board.ledger, self.board
        numbers = {ledger.pods.shape[pod] for pod in pods}
        shape = ledger.shape_of(pods[0])
        if len(numbers) > 1 or shape.is_rare or not shape.is_plain or shape.vetoes:
            return False
        room = judge.copies(board, shape, later=True)
        if room >= len(pods):
            return False
        if len(self.placed) + room >= self.furthest:
            self.furthest, self.stuck_pod = len(self.placed) + room, pods[room]
        return True

    def _are_alike(self, pods: tuple[int, ...]) -> bool:
        """Say whether all wait, ask for the same, and resources alone say where they may be."""
        ledger = self.board.ledger
        table, before = ledger.pods, ledger.before
        number = table.shape[pods[0]]
        shape = ledger.shapes.shapes[number]
        return (
            shape.is_plain
            and not shape.is_rare
            and not ledger.affinity_pods
            and not self.is_measured
            and self.group.model.preemptibility is Preemptibility.PREEMPTIBLE
            and all(
                table.shape[pod] == number
                and table.state[pod] == states.PENDING
                and pod not in before
                for pod in pods
            )
        )

    def _place_alike(self, pods: tuple[int, ...], node_set: NodeSet) -> int:
        """Place alike plain pods node by node, as far as that goes; return how many."""
        board, done = self.board, 0
        nodes, shape = board.ledger.nodes, board.ledger.shape_of(pods[0])
        finder = finder_for(board, pods[0], node_set)
        runs: list[Run] = []
        while done < len(pods):
            found = finder.best()
            if found is None:
                break
            row, now = found[0], found[1] and not self.simulated
            count = min(len(pods) - done, judge.repeats(board, shape, row, now=now))
            nodes.book_many(row, shape, count, now=now)
            runs.append(Run(row, count, now))
            done += count
        if done:
            board.start_many(self.group, pods[:done], runs)
            self.placed.extend(pods[:done])
        return done

    def _place_pod(self, pod: int, node_set: NodeSet) -> bool:
        board = self.board
        number = board.ledger.pods.shape[pod]
        shape = board.ledger.shapes.shapes[number]
        if self.is_measured and not shape.pending_mib and self._exceeds(board.asked((pod,))):
            return False
        finder = node_set.finders.get(number)
        if finder is None or shape.claims:
            finder = finder_for(board, pod, node_set)
        if not shape.is_plain or (board.ledger.affinity_pods and affinity.matters(board, pod)):
            found = self._choose_among(pod, shape, finder, node_set)
        else:
            found = finder.best()
        if found is None:
            return False
        row, fits_now = found
        ids: Devices = ()
        if shape.is_shared:
            ids, waits = self._devices(pod, row, shape)
            fits_now = fits_now and not waits
        if fits_now and not self.simulated:
            board.bind(pod, row, ids)
        else:
            board.promise(pod, row, ids)
        self.is_measured = self.is_measured or shape.pending_mib > 0
        return True

    def _exceeds(self, asked: Asked) -> bool:
        """Say whether one more pod goes beyond bounds, on top of what is placed."""
        over = capacity_check.exceeded(self.board, self.group, asked[:3])
        if over is not None and over not in self.reasons:
            self.reasons.append(over)
        return over is not None

    def _devices(self, pod: int, row: int, shape: Shape) -> tuple[Devices, bool]:
        """Return the GPUs of a node that a shared request takes, and whether it has to wait."""
        board = self.board
        nodes = board.ledger.nodes
        was = board.ledger.before.get(pod)
        own: Devices = ()
        if board.is_evicted_now(pod) and was is not None and was[1] == row:
            own = was[2]
        spread = board.policy.placement.shared_gpu == "spread"
        left = [name for name in own if not any(nodes.shared[row][name][::2])]

        def fresh(count: int) -> list[str]:
            return [*left, *board.fresh_devices(row, count)][:count]

        rank = fragmentation.device_rank(board, row, shape)
        chosen = devices.choose(nodes, row, shape, spread=spread, fresh=fresh, rank=rank)
        stays = bool(own) and set(chosen.devices) == set(own)
        return (own, True) if stays else (chosen.devices, chosen.waits)

    def _choose_among(
        self, pod: int, shape: Shape, finder: Finder, node_set: NodeSet
    ) -> tuple[int, bool] | None:
        """Return the best node that other pods, claims and per-node charges allow as well."""
        board = self.board
        if shape.claims and self._claims_unusable(pod, shape):
            return None
        rules = affinity.rules_for(board, pod) if affinity.matters(board, pod) else None
        if affinity.has_wishes(board, pod):
            rows = node_set.rows if node_set.rows is not None else board.ledger.nodes.live_rows()
            wishes = affinity.bonus_for(board, pod, rows)
            own = node_set.bonus or {}
            bonus = {row: wish * 100 + own.get(row, 0) for row, wish in wishes.items()}
            finder = Finder(board, shape, NodeSet(rows, bonus))
        for row, fits_now in finder.in_order():
            board.counts.nodes_examined += 1
            if shape.kind == MEMORY and self._exceeds_on(row, shape):
                continue
            now, later = rules(row) if rules is not None else (True, True)
            if later:
                return row, fits_now and now
        return None

    def _exceeds_on(self, row: int, shape: Shape) -> bool:
        """Say whether this node's GPUs make the request cost more than bounds allow."""
        charge = mixed.most_charged(self.board.ledger.nodes, row, shape)
        return self._exceeds((shape.milli_cpu, shape.memory_bytes, charge, 0))

    def _claims_unusable(self, pod: int, shape: Shape) -> bool:
        ledger = self.board.ledger
        namespace = ledger.pods.models[pod].namespace
        for name in shape.claims:
            why = ledger.claims.unusable(f"{namespace}/{name}", self.group.model.queue)
            if why is not None:
                reason = ClaimUnusable(name, why)
                if reason not in self.reasons:
                    self.reasons.append(reason)
                return True
        return False


def must_wait_whole(group: Group) -> bool:
    """Say whether promised pods make the whole gang wait: without them it is below its minimum."""
    if group.is_flat and not group.leaf.counts[states.PIPELINED]:
        return False
    leaves = group.leaves.values()
    if not any(leaf.counts[states.PIPELINED] for leaf in leaves):
        return False
    if any(
        leaf.counts[states.PIPELINED] and _bound(leaf) < leaf.spec.min_members for leaf in leaves
    ):
        return True
    return not tree.has_enough(group, group.model.gang, _bound)


def _bound(leaf: Leaf) -> int:
    return tree.having(leaf) - leaf.counts[states.PIPELINED]


def make_wait(board: Board, pods: list[int]) -> None:
    """Turn bindings of the statement that is being tried into promises of the same places."""
    table = board.ledger.pods
    for pod in pods:
        if table.state[pod] == states.BINDING:
            board.ledger.move(pod, states.PIPELINED, table.node[pod], table.devices[pod])
