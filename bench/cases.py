"""The table of cases by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bench import shapes
from bench.budgets import Step, budgets
from bench.shapes import GPUS, Case
from bench.traces import traces
from scheduler_service.model.policy import Action

MOVED = {10: 22, 50: 95}
"""Consolidation alone packs while it serves: victims move to fuller nodes, as in KAI."""
ALLOCATE: tuple[Action, ...] = ("allocate",)


def kai() -> list[Case]:
    """Return KAI's own shapes, under its names."""
    cases = [
        Case(
            f"allocate/{n}x{p}",
            n,
            p,
            partial(shapes.pending, n, p),
            ALLOCATE,
            {"bound": min(p, n * GPUS)},
        )
        for n, p in ((10, 50), (50, 200), (100, 500))
    ]
    for n, p in ((10, 50), (50, 200)):
        cases.append(
            Case(
                f"reclaim/{n}x{p}",
                n,
                p,
                partial(shapes.all_running, n, p),
                ("reclaim",),
                {"evicted": 0},
            )
        )
    one: Action
    for one in ("preempt", "consolidate"):
        for n, p in ((10, 50), (50, 200)):
            cases.append(
                Case(
                    f"{one}/{n}x{p}",
                    n,
                    p,
                    partial(shapes.half_running, n, p),
                    (one,),
                    {"evicted": MOVED[n] if one == "consolidate" else 0},
                )
            )
    for n, p in ((10, 50), (50, 200), (100, 500)):
        free = min(p // 2, n * GPUS - p // 2)
        cases.append(
            Case(
                f"cycle/{n}x{p}", n, p, partial(shapes.half_running, n, p), expected={"bound": free}
            )
        )
    cases += [
        Case(
            "many_queues/50x200x20",
            50,
            200,
            partial(shapes.pending, 50, 200, 20),
            expected={"bound": 200},
        ),
        Case(
            "gangs/50x100x4",
            50,
            400,
            partial(shapes.pending, 50, 100, 4, 4),
            expected={"bound": 400},
        ),
    ]
    for n in (10, 50, 100, 200, 500, 1000):
        cases.append(
            Case(
                f"reclaim_huge_gang/{n}",
                n,
                n * GPUS + n // 2,
                partial(shapes.huge_gang, n),
                ("reclaim",),
                {"evicted": n // 2 * GPUS, "pipelined": n // 2},
            )
        )
    for n in (10, 50, 100, 200, 500):
        cases.append(
            Case(
                f"reclaim_many/{n}",
                n,
                n * GPUS * 2,
                partial(shapes.many_reclaims, n),
                expected={"evicted": n * GPUS, "pipelined": n * GPUS},
            )
        )
    return cases


def scale() -> list[Case]:
    """Return ours: cold ledger and plan, at growing sizes."""
    sizes = ((10, 50), (100, 500), (1000, 1000), (10_000, 1000), (50_000, 1000))
    cases = [
        Case(
            f"allocate/{n}x{p}",
            n,
            p,
            partial(shapes.pending, n, p),
            ALLOCATE,
            {"bound": min(p, n * GPUS)},
        )
        for n, p in sizes
    ]
    cases += [
        Case(f"fractions/{n}x{p}", n, p, partial(shapes.fractions, n, p), ALLOCATE, {"bound": p})
        for n, p in ((10, 80), (100, 800), (1000, 8000), (10_000, 10_000))
    ]
    cases += [
        Case(
            f"topology_gang/{n}x{p}",
            n,
            p,
            partial(shapes.topology_gang, n, p),
            ALLOCATE,
            {"bound": p},
        )
        for n, p in ((1000, 1000), (10_000, 1000))
    ]
    cases += [
        Case(
            f"busy/{n}x{r}+{p}",
            n,
            r + p,
            partial(shapes.running_and_new, n, r, p),
            expected={"bound": p},
        )
        for n, r, p in ((500, 3000, 500), (1000, 7000, 1000), (10_000, 70_000, 1000))
    ]
    cases.append(
        Case(
            "nothing_new/50000x200000",
            50_000,
            200_000,
            partial(shapes.running_and_new, 50_000, 200_000, 0),
            expected={"bound": 0, "evicted": 0},
        )
    )
    cases.append(
        Case(
            "half/500x8000",
            500,
            8000,
            partial(shapes.running_and_new, 500, 4000, 4000),
            expected={"bound": 0},
        )
    )
    return cases


def hard() -> list[Case]:
    """Return adversarial shapes."""
    return [
        Case(
            "all_different/1000x1000",
            1000,
            1000,
            partial(shapes.all_different, 1000, 1000),
            ALLOCATE,
            {"bound": 1000},
        ),
        Case(
            "no_cpu_left/1000x1000",
            1000,
            2000,
            partial(shapes.no_cpu_left, 1000, 1000),
            expected={"bound": 0},
        ),
        Case(
            "nearly_full/1000x400",
            1000,
            1000 + 400,
            partial(shapes.nearly_full, 1000, 100),
            expected={"bound": 0, "evicted": 0, "pipelined": 0},
        ),
        Case(
            "node_classes/1000x1000",
            1000,
            1000,
            partial(shapes.node_classes, 1000, 1000),
            ALLOCATE,
            {"bound": 1000},
        ),
        Case(
            "one_gpu_too_large/1000",
            1000,
            8001,
            partial(shapes.one_gpu_too_large, 1000),
            expected={"bound": 0},
        ),
    ]


GROUPS: Mapping[str, Callable[[], Sequence[Case | Step]]] = {
    "kai": kai,
    "scale": scale,
    "budgets": budgets,
    "hard": hard,
    "traces": traces,
}
