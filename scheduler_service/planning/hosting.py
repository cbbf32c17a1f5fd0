"""Which of the known requests a node can still host, and what of its GPUs the others leave unused.

Nodes of one class with as much CPU and memory left host the same requests: what that means for a
part of a GPU, and for so many idle GPUs, is kept in sums for a plan.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from scheduler_service.planning import static_fit
from scheduler_service.planning.board import Board
from scheduler_service.planning.requests import GPU, Request

DEAREST = 1500
"""The highest price of a kind of node, in thousandths of what is asked for of it."""


class Hosts:
    """What a node hosts: how many of all requests can use a part, or one of so many idle GPUs."""

    __slots__ = ("_idle", "_sizes", "_sums", "_total")

    def __init__(self, requests: Iterable[Request], total: int) -> None:
        by_size: dict[int, int] = {}
        by_count: dict[int, int] = {}
        for request in requests:
            table, key = by_size, request.size
            if request.size == GPU:
                table, key = by_count, request.gpus
            table[key] = table.get(key, 0) + request.weight
        self._total = total
        self._sizes = sorted(by_size)
        self._sums = [0, *accumulate(by_size[size] for size in self._sizes)]
        most = max(by_count, default=0)
        counts = (by_count.get(count, 0) for count in range(1, most + 1))
        self._idle = [total - sum_ for sum_ in accumulate(counts, initial=self._sums[-1])]

    def fragments(self, gpus: int, parts: Iterable[int]) -> int:
        """Return the thousandths that requests can not use, of idle GPUs and parts left of others.

        Summed over all requests; each weighs as much as pods ask for it.
        """
        idle, sizes, sums, total = self._idle, self._sizes, self._sums, self._total
        lost = gpus * GPU * idle[gpus if gpus < len(idle) else -1] if gpus > 0 else 0
        for part in parts:
            lost += part * (total - sums[bisect_right(sizes, part)])
        return lost


class Hosting:
    """What nodes host, by class and what they have left."""

    def __init__(self, board: Board, requests: Sequence[Request]) -> None:
        self._total = sum(request.weight for request in requests)
        self._cpu = sorted({request.milli_cpu for request in requests})
        self._memory = sorted({request.memory_bytes for request in requests})
        self._allowed: dict[int, list[Request]] = {}
        self._known: dict[tuple[int, int, int], Hosts] = {}
        self._prices = self._judge(board, requests)

    def hosts(self, kind: int, milli_cpu: int, memory_bytes: int) -> Hosts:
        """Return what a node of a class hosts with so much left."""
        cpu, memory = bisect_right(self._cpu, milli_cpu), bisect_right(self._memory, memory_bytes)
        known = self._known.get((kind, cpu, memory))
        if known is None:
            fitting = (
                request
                for request in self._allowed[kind]
                if request.milli_cpu <= milli_cpu and request.memory_bytes <= memory_bytes
            )
            known = self._known[kind, cpu, memory] = Hosts(fitting, self._total)
        return known

    def price(self, kind: int) -> int:
        """Return what taking GPUs of a class of nodes costs others that may only be there."""
        return self._prices[kind]

    def _judge(self, board: Board, requests: Sequence[Request]) -> dict[int, int]:
        """Find out which class may host what; return prices by class, in thousandths.

        A price is how much of the demand that not all nodes may host falls on a class, against
        its part of all GPUs.
        """
        nodes = board.ledger.nodes
        gpus: dict[int, int] = {}
        example: dict[int, int] = {}
        for row, number in enumerate(nodes.class_of):
            if nodes.models[row] is not None:
                gpus[number] = gpus.get(number, 0) + nodes.gpus[row]
                example.setdefault(number, row)
        whole = sum(gpus.values())
        pressure = dict.fromkeys(gpus, 0)
        demand = 0
        self._allowed = {number: [] for number in gpus}
        for request in requests:
            fits = [
                number
                for number, row in example.items()
                if static_fit.unfit(nodes, row, request.shape, board.policy) is None
            ]
            for number in fits:
                self._allowed[number].append(request)
            there = sum(gpus[number] for number in fits)
            if 0 < there < whole:
                asked = request.weight * request.size * request.gpus
                demand += asked
                for number in fits:
                    pressure[number] += asked * whole * GPU // there
        return {number: min(DEAREST, value // max(1, demand)) for number, value in pressure.items()}
