"""What a plan makes of a world: each pod's state after the actions, and the next cycle's world.

What belongs here: the cluster that reacts at once, as FORMAT.md's table says. What never does:
judging the outcome (`checks`, `invariants`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from scheduler_service.model.claim import ClaimAllocation, ResourceClaim
from scheduler_service.model.plan import Bind, Evict, Operation, Pipeline, Plan
from scheduler_service.model.pod import IS_WAITING, Pod, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.policy import Action
from scheduler_service.model.reasons import Reason
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.simulate.reader import World

FOR_OTHERS: frozenset[Action] = frozenset({"consolidate", "reclaim", "preempt"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """A world right after the actions of one cycle (or before any)."""

    world: World
    pods: Mapping[str, Pod]
    """By key, in the state and at the place that the plan gives them."""
    binds: frozenset[str] = frozenset()
    evictions: frozenset[str] = frozenset()
    pipelines: frozenset[str] = frozenset()
    reasons: Mapping[str, tuple[Reason, ...]] = field(default_factory=dict)
    leaving: tuple[Pod, ...] = ()
    """Pods told to go in this cycle, where they still are."""

    @property
    def snapshot(self) -> Snapshot:
        """The cluster before the actions."""
        return self.world.snapshot

    def holders(self) -> Iterator[Pod]:
        """Yield every pod that is on its node now; promises hold nothing yet."""
        for pod in self.pods.values():
            if pod.node is not None and pod.state is not PodState.PIPELINED:
                yield pod
        yield from (pod for pod in self.leaving if self.pods[pod.key].state is PodState.PIPELINED)


def before(world: World, reasons: Mapping[str, tuple[Reason, ...]] | None = None) -> Outcome:
    """Return the world as it is, before any action; `reasons` are those of the last cycle."""
    return Outcome(world, {pod.key: pod for pod in world.snapshot.pods}, reasons=reasons or {})


def after(world: World, plan: Plan) -> Outcome:
    """Return what the plan's operations make of the world, in their order."""
    start = {pod.key: pod for pod in world.snapshot.pods}
    pods = dict(start)
    told: dict[str, list[str]] = {"bind": [], "evict": [], "pipeline": []}
    for operation in plan.operations():
        told[_kind(operation)].append(operation.pod)
        pods[operation.pod] = _carried_out(operation, pods[operation.pod], world.snapshot.now_ms)
    return Outcome(
        world=world,
        pods=pods,
        binds=frozenset(told["bind"]),
        evictions=frozenset(told["evict"]),
        pipelines=frozenset(told["pipeline"]),
        reasons={waiting.group: waiting.reasons for waiting in plan.waiting},
        leaving=tuple(
            msgspec.structs.replace(start[key], state=PodState.RELEASING)
            for key in dict.fromkeys(told["evict"])
        ),
    )


def _kind(operation: Operation) -> str:
    match operation:
        case Bind():
            return "bind"
        case Evict():
            return "evict"
        case Pipeline():
            return "pipeline"


def _carried_out(operation: Operation, pod: Pod, now_ms: int) -> Pod:
    match operation:
        case Bind(node=node, devices=devices):
            return msgspec.structs.replace(pod, state=PodState.BOUND, node=node, devices=devices)
        case Pipeline(node=node, devices=devices):
            state = PodState.PIPELINED
            return msgspec.structs.replace(pod, state=state, node=node, devices=devices)
        case Evict():
            return msgspec.structs.replace(pod, state=PodState.RELEASING, deleted_ms=now_ms)


def next_world(outcome: Outcome, plan: Plan) -> World:
    """Return the world of the next cycle: the cluster has reacted to the plan at once."""
    world, snapshot = outcome.world, outcome.world.snapshot
    pods = tuple(_settled(pod, world) for pod in outcome.pods.values())
    disturbed = _disturbed_groups(outcome, plan)
    started = {outcome.pods[key].group for key in outcome.binds}
    groups = tuple(
        _group_after(
            group,
            snapshot.now_ms,
            plan.stale.get(group.key),
            has_started=group.key in started,
            was_disturbed=group.key in disturbed,
        )
        for group in snapshot.pod_groups
    )
    allocations = {
        key: allocation
        for operation in plan.operations()
        if isinstance(operation, Bind)
        for key, allocation in operation.claims
    }
    claims = tuple(
        _claim_after(claim, pods, allocations.get(claim.key)) for claim in snapshot.resource_claims
    )
    after_all = msgspec.structs.replace(
        snapshot, pods=pods, pod_groups=groups, resource_claims=claims
    )
    return World(
        after_all, world.policy, world.stays_releasing, world.key_of_pod, world.key_of_group
    )


def _settled(pod: Pod, world: World) -> Pod:
    if pod.state is PodState.BOUND:
        return msgspec.structs.replace(pod, state=PodState.RUNNING)
    is_leaving = pod.state is PodState.RELEASING
    if is_leaving and (pod.key in world.stays_releasing or is_stuck(pod, world)):
        return pod
    if is_leaving or pod.state is PodState.PIPELINED:
        return msgspec.structs.replace(
            pod, state=PodState.PENDING, node=None, devices=(), deleted_ms=None
        )
    return pod


def is_stuck(pod: Pod, world: World) -> bool:
    """Say whether a releasing pod should have been gone for longer than the policy allows."""
    if pod.state is not PodState.RELEASING or pod.deleted_ms is None:
        return False
    return world.snapshot.now_ms - pod.deleted_ms > world.policy.stuck_after_ms


def _disturbed_groups(outcome: Outcome, plan: Plan) -> set[str]:
    return {
        outcome.pods[operation.pod].group
        for statement in plan.statements
        if statement.action in FOR_OTHERS
        for operation in statement.operations
        if isinstance(operation, Evict)
    }


def _group_after(
    group: PodGroup,
    now_ms: int,
    stale_since_ms: int | None,
    *,
    has_started: bool,
    was_disturbed: bool,
) -> PodGroup:
    started, evicted = group.started_ms, group.last_evicted_ms
    if has_started and started is not None:
        started = now_ms
    if was_disturbed and group.preemption_delay_ms is not None:
        evicted = now_ms
    return msgspec.structs.replace(
        group, started_ms=started, last_evicted_ms=evicted, stale_since_ms=stale_since_ms
    )


def _claim_after(
    claim: ResourceClaim, pods: tuple[Pod, ...], allocation: ClaimAllocation | None
) -> ResourceClaim:
    """Return the claim: allocated while a pod on a node or a foreign user has it."""
    users = tuple(
        pod.key
        for pod in pods
        if claim.name in pod.resource_claims
        and pod.namespace == claim.namespace
        and pod.node is not None
        and pod.state not in IS_WAITING
    )
    held = allocation or claim.allocation
    if not users and not claim.foreign_consumers:
        held = None
    return msgspec.structs.replace(claim, reserved_for=users, allocation=held)
