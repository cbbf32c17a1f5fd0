"""A scenario, run: one action, or cycles until the cluster settles and stays so."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Plan
from scheduler_service.model.policy import Policy
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.cycle import plan as plan_cycle
from scheduler_service.simulate import checks, invariants
from scheduler_service.simulate.outcome import Outcome, after, before, next_world
from scheduler_service.simulate.reader import Scenario, World

Planner: TypeAlias = Callable[[Snapshot, Policy], Plan]


def planned(snapshot: Snapshot, policy: Policy) -> Plan:
    """Return the plan for a snapshot, from a ledger built for it."""
    return plan_cycle(Ledger.from_snapshot(snapshot), policy, snapshot.now_ms)


def failures(scenario: Scenario, planner: Planner = planned) -> list[str]:
    """Return a line for each thing that is not as the scenario expects; none if it passes."""
    if scenario.run.action == "cycle":
        return list(_cycles(scenario, planner))
    plan = planner(scenario.world.snapshot, scenario.world.policy)
    outcome = after(scenario.world, plan)
    return [
        *checks.differences(outcome, scenario.expect),
        *checks.over_bounds(outcome, scenario.expect.at_most),
        *invariants.breaches(outcome),
    ]


def _cycles(scenario: Scenario, planner: Planner) -> Iterator[str]:
    expect, world = scenario.expect, scenario.world
    seen: list[Outcome] = []
    reasons = None
    total = scenario.run.settle_cycles + scenario.run.steady_cycles
    for number in range(total):
        if number == scenario.run.settle_cycles:
            settled = before(world, reasons)
            yield from (f"settled: {line}" for line in checks.differences(settled, expect))
        outcome, world = one_cycle(world, planner)
        reasons = outcome.reasons
        seen.append(outcome)
        lines = [*checks.over_bounds(outcome, expect.at_most), *invariants.breaches(outcome)]
        if number >= scenario.run.settle_cycles:
            lines += checks.differences(outcome, expect)
        yield from (f"cycle {number + 1}: {line}" for line in lines)
    if scenario.run.steady_cycles == 0:
        settled = before(world, reasons)
        yield from (f"settled: {line}" for line in checks.differences(settled, expect))
    yield from checks.over_run_bounds(seen, expect.whole_run)


def one_cycle(world: World, planner: Planner) -> tuple[Outcome, World]:
    """Return what one cycle makes of the world, and the next cycle's world."""
    plan = planner(world.snapshot, world.policy)
    outcome = after(world, plan)
    return outcome, next_world(outcome, plan)
