"""The queues' columns: what their pods hold and ask for, summed up to the top.

Amounts are tuples (milli-CPU, bytes, milli-GPU); what waits has device memory beside, in MiB.
"""

from __future__ import annotations

from scheduler_service.ledger.journal import Journal
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare

Amounts = tuple[int, int, int]
Asked = tuple[int, int, int, int]
QueueSums = tuple[int, Amounts, Amounts, Asked]
"""A queue row with what it held, held for good, and was asked for."""
ZERO: Amounts = (0, 0, 0)
NOTHING: Asked = (0, 0, 0, 0)
NO_QUEUE = -1


class QueueTable:
    """Queues by row. A queue whose parent is missing (or that is its own ancestor) runs nothing."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.row_of: dict[str, int] = {}
        self.models: list[Queue] = []
        self.parent: list[int] = []
        self.paths: list[tuple[int, ...]] = []
        """From the queue up to its top; empty where the chain is broken."""
        self.limited_paths: list[tuple[int, ...]] = []
        """The queues on the path that have a limit of any kind."""
        self.is_leaf: list[bool] = []
        self.quota: list[tuple[int | None, ...]] = []
        self.limit: list[tuple[int | None, ...]] = []
        self.allocated: list[Amounts] = []
        self.non_preemptible: list[Amounts] = []
        self.waiting: list[Asked] = []
        """What pending pods ask for, descendants included."""

    def __len__(self) -> int:
        return len(self.models)

    def load(self, queues: list[Queue]) -> None:
        """Put all queues afresh; sums are 0 until pods are booked again."""
        self.models = sorted(queues, key=lambda queue: queue.name)
        self.row_of = {queue.name: row for row, queue in enumerate(self.models)}
        self.parent = [self._parent_row(queue) for queue in self.models]
        self.paths = [self._path(row) for row in range(len(self.models))]
        has_children = set(self.parent)
        self.is_leaf = [row not in has_children for row in range(len(self.models))]
        self.quota = [_bounds(queue, "quota") for queue in self.models]
        self.limit = [_bounds(queue, "limit") for queue in self.models]
        self.limited_paths = [
            tuple(q for q in path if any(limit is not None for limit in self.limit[q]))
            for path in self.paths
        ]
        self.allocated = [ZERO] * len(self.models)
        self.non_preemptible = [ZERO] * len(self.models)
        self.waiting = [NOTHING] * len(self.models)

    def _parent_row(self, queue: Queue) -> int:
        if queue.parent is None:
            return NO_QUEUE
        return self.row_of.get(queue.parent, len(self.models))

    def _path(self, row: int) -> tuple[int, ...]:
        path: list[int] = []
        while row != NO_QUEUE:
            if row == len(self.models) or row in path:
                return ()
            path.append(row)
            row = self.parent[row]
        return tuple(path)

    def runs_work(self, row: int) -> bool:
        """Return whether groups of this queue may start."""
        return row != NO_QUEUE and self.is_leaf[row] and bool(self.paths[row])

    def note(self, row: int) -> None:
        """Journal the sums of a queue before they change."""
        old = (self.allocated[row], self.non_preemptible[row], self.waiting[row])
        self.journal.entries.append((self, row, old))

    def __setitem__(self, row: int, old: tuple[Amounts, Amounts, Asked]) -> None:
        """Put back what `note` journaled."""
        self.allocated[row], self.non_preemptible[row], self.waiting[row] = old

    def start(
        self, row: int, asked: Asked, charge: int, *, non_preemptible: bool
    ) -> list[QueueSums]:
        """Count a pod that was waiting as holding, up to the top; return the sums before."""
        cpu, memory, gpu, mib = asked
        old: list[QueueSums] = []
        for queue in self.paths[row]:
            own, waits, core = (
                self.allocated[queue],
                self.waiting[queue],
                self.non_preemptible[queue],
            )
            old.append((queue, own, core, waits))
            self.allocated[queue] = (own[0] + cpu, own[1] + memory, own[2] + charge)
            self.waiting[queue] = (
                waits[0] - cpu,
                waits[1] - memory,
                waits[2] - gpu,
                waits[3] - mib,
            )
            if non_preemptible:
                self.non_preemptible[queue] = (core[0] + cpu, core[1] + memory, core[2] + charge)
        return old

    def shift(self, row: int, held: Amounts, asked: Asked, *, non_preemptible: bool) -> None:
        """Add what pods hold and what they ask for (or, negative, take it off), up to the top."""
        cpu, memory, gpu = held
        more_cpu, more_memory, more_gpu, more_mib = asked
        entries = self.journal.entries
        for queue in self.paths[row]:
            own, waits = self.allocated[queue], self.waiting[queue]
            entries.append((self, queue, (own, self.non_preemptible[queue], waits)))
            self.allocated[queue] = (own[0] + cpu, own[1] + memory, own[2] + gpu)
            if non_preemptible:
                own = self.non_preemptible[queue]
                self.non_preemptible[queue] = (own[0] + cpu, own[1] + memory, own[2] + gpu)
            self.waiting[queue] = (
                waits[0] + more_cpu,
                waits[1] + more_memory,
                waits[2] + more_gpu,
                waits[3] + more_mib,
            )

    def add_allocated(self, row: int, amounts: Amounts, *, non_preemptible: bool) -> None:
        """Add what a pod holds to its queue and every ancestor."""
        self.shift(row, amounts, NOTHING, non_preemptible=non_preemptible)

    def add_waiting(self, row: int, asked: Asked, sign: int) -> None:
        """Add (or take off) what a pending pod asks for, at its queue and every ancestor."""
        cpu, memory, gpu, mib = asked
        signed = (cpu * sign, memory * sign, gpu * sign, mib * sign)
        self.shift(row, ZERO, signed, non_preemptible=False)


def _bounds(queue: Queue, field: str) -> tuple[int | None, ...]:
    shares: tuple[QueueShare, ...] = (queue.cpu, queue.memory, queue.gpu)
    return tuple(share.quota if field == "quota" else share.limit for share in shares)
