"""Why a pod has no place now, in numbers, on the node that comes nearest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scheduler_service.ledger.nodes import NodeTable
from scheduler_service.ledger.shape import MEMORY, MIG_PREFIX, Shape
from scheduler_service.model.quantities import gpu_words, mib_words
from scheduler_service.model.reasons import (
    AffinityUnmet,
    ClaimUnusable,
    GpuMemoryUnknown,
    HeldBack,
    NeverFits,
    NoMatchingNode,
    NotEnoughOnNode,
    Reason,
)
from scheduler_service.model.waiting import NodeResource
from scheduler_service.planning import mixed, static_fit
from scheduler_service.planning.board import Board

WHOLE_GPU = 1000
COLUMNS = {"cpu": "idle_cpu", "memory": "idle_memory", "pods": "idle_slots"}
"""Where the book keeps what is free of a resource, of those that have a column of their own."""


@dataclass(slots=True)
class Need:
    """One resource of a request: how much, and what a node offers and has left of it."""

    resource: NodeResource
    amount: int
    detail: str = ""


@dataclass(slots=True)
class Unfit:
    """Answers per shape, kept until the next statement."""

    board: Board
    _known: dict[tuple[int, int], Reason] = field(default_factory=dict)
    _largest: dict[tuple[str, str], int] = field(default_factory=dict)
    """By resource: the most that any node offers."""

    def reason(self, pod: int) -> Reason:
        """Return why a pod fits on no node now."""
        key = (self.board.ledger.pods.shape[pod], len(self.board.statements))
        if key not in self._known:
            self._known[key] = _reason(self.board, self.board.ledger.shape_of(pod))
        return self._known[key]

    def never(self, pods: Iterable[int]) -> NeverFits | None:
        """Return what one of the pods asks for and no node has at all, whatever else is in the way."""
        ledger = self.board.ledger
        for number in dict.fromkeys(ledger.pods.shape[pod] for pod in pods):  # in their order
            for need in _needs(ledger.shapes.shapes[number]):
                largest = self._most_offered(need)
                is_unknown = need.resource == "gpu_memory" and not largest
                if largest < need.amount and not is_unknown:
                    return NeverFits(need.resource, need.amount, largest, need.detail)
        return None

    def _most_offered(self, need: Need) -> int:
        detail = "" if need.resource == "devices" else need.detail
        key, nodes = (need.resource, detail), self.board.ledger.nodes
        if key not in self._largest:
            offered = (_offered(nodes, row, need) for row in nodes.live_rows())
            self._largest[key] = max(offered, default=0)
        return self._largest[key]


def _reason(board: Board, shape: Shape) -> Reason:
    held_back = next((veto for veto in shape.vetoes if veto.by and veto.nodes is None), None)
    if held_back is not None:
        return HeldBack(held_back.by, held_back.why)
    nodes = board.ledger.nodes
    allowed, refusal = _allowed_rows(board, shape)
    if not allowed:
        unknown = shape.kind == MEMORY and refusal.why == static_fit.UNKNOWN_GPU_MEMORY
        return GpuMemoryUnknown() if unknown else refusal
    needs = _needs(shape)
    for need in needs:
        largest = max(_offered(nodes, row, need) for row in allowed)
        if largest < need.amount:
            return NeverFits(need.resource, need.amount, largest, need.detail)
    nearest = max(allowed, key=lambda row: _nearness(nodes, row, shape, needs))
    for need in needs:
        free, amount = _free(nodes, nearest, shape, need), _amount(nodes, nearest, shape, need)
        if free < amount:
            name = nodes.name_of(nearest)
            return NotEnoughOnNode(need.resource, amount, max(0, free), name, need.detail)
    return _by_rules(board, shape)


def _by_rules(board: Board, shape: Shape) -> Reason:
    """Return the reason where resources are not it: claims, then rules about other pods."""
    if shape.claims:
        return ClaimUnusable(shape.claims[0], "has its devices on another node, or they are taken")
    for anti, terms in ((False, shape.pod_affinity), (True, shape.pod_anti_affinity)):
        for term in terms:
            if term.weight is None:
                return AffinityUnmet(anti, term.topology_key)
    if board.ledger.affinity_pods:
        return AffinityUnmet(anti=True, topology_key="node")
    return NoMatchingNode("its rules leave none of those with room")


def _allowed_rows(board: Board, shape: Shape) -> tuple[list[int], NoMatchingNode]:
    """Return the rows that labels, taints, roles and GPU types allow, and what rules out most."""
    nodes = board.ledger.nodes
    has_mig = any(name.startswith(MIG_PREFIX) for name, _ in shape.extras)
    by_class: dict[int, str | None] = {}
    allowed: list[int] = []
    refused: dict[str, int] = {}
    for row in nodes.live_rows():
        number = nodes.class_of[row]
        if number not in by_class:
            by_class[number] = static_fit.unfit(nodes, row, shape, board.policy)
        why = by_class[number]
        if why is None and shape.vetoes:
            why = static_fit.vetoed(nodes.name_of(row), shape)
        if why is None and nodes.legacy_mig.get(row) and has_mig:
            why = "pods in the old MIG style run there"
        if why is None:
            allowed.append(row)
        else:
            refused[why] = refused.get(why, 0) + 1
    if not refused:
        return allowed, NoMatchingNode("there is none")
    why = max(refused, key=lambda word: (refused[word], word))
    return allowed, NoMatchingNode(why, refused[why], sum(refused.values()))


def _needs(shape: Shape) -> list[Need]:
    needs: list[Need] = []
    if shape.gpus:
        needs.append(Need("gpu", shape.gpus * 1000))
    if shape.is_shared:
        if shape.devices > 1:
            part = mib_words(shape.mib) if shape.kind == MEMORY else gpu_words(shape.milli)
            needs.append(Need("devices", shape.devices, part))
        elif shape.kind == MEMORY:
            needs.append(Need("gpu_memory", shape.mib))
        else:
            needs.append(Need("gpu", shape.milli))
    for name, amount in shape.extras:
        kind: NodeResource = "mig" if name.startswith(MIG_PREFIX) else "extended"
        needs.append(Need(kind, amount, name.removeprefix(MIG_PREFIX)))
    needs.extend((Need("cpu", shape.milli_cpu), Need("memory", shape.memory_bytes)))
    needs.append(Need("pods", 1))
    return needs


def _name_of(need: Need) -> str:
    return f"{MIG_PREFIX}{need.detail}" if need.resource == "mig" else need.detail


def _offered(nodes: NodeTable, row: int, need: Need) -> int:
    node = nodes.models[row]
    if node is None:
        return 0
    table = {
        "gpu": nodes.gpus[row] * 1000,
        "gpu_memory": _largest(nodes, row) if nodes.gpus[row] and node.gpu_memory_mib else 0,
        "devices": nodes.gpus[row],
        "cpu": node.milli_cpu - node.foreign_milli_cpu,
        "memory": node.memory_bytes - node.foreign_memory_bytes,
        "pods": node.max_pods - node.foreign_pods,
        "mig": node.mig.get(need.detail, 0),
        "extended": node.extended.get(need.detail, 0),
    }
    return table[need.resource]


def _free(nodes: NodeTable, row: int, shape: Shape, need: Need) -> int:
    column = COLUMNS.get(need.resource)
    if column is not None:
        free: int = getattr(nodes, column)[row]
        return free
    if need.resource == "gpu":
        return _free_milli(nodes, row, need.amount)
    if need.resource == "gpu_memory":
        return _free_memory(nodes, row)
    if need.resource == "devices":
        return _free_devices(nodes, row, shape)
    return nodes.idle_extra[row].get(_name_of(need), 0)


def _amount(nodes: NodeTable, row: int, shape: Shape, need: Need) -> int:
    """Return how much is needed there: each GPU that is opened for parts takes a slot of its own."""
    if need.resource != "pods" or not shape.is_shared:
        return need.amount
    return need.amount + max(0, shape.devices - _fitting(nodes, row, shape))


def _whole(nodes: NodeTable, row: int) -> int:
    """Return the whole GPUs that are free and promised to nobody."""
    return max(0, min(nodes.idle_gpu[row], nodes.all_gpu[row]))


def _largest(nodes: NodeTable, row: int) -> int:
    """Return the memory of the largest GPU of a node."""
    return max(nodes.sizes.get(row, {}).values(), default=nodes.gpu_memory[row])


def _rooms(nodes: NodeTable, row: int) -> list[tuple[int, int]]:
    """Return free memory and size of each GPU that is shared and stays so; an emptied one is whole again."""
    sized = (
        (nodes.size_of(row, device), share)
        for device, share in nodes.shared[row].items()
        if share.staying + share.promised > 0
    )
    return [(size - sum(share), size) for size, share in sized]


def _free_milli(nodes: NodeTable, row: int, wanted: int) -> int:
    """Return the free whole GPUs in thousandths; for less than a GPU, the freest single one."""
    whole = _whole(nodes, row) * 1000
    if whole or wanted >= WHOLE_GPU:
        return whole
    return max((room * 1000 // size for room, size in _rooms(nodes, row)), default=0)


def _free_devices(nodes: NodeTable, row: int, shape: Shape) -> int:
    """Return how many GPUs have room for one share."""
    fitting = _fitting(nodes, row, shape)
    if row not in nodes.sizes:
        return _whole(nodes, row) + fitting
    return min(_whole(nodes, row), len(mixed.free(nodes, row, shape, later=False))) + fitting


def _fitting(nodes: NodeTable, row: int, shape: Shape) -> int:
    """Return how many shared GPUs have room for one share."""
    return sum(room >= shape.need_on(size) for room, size in _rooms(nodes, row))


def _free_memory(nodes: NodeTable, row: int) -> int:
    if _whole(nodes, row) > 0:
        return mixed.largest_free(nodes, row) if row in nodes.sizes else nodes.gpu_memory[row]
    return max((room for room, _ in _rooms(nodes, row)), default=0)


def _nearness(
    nodes: NodeTable, row: int, shape: Shape, needs: Sequence[Need]
) -> tuple[int, int, int, int]:
    """Return how much of the request a node could serve; ties by rank, the smaller name better."""
    served = sum(
        _free(nodes, row, shape, need) >= _amount(nodes, row, shape, need) for need in needs
    )
    gpu = _free_milli(nodes, row, shape.milli or 1000) if shape.kind else 0
    return served, gpu, nodes.idle_cpu[row], -nodes.ranks()[row]
