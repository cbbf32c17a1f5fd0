"""Whether an outcome is what a scenario expects: a line for each difference."""

from collections import Counter
from collections.abc import Iterator, Mapping

from scheduler_service.model import reasons
from scheduler_service.model.pod import ALLOCATED, Pod, PodState
from scheduler_service.simulate import format as parts
from scheduler_service.simulate.amounts import (
    NodeUse,
    charged_milli_gpu,
    gpus_of,
    use_by_node,
)
from scheduler_service.simulate.outcome import Outcome, is_stuck


def differences(outcome: Outcome, expect: parts.Expectation) -> list[str]:
    """Return a line for each thing that is not as expected, bounds apart."""
    return [
        *_pods(outcome, expect.pods),
        *_nodes(outcome, expect.nodes),
        *_groups(outcome, expect.pod_groups),
        *_queues(outcome, expect.queues),
    ]


def _pods(outcome: Outcome, expected: Mapping[str, parts.PodExpectation]) -> Iterator[str]:
    for name, wanted in expected.items():
        pod = outcome.pods[outcome.world.key_of_pod[name]]
        if pod.state != wanted.state:
            yield f"{name} should be {wanted.state} and is {pod.state}{_at(pod)}"
            continue
        if wanted.node is not None and pod.node != wanted.node:
            yield f"{name} should be on {wanted.node} and is on {pod.node}"
        if wanted.gpu_groups is not None:
            shared = sorted(share.device for share in pod.devices)
            if shared != sorted(wanted.gpu_groups):
                joined = ", ".join(sorted(wanted.gpu_groups))
                yield f"{name} should share {joined} and has {', '.join(shared) or 'nothing'}"


def _at(pod: Pod) -> str:
    return f" on {pod.node}" if pod.node else ""


def _nodes(outcome: Outcome, expected: Mapping[str, parts.NodeExpectation]) -> Iterator[str]:
    if not expected:
        return
    holders = list(outcome.holders())
    claims = outcome.snapshot.resource_claims
    uses = use_by_node(holders, claims)
    staying = use_by_node((pod for pod in holders if not _is_leaving(pod, outcome)), claims)
    for node in outcome.snapshot.nodes:
        wanted = expected.get(node.name)
        if wanted is None:
            continue
        used = uses.get(node.name, NodeUse()).gpus
        found = {
            "idle_gpus": gpus_of(node, outcome.snapshot.resource_slices) - used,
            "releasing_gpus": used - staying.get(node.name, NodeUse()).gpus,
        }
        for field, amount in found.items():
            bound = getattr(wanted, field)
            if bound is not None and bound != amount:
                yield f"{node.name}: {field} should be {bound} and is {amount}"


def _is_leaving(pod: Pod, outcome: Outcome) -> bool:
    return pod.state is PodState.RELEASING and not is_stuck(pod, outcome.world)


def _groups(outcome: Outcome, expected: Mapping[str, parts.PodGroupExpectation]) -> Iterator[str]:
    for name, wanted in expected.items():
        key = outcome.world.key_of_group[name]
        found = Counter(pod.state.value for pod in outcome.pods.values() if pod.group == key)
        for state, count in wanted.counts.items():
            if found[state] != count:
                yield f"{name} should have {count} pods {state} and has {found[state]}"
        codes = [reasons.code(reason) for reason in outcome.reasons.get(key, ())]
        if wanted.reason is not None and wanted.reason not in codes:
            yield f"{name} should wait for {wanted.reason}; reasons are {', '.join(codes) or 'none'}"


def _queues(outcome: Outcome, expected: Mapping[str, parts.QueueExpectation]) -> Iterator[str]:
    if not expected:
        return
    parent = {queue.name: queue.parent for queue in outcome.snapshot.queues}
    queue_of = {group.key: group.queue for group in outcome.snapshot.pod_groups}
    claims = {claim.key: claim for claim in outcome.snapshot.resource_claims}
    held: Counter[str] = Counter()
    for pod in outcome.pods.values():
        if pod.state not in ALLOCATED:
            continue
        queue: str | None = queue_of[pod.group]
        while queue is not None:
            held[queue] += charged_milli_gpu(pod, claims)
            queue = parent.get(queue)
    for name, wanted in expected.items():
        if held[name] != wanted.running_gpu_milli:
            yield f"{name} should run {wanted.running_gpu_milli} milli-GPU and runs {held[name]}"


def over_bounds(outcome: Outcome, at_most: parts.AtMost) -> Iterator[str]:
    """Yield a line for each bound on the operations of one cycle that is exceeded."""
    counts = (
        ("binds", len(outcome.binds), at_most.binds),
        ("evictions", len(outcome.evictions), at_most.evictions),
        ("pipelines", len(outcome.pipelines), at_most.pipelines),
    )
    for what, count, bound in counts:
        if bound is not None and count > bound:
            yield f"{count} {what}, at most {bound} expected"


def over_run_bounds(cycles: list[Outcome], bounds: parts.WholeRun) -> Iterator[str]:
    """Yield a line for each bound over all cycles that is not kept."""
    per_pod = Counter(key for outcome in cycles for key in outcome.evictions)
    total = per_pod.total()
    if bounds.max_evictions is not None and total > bounds.max_evictions:
        yield f"{total} evictions in all, at most {bounds.max_evictions} expected"
    if bounds.min_evictions is not None and total < bounds.min_evictions:
        yield f"{total} evictions in all, at least {bounds.min_evictions} expected"
    if bounds.max_evictions_per_pod is not None:
        for key, count in sorted(per_pod.items()):
            if count > bounds.max_evictions_per_pod:
                yield f"{key} is evicted {count} times, at most {bounds.max_evictions_per_pod}"
    yield from _loud_cycles(cycles, bounds.quiet_last_cycles or 0)


def _loud_cycles(cycles: list[Outcome], quiet: int) -> Iterator[str]:
    for outcome in cycles[len(cycles) - quiet :]:
        busy = outcome.binds | outcome.evictions | outcome.pipelines
        if busy:
            yield f"a last cycle should be quiet and touches {', '.join(sorted(busy)[:4])}"
