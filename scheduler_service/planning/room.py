"""Could there be room at all if these pods left? A quick answer that never says no wrongly.

It looks at whole GPUs only; everything else is left to the real placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scheduler_service.ledger.shape import WHOLE
from scheduler_service.planning.board import Board
from scheduler_service.planning.victims import Entry, Step


class Room:
    """The GPUs that some waiting pods need, against what nodes have and would get back."""

    def __init__(self, board: Board, pods: Sequence[int]) -> None:
        self.board = board
        shapes = [board.ledger.shape_of(pod) for pod in pods]
        self.needs = sorted(shape.gpus for shape in shapes if shape.kind == WHOLE)
        self.count = len(self.needs)
        self.size = len(shapes)
        """How many pods wait, those without whole GPUs included."""
        self.smallest = self.needs[0] if self.needs else 0
        self.is_even = bool(self.needs) and self.needs[0] == self.needs[-1]
        self.is_alike = self.is_even and self.count == len(shapes) > 1 and len(set(shapes)) == 1
        self.free = board.ledger.nodes.all_gpu
        self._base: int | None = None

    @property
    def base(self) -> int:
        """How many of the pods (or, if uneven, GPUs) fit on what is free anyway."""
        if self._base is None:
            self._base = self._places()
        return self._base

    def _places(self) -> int:
        free = np.maximum(np.frombuffer(self.free, dtype=np.int64), 0)
        if not len(free):
            return 0
        return int((free // self.smallest).sum()) if self.is_even else int(free.sum())

    def freed(self, steps: Iterable[Step]) -> Mapping[int, int]:
        """Return the whole GPUs that each node could get back at most."""
        ledger = self.board.ledger
        pods = ledger.pods
        found: dict[int, int] = {}
        shared: set[tuple[int, str]] = set()
        for step in steps:
            for pod in step.pods:
                shape, node = ledger.shape_of(pod), pods.node[pod]
                found[node] = found.get(node, 0) + shape.gpus
                if shape.claims:
                    found[node] += ledger.claims.gpus(pods.models[pod].namespace, shape)
                if shape.is_shared:
                    shared |= {(node, device) for device in pods.devices[pod]}
        for node, _ in shared:
            found[node] += 1
        return found

    def might_fit(self, steps: Iterable[Step]) -> bool:
        """Say whether all pods could have their GPUs once these pods have left."""
        if not self.needs:
            return True
        freed, free = self.freed(steps), self.free
        if self.count == 1 and any(
            free[node] + gpus >= self.smallest for node, gpus in freed.items()
        ):
            return True
        if self.is_even:
            size = self.smallest
            more = sum(
                max(0, free[node] + gpus) // size - max(0, free[node]) // size
                for node, gpus in freed.items()
            )
            return self.base + more >= self.count
        return self.base + sum(freed.values()) >= sum(self.needs)

    def room_of(self, node: int, freed: Mapping[int, int]) -> int:
        """Return the GPUs of a node once the victims have left it."""
        return self.free[node] + freed.get(node, 0)

    def holds_smallest(self, node: int, freed: Mapping[int, int]) -> bool:
        """Say whether a node could hold the smallest of the pods."""
        return self.room_of(node, freed) >= self.smallest

    def first_enough(self, stack: Sequence[Entry]) -> tuple[list[Entry], int]:
        """Return the victims that make room for all pods, node by node, and how many were seen.

        From the last entry on: each node gives its victims once they make room for one pod more.
        Nobody if that is not enough, or if the victims are not lone pods of one plain shape.
        """
        ledger = self.board.ledger
        node_of, shape_of = ledger.pods.node, ledger.pods.shape
        number = shape_of[next(stack[-1].group.pods())]
        shape = ledger.shapes.shapes[number]
        if shape.kind != WHOLE or not shape.is_plain:
            return [], 0
        size, gpus, missing = self.smallest, shape.gpus, self.count - self.base
        free: dict[int, int] = {}
        waiting: dict[int, list[Entry]] = {}
        chosen: list[Entry] = []
        for walked, entry in enumerate(reversed(stack), start=1):
            pod = entry.pod
            if pod < 0 or entry.surplus_only or shape_of[pod] != number:
                return [], 0
            node = node_of[pod]
            going = waiting.get(node)
            if going is None:
                going, free[node] = waiting.setdefault(node, []), max(0, self.free[node]) % size
            going.append(entry)
            after = free[node] = free[node] + gpus
            if after >= size:
                chosen += going
                going.clear()
                missing -= after // size
                free[node] = after % size
            if missing <= 0:
                return chosen, walked
        return [], 0

    def counter(self) -> Counting:
        """Return a running count of how many of the (alike) pods would have room."""
        return Counting(self)


class Counting:
    """How many alike pods have room, as victims are added one by one."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.places = room.base
        self._gpus: dict[int, int] = {}

    def add(self, node: int, step: Step) -> bool:
        """Count the GPUs that a victim gives back; say whether one pod more has room now."""
        size = self.room.smallest
        before = self._gpus.get(node)
        if before is None:
            before = max(0, self.room.free[node])
        ledger = self.room.board.ledger
        shape = ledger.shape_of(step.pods[0])
        if len(step.pods) == 1 and not shape.claims and not shape.is_shared:
            gpus = shape.gpus
        else:
            gpus = self.room.freed((step,)).get(node, 0)
        after = self._gpus[node] = before + gpus
        more = after // size - before // size
        self.places += more
        return more > 0

    @property
    def is_enough(self) -> bool:
        """Whether all pods have room."""
        return self.places >= self.room.count
