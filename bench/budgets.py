"""Single steps of a cycle at growing sizes: the rows of the table of budgets, under one name each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench import shapes
from bench.shapes import GPUS, Case, World, departments, nodes
from scheduler_service.ledger.events import Event, PodAdded, PodRemoved
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import WholeGpus
from scheduler_service.model.pod import PodRequest
from scheduler_service.model.policy import Action, Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.shares import capacity_of, fair_shares

SIZES = (10, 100, 1000, 10_000, 50_000)
ALLOCATE: tuple[Action, ...] = ("allocate",)
RECLAIM: tuple[Action, ...] = ("reclaim",)
EVENTS = 1000
FREED = 8
"""Whole nodes that a consolidation frees, and workers of eight GPUs each that a gang wants."""


@dataclass(frozen=True)
class Step:
    """One step that is no plan: what is prepared once, and what is timed again and again."""

    name: str
    nodes: int
    pods: int
    prepare: Callable[[], Callable[[], object]]


def budgets() -> list[Case | Step]:
    """Return the rows of the table, those left out that the group `scale` has."""
    return [*_books(), *_allocations(), *_room(), *_shares(), *_nothing()]


# -- the book ------------------------------------------------------------------------------------


def _books() -> list[Case | Step]:
    waiting = ((10, 50), (100, 500), (1000, 1000), (10_000, 1000), (50_000, 1000))
    busy = ((1000, 7500, 1000), (10_000, 15_500, 1000))
    return [
        *(
            Step(f"ledger/{n}x{p}", n, p, partial(_building, partial(shapes.pending, n, p)))
            for n, p in waiting
        ),
        *(
            Step(
                f"ledger_busy/{n}x{r + p}",
                n,
                r + p,
                partial(_building, partial(shapes.running_and_new, n, r, p)),
            )
            for n, r, p in busy
        ),
        *(Step(f"events/{n}", n, EVENTS, partial(_applying, n)) for n in SIZES),
    ]


def _building(make: Callable[[], Snapshot]) -> Callable[[], object]:
    snapshot = make()
    return lambda: Ledger.from_snapshot(snapshot)


def _applying(count: int) -> Callable[[], object]:
    """Half of the pods go, and come again: the book is afterwards as before."""
    snapshot = shapes.running_and_new(count, min(EVENTS // 2, count * GPUS), 0)
    ledger = Ledger.from_snapshot(snapshot)
    gone: list[Event] = [PodRemoved(pod.key) for pod in snapshot.pods]
    events = [*gone, *(PodAdded(pod) for pod in snapshot.pods)]
    many = events * (EVENTS // len(events))

    def apply() -> None:
        for event in many:
            ledger.apply(event)

    return apply


# -- placing, making room --------------------------------------------------------------------------


def _allocations() -> list[Case | Step]:
    return [
        *(
            Case(
                f"allocate_many/{n}x10000",
                n,
                10_000,
                partial(shapes.pending, n, 10_000),
                ALLOCATE,
                {"bound": min(10_000, n * GPUS)},
            )
            for n in (1000, 10_000, 50_000)
        ),
        Case(
            "fractions/50000x10000",
            50_000,
            10_000,
            partial(shapes.fractions, 50_000, 10_000),
            ALLOCATE,
            {"bound": 10_000},
        ),
        Case(
            "topology_gang/50000x1000",
            50_000,
            1000,
            partial(shapes.topology_gang, 50_000, 1000),
            ALLOCATE,
            {"bound": 1000},
        ),
    ]


def _room() -> list[Case | Step]:
    found: list[Case | Step] = [
        _reclaim(f"reclaim_one_gang/{n}", n, FREED) for n in (1000, 10_000, 50_000)
    ]
    found += [_reclaim(f"reclaim_large_gang/{n}", n, n // 10) for n in (10, 100, 1000, 10_000)]
    return found + [
        Case(
            f"consolidate_nodes/{n}",
            n,
            n + FREED,
            partial(scattered, n),
            ("consolidate",),
            {"evicted": FREED, "pipelined": 2 * FREED},
        )
        for n in SIZES[1:]
    ]


def _reclaim(name: str, count: int, members: int) -> Case:
    return Case(
        name,
        count,
        count * GPUS + members,
        partial(shapes.huge_gang, count, members),
        RECLAIM,
        {"evicted": members * GPUS, "pipelined": members},
    )


def scattered(count: int) -> Snapshot:
    """Return nodes half of which is taken, each by one group, and a gang that wants whole ones."""
    world = World(nodes(count), departments(4, count * GPUS))
    half, whole = (PodRequest(1000, 1 << 30, WholeGpus(gpus)) for gpus in (GPUS // 2, GPUS))
    for number in range(count):
        world.add(f"job-{number}", f"queue-{number % 4}", request=half, node=f"node-{number}")
    world.add("gang", "queue-0", request=whole, members=FREED)
    return world.snapshot()


# -- shares, and nothing ---------------------------------------------------------------------------


def _shares() -> list[Case | Step]:
    wide = ((10, (4, 4)), (100, (4, 4)), (1000, (10, 10, 10)), (10_000, (10, 10, 10)))
    deep = ((50_000, (10, 10, 100)),)
    return [
        Step(f"fair_share/{n}x{_queues_in(tree)}", n, 0, partial(_dealing, n, tree))
        for n, tree in (*wide, *deep)
    ]


def _queues_in(tree: tuple[int, ...]) -> int:
    count, total = 1, 0
    for children in tree:
        count *= children
        total += count
    return total


def _dealing(count: int, tree: tuple[int, ...]) -> Callable[[], object]:
    leaves: list[str | None] = [None]
    queues: list[Queue] = []
    for children in tree:
        here = [
            Queue(
                f"{parent or 'q'}-{number}",
                parent=parent,
                created=number,
                gpu=QueueShare(quota=1000, over_quota_weight=1 + number % 3),
            )
            for parent in leaves
            for number in range(children)
        ]
        queues += here
        leaves = [queue.name for queue in here]
    world = World(nodes(count), tuple(queues))
    for number, leaf in enumerate(leaves):
        world.add(f"job-{number}", str(leaf), members=1 + number % 5)
    ledger, policy = Ledger.from_snapshot(world.snapshot()), Policy.conformance()
    total, sizes = capacity_of(ledger.nodes)
    return lambda: fair_shares(ledger, policy, total, sizes)


def _nothing() -> list[Case | Step]:
    none = {"bound": 0, "evicted": 0, "pipelined": 0}
    return [
        Case(
            f"nothing_new/{n}x{4 * n}",
            n,
            4 * n,
            partial(shapes.running_and_new, n, 4 * n, 0),
            expected=none,
        )
        for n in SIZES[:-1]
    ]
