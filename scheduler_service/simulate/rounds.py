"""A scenario, cycle by cycle: time stands still, so a cycle counts as a second."""

from collections.abc import Mapping

from scheduler_service.model.pod import PodState
from scheduler_service.simulate.amounts import charged_milli_gpu
from scheduler_service.simulate.outcome import Outcome
from scheduler_service.simulate.reader import Scenario
from scheduler_service.simulate.result import Point, Result
from scheduler_service.simulate.run import one_cycle, planned

CYCLE_MS = 1000
HOLDS = frozenset({PodState.RUNNING, PodState.BOUND})


def run(scenario: Scenario) -> Result:
    """Return what a scenario's cycles come to; a single action is one cycle."""
    world = scenario.world
    result = Result(sum(node.gpus for node in world.snapshot.nodes) * 1000)
    queue_of = {group.key: group.queue for group in world.snapshot.pod_groups}
    for name in queue_of.values():
        result.queue(name).arrived += 1
    cycles = max(1, scenario.run.settle_cycles + scenario.run.steady_cycles)
    started: set[str] = set()
    for number in range(cycles):
        outcome, world = one_cycle(world, planned)
        result.cycles += 1
        _count(result, outcome, queue_of, started, at_ms=number * CYCLE_MS)
    result.note(result.points[-1]._replace(at_ms=cycles * CYCLE_MS))
    return result


def _count(
    result: Result,
    outcome: Outcome,
    queue_of: Mapping[str, str],
    started: set[str],
    *,
    at_ms: int,
) -> None:
    claims = {claim.key: claim for claim in outcome.snapshot.resource_claims}
    held = dict.fromkeys(result.queues, 0)
    for pod in outcome.pods.values():
        if pod.state in HOLDS:
            held[queue_of[pod.group]] += charged_milli_gpu(pod, claims)
    waiting = {pod.group for pod in outcome.pods.values() if pod.state is PodState.PENDING}
    result.note(Point(at_ms, sum(held.values()), len(waiting)), held)
    for key in outcome.evictions:
        result.queue(queue_of[outcome.pods[key].group]).evictions += 1
    for key in sorted({outcome.pods[key].group for key in outcome.binds} - started):
        started.add(key)
        queue = result.queue(queue_of[key])
        queue.started += 1
        queue.waits_ms.append(at_ms)
    told = {"bind": outcome.binds, "evict": outcome.evictions, "pipeline": outcome.pipelines}
    result.operations.update({name: len(pods) for name, pods in told.items() if pods})
