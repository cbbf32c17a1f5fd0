"""Least fragmentation against its definition, slow and plain, on random clusters."""

from fractions import Fraction
from functools import partial

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bench import shapes
from scheduler_service.ledger import states
from scheduler_service.ledger.shape import WHOLE
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.policy import Placement, Policy
from scheduler_service.planning import fragmentation, static_fit
from scheduler_service.planning.board import Board, NodeSet
from scheduler_service.planning.cycle import plan
from scheduler_service.planning.finder import Finder, finder_of
from scheduler_service.planning.placement import Placer
from scheduler_service.planning.requests import GPU, requests_of
from scheduler_service.planning.splitting import Split
from scheduler_service.planning.tree import Chunk
from tests.properties.clusters import NOW_MS, Cluster, cluster, clusters

LEAST = Policy(
    placement=Placement("least_fragmentation", "least_fragmentation"), actions=("allocate",)
)
PROFILE = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


class Plainly:
    """What a place costs, as the definition says it."""

    def __init__(self, board: Board) -> None:
        self.board, self.nodes = board, board.ledger.nodes
        self.requests = requests_of(board)
        self.total = max(1, sum(request.weight for request in self.requests))
        sizes = [(r.size, r.weight * r.gpus) for r in self.requests if r.size < GPU]

        def told_by(piece: int) -> tuple[Fraction, int]:
            split = Split(piece)
            return Fraction(sum(w * split.value(s) for s, w in sizes), split.pieces), piece

        there = [node for node in self.nodes.models if node is not None]
        self.most_cpu = max(node.milli_cpu for node in there)
        self.most_gpu = max(1, *(node.gpus for node in there)) * GPU

        self.split = Split(max({s for s, _ in sizes if s <= 500} or {500}, key=told_by))

    def left(self, row: int) -> list[int]:
        """Return what is left of each GPU of a node that is free or shared."""
        memory = self.nodes.gpu_memory[row]
        shared = [
            max(0, (memory - share.staying - share.promised) * GPU // memory)
            for share in self.nodes.shared[row].values()
            if share.staying + share.promised
        ]
        return shared + [GPU] * max(0, self.nodes.all_gpu[row])

    def fragments(self, row: int, left: list[int], cpu: int, memory: int) -> int:
        lost = 0
        for request in self.requests:
            room = [part for part in left if part >= request.size]
            hosted = (
                cpu >= request.milli_cpu
                and memory >= request.memory_bytes
                and static_fit.unfit(self.nodes, row, request.shape, self.board.policy) is None
                and len(room) >= (request.gpus if request.size == GPU else 1)
            )
            used = sum(room) if hosted else 0
            lost += request.weight * (sum(left) - used)
        return lost

    def cost(self, row: int, shape) -> int:
        """Return the cost of the best GPUs of a node on which the shape fits."""
        nodes, left = self.nodes, self.left(row)
        cpu, memory = nodes.all_cpu[row], nodes.all_memory[row]
        before = self.fragments(row, left, cpu, memory)
        cpu, memory = cpu - shape.milli_cpu, memory - shape.memory_bytes
        need = 0
        if shape.is_shared:
            need = shape.milli or min(GPU, -(-shape.mib * GPU // nodes.gpu_memory[row]))
            unchanged = self.fragments(row, left, cpu, memory)
            choices = []
            for index, part in enumerate(left):
                if part >= need:
                    after = [*left[:index], part - need, *left[index + 1 :]]
                    growth = self.fragments(row, after, cpu, memory) - unchanged
                    choices.append(
                        growth * 1000 // self.total + 10_000 * self.split.waste(part, need)
                    )
            cost = (unchanged - before) * 1000 // self.total
            cost += sum(sorted(choices)[: shape.devices])
        else:
            rest = left[: len(left) - shape.gpus] if shape.kind == WHOLE else left
            cost = (self.fragments(row, rest, cpu, memory) - before) * 1000 // self.total
        asked = shape.gpus * GPU + need * shape.devices
        kept = sum(left) - asked
        cost += 50_000 * cpu // self.most_cpu + 50_000 * kept // self.most_gpu
        return cost + fragmentation.costs(self.board).hosting.price(nodes.class_of[row]) * asked

    def device(self, row: int, shape) -> str | None:
        """Return the shared GPU of a node that a part takes: the least dear; None: a free one."""
        nodes, memory = self.nodes, self.nodes.gpu_memory[row]
        cpu = nodes.all_cpu[row] - shape.milli_cpu
        ram = nodes.all_memory[row] - shape.memory_bytes
        need = shape.need_on(memory)
        part = shape.milli or min(GPU, -(-shape.mib * GPU // memory))
        left = self.left(row)
        unchanged = self.fragments(row, left, cpu, ram)

        def dear(rest: int) -> int:
            after = left.copy()
            after[after.index(rest)] = max(0, rest - part)
            growth = self.fragments(row, after, cpu, ram) - unchanged
            return growth * 1000 // self.total + 10_000 * self.split.waste(rest, min(part, rest))

        choices: list[tuple[bool, int, bool, str]] = []
        for name, share in nodes.shared[row].items():
            stays, held = share.staying + share.promised, share.staying + share.leaving
            if 0 < stays <= memory - need:
                waits = held == 0 or held + need > memory
                choices.append((waits, dear((memory - stays) * GPU // memory), False, name))
        free = min(nodes.idle_gpu[row], nodes.all_gpu[row])
        if choices and free > 0 and nodes.all_slots[row] > 1:
            choices.append((False, dear(GPU), True, ""))
        return min(choices)[3] or None if choices else None


def board_of(cluster: Cluster, shared_gpu: str = "pack") -> Board:
    placement = msgspec.structs.replace(LEAST.placement, shared_gpu=shared_gpu)
    policy = msgspec.structs.replace(LEAST, placement=placement)
    return Board.of(Ledger.from_snapshot(cluster.snapshot), policy, NOW_MS)


@given(clusters())
@example(cluster(325, 1))  # one request alone in the book
@example(cluster(2991, 2))  # nodes that differ in nothing but the memory of their GPUs
@PROFILE
def test_a_place_costs_what_the_definition_says_and_the_index_finds_the_least(cluster: Cluster):
    board = board_of(cluster)
    ledger, plainly = board.ledger, Plainly(board)
    for _, pod in sorted(ledger.pods.row_of.items()):
        shape, group = ledger.shape_of(pod), ledger.group_of(pod)
        leaf = ledger.pods.leaf[pod]
        if ledger.pods.state[pod] != states.PENDING or group is None or leaf is None:
            continue
        number = ledger.pods.shape[pod]
        found = finder_of(board, number, board.all_nodes).best()
        anew = Finder(board, shape, NodeSet())
        assert found == anew.best()
        if not shape.extras:
            cost = fragmentation.costs(board).of(shape)
            for row, _ in anew.in_order():
                assert cost(row) == plainly.cost(row, shape)
        Placer(board, group, board.all_nodes).place(Chunk(leaf.spec, (pod,)))


def wrong_parts(cluster: Cluster, shared: str) -> list[str]:
    """Return the pods that take another GPU of their node than the definition says."""
    board = board_of(cluster, shared)
    ledger, plainly = board.ledger, Plainly(board)
    wrong: list[str] = []
    for number, (key, pod) in enumerate(sorted(ledger.pods.row_of.items())):
        shape, group, leaf = ledger.shape_of(pod), ledger.group_of(pod), ledger.pods.leaf[pod]
        if ledger.pods.state[pod] != states.PENDING or group is None or leaf is None:
            continue
        mark, chunk = board.checkpoint(), Chunk(leaf.spec, (pod,))
        placer = partial(Placer, board, group, board.all_nodes, simulated=number % 2 > 0)
        if not placer().place(chunk) or not shape.is_shared:
            continue
        row, taken = ledger.pods.node[pod], ledger.pods.devices[pod]
        board.rollback(mark)
        if shape.devices == 1:
            wanted = plainly.device(row, shape)
            is_right = taken == (wanted,) if wanted else taken[0] not in ledger.nodes.shared[row]
            wrong += [] if is_right else [key]
        placer().place(chunk)
    return wrong


@given(clusters(), st.sampled_from(["pack", "spread"]))
@PROFILE
def test_a_part_takes_the_gpu_of_its_node_that_the_definition_says(cluster: Cluster, shared: str):
    assert not wrong_parts(cluster, shared)


@given(clusters())
@example(cluster(65284, 1))  # whole GPUs, and memory that only one node is known to have
@PROFILE
def test_the_order_of_input_changes_no_plan(cluster: Cluster):
    snapshot = cluster.snapshot
    turned = msgspec.structs.replace(
        snapshot,
        nodes=snapshot.nodes[::-1],
        pods=snapshot.pods[::-1],
        pod_groups=snapshot.pod_groups[::-1],
    )
    one, two = (plan(Ledger.from_snapshot(s), LEAST, NOW_MS) for s in (snapshot, turned))

    assert one.statements == two.statements


def test_a_decision_looks_again_only_at_what_changed():
    whole = plan(Ledger.from_snapshot(shapes.pending(2000, 300)), LEAST, 0)
    parts = plan(Ledger.from_snapshot(shapes.fractions(500, 1000)), LEAST, 0)

    assert len(whole.operations()) == 300
    assert whole.work.nodes_examined <= 2000 + 300
    assert len(parts.operations()) == 1000
    assert parts.work.nodes_examined <= 3 * 500 + 2 * 1000
