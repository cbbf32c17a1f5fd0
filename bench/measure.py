"""Runs a case again and again and says how long it took, what came out and how much was done."""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass

from bench.budgets import Step
from bench.shapes import Case
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Bind, Evict, Plan
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.cycle import plan

SHORT_S = 0.05
LONG_S = 2.0


class WrongOutcome(Exception):
    """A plan that is not as expected: its time is void."""


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    name: str
    nodes: int
    pods: int
    ms: dict[str, float]
    outcome: dict[str, int]
    counts: dict[str, int]
    peak_mib: float
    warm_ms: dict[str, float]
    cpu_ms: dict[str, float]


def outcome_of(made: Plan) -> dict[str, int]:
    """Return how many operations of each kind a plan has."""
    operations = made.operations()
    binds = sum(isinstance(operation, Bind) for operation in operations)
    evictions = sum(isinstance(operation, Evict) for operation in operations)
    pipelines = len(operations) - binds - evictions
    return {"bound": binds, "evicted": evictions, "pipelined": pipelines}


def measure(case: Case | Step) -> Result:
    """Return the figures of a plan, or of a single step of one."""
    return _measure_step(case) if isinstance(case, Step) else _measure_plan(case)


def _measure_step(step: Step) -> Result:
    """Return the times of one step; it has no outcome, and being warm is no difference to it."""
    once = step.prepare()
    once()
    times, cpu = _times(once)
    spread, nothing = _spread(times), {"bound": 0, "evicted": 0, "pipelined": 0}
    return Result(step.name, step.nodes, step.pods, spread, nothing, {}, 0.0, spread, _spread(cpu))


def _measure_plan(case: Case) -> Result:
    """Return the times of cold iterations (build, plan, collect) and of warm ones (plan again)."""
    snapshot = case.make()
    made = plan(Ledger.from_snapshot(snapshot), case.policy, 0)
    outcome = outcome_of(made)
    for kind, count in case.expected.items():
        if outcome[kind] != count:
            msg = f"{case.name}: {outcome[kind]} {kind}, {count} expected"
            raise WrongOutcome(msg)
    ledger = Ledger.from_snapshot(snapshot)
    cold, cpu = _times(lambda: plan(Ledger.from_snapshot(snapshot), case.policy, 0))
    warm, _ = _times(lambda: plan(ledger, case.policy, 0))
    return Result(
        case.name,
        case.nodes,
        case.pods,
        _spread(cold),
        outcome,
        {name: int(count) for name, count in _counts(made).items()},
        _peak_mib(snapshot, case),
        _spread(warm),
        _spread(cpu),
    )


def _counts(made: Plan) -> dict[str, int]:
    work = made.work
    return {name: getattr(work, name) for name in work.__struct_fields__}


def _times(once: Callable[[], object]) -> tuple[list[float], list[float]]:
    """Return wall and CPU times of many runs; the collector runs between them, not within."""
    times: list[float] = []
    cpu: list[float] = []
    begun = time.perf_counter()
    gc.collect()
    gc.disable()
    try:
        while len(times) < 3 or (len(times) < 30 and time.perf_counter() - begun < LONG_S):
            start, busy = time.perf_counter(), time.thread_time()
            once()
            times.append((time.perf_counter() - start) * 1000)
            cpu.append((time.thread_time() - busy) * 1000)
            if len(times) == 1 and times[0] > LONG_S * 5000:
                break
            if times[-1] > SHORT_S * 1000:
                gc.collect()
    finally:
        gc.enable()
    return times, cpu


def _spread(times: list[float]) -> dict[str, float]:
    return {
        "min": round(min(times), 3),
        "median": round(statistics.median(times), 3),
        "max": round(max(times), 3),
    }


def _peak_mib(snapshot: Snapshot, case: Case) -> float:
    if case.pods > 20_000 or case.nodes > 20_000:
        return 0.0
    tracemalloc.start()
    plan(Ledger.from_snapshot(snapshot), case.policy, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(peak / 2**20, 2)


def as_json(result: Result) -> dict[str, object]:
    """Return a result as it is written to a file."""
    return asdict(result)
