"""Least fragmentation: work goes where it costs least of the room that others can still use.

What a place costs, in millionths of a GPU, is the sum of four things. 1. How much the fragments of
the node grow: the free GPU parts that a request, drawn from those that are known, could not use
there. 2. What the split of a GPU wastes (`splitting`). 3. Fullness, so that empty nodes stay
empty. 4. The price of the node's kind, where requests name kinds that are scarce.

Fragments are those of "Beware of Fragmentation" (USENIX ATC'23); the requests known are those of
all pods in the book. The same book gives the same costs: nothing is kept from cycle to cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from scheduler_service.ledger.shape import NO_GPU, Shape
from scheduler_service.planning.board import Board
from scheduler_service.planning.hosting import Hosting, Hosts
from scheduler_service.planning.requests import GPU, requests_of
from scheduler_service.planning.splitting import Split, best_split

MILLIONTHS = 1000
"""Costs are in millionths of a GPU, amounts in thousandths."""
WASTE = 10
"""How much more what a split wastes for sure counts than what a request may not find."""
FULLNESS = 50_000
"""What an empty largest node costs more than a full one: once for its CPU, once for its GPUs."""
NAME = "least_fragmentation"

NO_PARTS: tuple[int, ...] = ()


def decides(board: Board, shape: Shape) -> bool:
    """Say whether pods of this shape go where fragments grow least."""
    placement = board.policy.placement
    is_cpu = shape.kind == NO_GPU and not board.ledger.claims.gpus(shape.namespace, shape)
    return (placement.cpu if is_cpu else placement.gpu) == NAME


def costs(board: Board) -> Costs:
    """Return the costs of this plan, made when first needed."""
    if board.costs is None:
        board.costs = Costs(board)
    found: Costs = board.costs
    return found


def device_rank(board: Board, row: int, shape: Shape) -> Callable[[int], int] | None:
    """Return how dear a GPU with so much left (thousandths) is on a node; None: not asked for."""
    if shape.devices != 1 or not decides(board, shape):
        return None
    return costs(board).of_device(row, shape)


class Costs:
    """What places cost, by the requests that the book knows at the beginning of a plan."""

    def __init__(self, board: Board) -> None:
        nodes = board.ledger.nodes
        self.nodes = nodes
        requests = requests_of(board)
        self.total = max(1, sum(request.weight for request in requests))
        self.split: Split = best_split(requests)
        self.hosting = Hosting(board, requests)
        self._devices: dict[tuple[Hosts, int, int, int], int] = {}
        """What a part costs: by what the node hosts then, its idle GPUs, the part, what is left."""
        live = [(node.milli_cpu, node.gpus) for node in nodes.models if node is not None]
        self.most_cpu = max((cpu for cpu, _ in live), default=0) or 1
        self.most_gpu = (max((gpus for _, gpus in live), default=0) or 1) * GPU

    def parts(self, row: int) -> tuple[int, ...]:
        """Return what is left in the end of each GPU of a node that is shared, in thousandths."""
        nodes = self.nodes
        return tuple(
            [
                max(0, (size - staying - promised) * GPU // size)
                for device, (staying, _, promised) in nodes.shared[row].items()
                if staying + promised > 0 and (size := nodes.size_of(row, device))
            ]
        )

    def of(self, shape: Shape) -> Callable[[int], int]:
        """Return what a pod of this shape costs on a node on which it fits."""
        nodes, known = self.nodes, dict[tuple[int, int, int, int, int], int]()
        class_of, all_gpu, shared = nodes.class_of, nodes.all_gpu, nodes.shared
        sizes = nodes.gpu_memory  # what is asked by memory takes more of a smaller GPU
        all_cpu, all_memory = nodes.all_cpu, nodes.all_memory

        def cost(row: int) -> int:
            if shared[row]:
                return self._cost(row, shape, self.parts(row))
            state = (class_of[row], sizes[row], all_gpu[row], all_cpu[row], all_memory[row])
            found = known.get(state)
            if found is None:
                found = known[state] = self._cost(row, shape, NO_PARTS)
            return found

        return cost

    def _cost(self, row: int, shape: Shape, parts: tuple[int, ...]) -> int:
        nodes, hosting = self.nodes, self.hosting
        kind, gpus = nodes.class_of[row], max(0, nodes.all_gpu[row])
        cpu, memory = nodes.all_cpu[row], nodes.all_memory[row]
        before = hosting.hosts(kind, cpu, memory)
        cpu, memory = cpu - shape.milli_cpu, memory - shape.memory_bytes
        after = hosting.hosts(kind, cpu, memory)
        growth = after.fragments(gpus - shape.gpus, parts) - before.fragments(gpus, parts)
        cost = growth * MILLIONTHS // self.total
        asked = shape.gpus * GPU
        if shape.is_shared:
            need = self._need(row, shape)
            asked = need * shape.devices
            dear = [self._of_device(after, gpus, need, left) for left in parts if left >= need]
            if gpus:
                dear += [self._of_device(after, gpus, need, GPU)] * min(gpus, shape.devices)
            cost += (
                min(dear, default=0) if shape.devices == 1 else sum(sorted(dear)[: shape.devices])
            )
        left = gpus * GPU + sum(parts) - asked
        cost += FULLNESS * cpu // self.most_cpu + FULLNESS * left // self.most_gpu
        return cost + hosting.price(kind) * asked

    def _need(self, row: int, shape: Shape) -> int:
        """Return what a shared request takes of a GPU of a node, in thousandths."""
        return shape.milli or min(GPU, -(-shape.mib * GPU // self.nodes.gpu_memory[row]))

    def of_device(self, row: int, shape: Shape) -> Callable[[int], int]:
        """Return what a part costs on a GPU with so much left; a GPU of which all is left is idle."""
        nodes = self.nodes
        cpu, memory = nodes.all_cpu[row], nodes.all_memory[row]
        after = self.hosting.hosts(
            nodes.class_of[row], cpu - shape.milli_cpu, memory - shape.memory_bytes
        )
        gpus, need = max(0, nodes.all_gpu[row]), self._need(row, shape)
        return partial(self._of_device, after, gpus, need)

    def _of_device(self, after: Hosts, gpus: int, need: int, left: int) -> int:
        key = (after, gpus if left == GPU else 0, need, left)
        known = self._devices.get(key)
        if known is None:
            fragments, rest = after.fragments, max(0, left - need)
            if left == GPU:
                growth = fragments(gpus - 1, (rest,)) - fragments(gpus, NO_PARTS)
            else:
                growth = fragments(0, (rest,)) - fragments(0, (left,))
            waste = self.split.waste(left, min(need, left))
            known = growth * MILLIONTHS // self.total + WASTE * MILLIONTHS * waste
            self._devices[key] = known
        return known
