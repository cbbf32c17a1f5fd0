"""What must hold of every plan for every cluster, whatever the planner thinks it is doing.

One function a law; each yields a line for a breach. All of it is recounted from the pods, with
the reference's books, never from the ledger.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler_service.model import reasons
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, WholeGpus
from scheduler_service.model.plan import Bind, Evict, Operation, Pipeline, Plan, Statement
from scheduler_service.model.pod import ALLOCATED, COUNTS_FOR_QUEUE, Pod, PodState
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.simulate import invariants
from scheduler_service.simulate.outcome import Outcome, after
from tests.properties.clusters import Cluster
from tests.properties.exactness import world_of
from tests.reference.allocate import Place, Reference
from tests.reference.gang import COUNTS, has_enough
from tests.reference.nodes import Holder, NodeNow
from tests.reference.shares import KINDS, ZERO, Amount, Books, plus

FOR_OTHERS: Final = frozenset({"consolidate", "reclaim", "preempt"})


@dataclass
class Case:
    """A cluster, its plan, and what the plan makes of it."""

    cluster: Cluster
    plan: Plan
    outcome: Outcome = field(init=False)
    pods: dict[str, Pod] = field(init=False)
    """As they were before."""

    def __post_init__(self) -> None:
        self.outcome = after(world_of(self.cluster), self.plan)
        self.pods = {pod.key: pod for pod in self.cluster.snapshot.pods}

    def reference(self) -> Reference:
        """Return the books before the plan."""
        return Reference(self.cluster.snapshot, self.cluster.policy)

    def steps(self) -> Iterator[tuple[Statement, Reference]]:
        """Yield each statement with the books right after it."""
        books = self.reference()
        for statement in self.plan.statements:
            for operation in statement.operations:
                books.places[operation.pod] = _place(operation)
            yield statement, books


def _place(operation: Operation) -> Place:
    match operation:
        case Bind(node=node, devices=devices):
            return Place(PodState.BOUND, node, tuple(share.device for share in devices))
        case Pipeline(node=node, devices=devices):
            return Place(PodState.PIPELINED, node, tuple(share.device for share in devices))
        case Evict(node=node):
            return Place(PodState.RELEASING, node)


def breaches(cluster: Cluster, plan: Plan) -> list[str]:
    """Return a line for each law that the plan breaks."""
    case = Case(cluster, plan)
    return [f"{law.__name__}: {line}" for law in LAWS for line in law(case)]


# -- places --------------------------------------------------------------------------------------


def what_is_always_true(case: Case) -> Iterator[str]:
    """Nodes and shared GPUs hold what is bound, nothing is bound and evicted, leaves have enough."""
    yield from invariants.breaches(case.outcome)


def promises_can_be_kept(case: Case) -> Iterator[str]:
    """Once all who leave have left, every node has room for who stays and who was promised."""
    touched = {case.outcome.pods[key].node for key in case.outcome.binds | case.outcome.pipelines}
    for node in case.cluster.snapshot.nodes:
        if node.name not in touched:
            continue
        holders = [
            Holder(pod, "stays", tuple(share.device for share in pod.devices))
            for pod in case.outcome.pods.values()
            if pod.node == node.name and _is_there_later(pod, case)
        ]
        room = NodeNow(node, holders).room({"stays"})
        for what in ("gpus", "milli_cpu", "memory_bytes", "pods"):
            if getattr(room, what) < 0:
                yield f"{node.name} is promised {-getattr(room, what)} {what} too much"
        if any(left < 0 for left in room.mig.values()):
            yield f"{node.name} is promised too many slices"
        yield from _shared_memory(node.name, holders, node.gpus, node.gpu_memory_mib or 1000)


def _is_there_later(pod: Pod, case: Case) -> bool:
    if pod.state is not PodState.RELEASING:
        return pod.state in COUNTS_FOR_QUEUE
    gone = pod.deleted_ms if pod.deleted_ms is not None else case.cluster.snapshot.now_ms
    return case.cluster.snapshot.now_ms - gone > case.cluster.policy.stuck_after_ms


def _shared_memory(name: str, holders: list[Holder], gpus: int, size: int) -> Iterator[str]:
    """Shared GPUs together never hold more than the GPUs that are not taken whole."""
    whole = sum(
        h.pod.request.gpu.count for h in holders if isinstance(h.pod.request.gpu, WholeGpus)
    )
    shared = 0
    for holder in holders:
        request = holder.pod.request.gpu
        if isinstance(request, FractionOfGpu):
            shared += request.devices * (request.milli * size // 1000)
        elif isinstance(request, GpuMemory):
            shared += request.devices * request.mib
    if shared > (gpus - whole) * size:
        yield f"{name} has {shared} MiB of shared GPUs on {gpus - whole} GPUs of {size}"


# -- gangs -----------------------------------------------------------------------------------------


def gangs_start_whole(case: Case) -> Iterator[str]:
    """A group that something new was bound or promised for has its minimum after it."""
    placed = (case.outcome.binds | case.outcome.pipelines) - case.outcome.evictions
    for key in {case.pods[pod].group for pod in placed}:
        if not has_minimum(case, key, case.outcome.pods.values()):
            yield f"{key} was started below its minimum"


def gangs_go_whole(case: Case) -> Iterator[str]:
    """A group that had its minimum and lost pods still has it, or has lost all."""
    for key in {case.pods[pod].group for pod in case.outcome.evictions}:
        left = [
            pod
            for pod in case.outcome.pods.values()
            if pod.group == key and pod.state in COUNTS_FOR_QUEUE
        ]
        had = has_minimum(case, key, case.pods.values())
        if had and left and not has_minimum(case, key, case.outcome.pods.values()):
            yield f"{key} was cut below its minimum and keeps {len(left)} pods"


def has_minimum(case: Case, key: str, pods: Iterable[Pod]) -> bool:
    """Whether a group has what its tree needs, with the pods as they are in `pods`."""
    group = next(group for group in case.cluster.snapshot.pod_groups if group.key == key)
    counted = (pod.sub_group for pod in pods if pod.group == key and pod.state in COUNTS)
    return has_enough(group.gang, Counter(counted))


# -- who may be asked to leave -----------------------------------------------------------------------


def only_running_pods_are_told_to_go(case: Case) -> Iterator[str]:
    """Nobody is evicted who is not there, is leaving already, or more than once."""
    told = [op for op in case.plan.operations() if isinstance(op, Evict)]
    for operation in told:
        pod = case.pods[operation.pod]
        if pod.state not in ALLOCATED or pod.node != operation.node:
            yield f"{pod.key} is evicted from {operation.node} while {pod.state} on {pod.node}"
    for key, count in Counter(operation.pod for operation in told).items():
        if count > 1:
            yield f"{key} is evicted {count} times"


def protected_work_is_left_alone(case: Case) -> Iterator[str]:
    """Non-preemptible groups lose nothing to consolidate, reclaim or preempt."""
    groups = {group.key: group for group in case.cluster.snapshot.pod_groups}
    for statement in case.plan.statements:
        for operation in statement.operations:
            if isinstance(operation, Evict) and statement.action in FOR_OTHERS:
                victim = groups[case.pods[operation.pod].group]
                if victim.preemptibility is Preemptibility.NON_PREEMPTIBLE:
                    yield f"{operation.pod} may not be taken and is, by {statement.action}"


def each_action_takes_from_its_own_victims(case: Case) -> Iterator[str]:
    """Preempt: same queue, lower priority. Reclaim: another queue. Consolidate: nobody is lost."""
    groups = {group.key: group for group in case.cluster.snapshot.pod_groups}
    for statement in case.plan.statements:
        mine = groups.get(statement.group)
        told = {op.pod for op in statement.operations if isinstance(op, Evict)}
        placed = {op.pod for op in statement.operations if not isinstance(op, Evict)}
        for key in told:
            theirs = groups[case.pods[key].group]
            if mine is None:
                continue
            if statement.action == "preempt" and (
                theirs.queue != mine.queue or theirs.priority >= mine.priority
            ):
                yield f"{mine.key} preempts {key}"
            if statement.action == "reclaim" and theirs.queue == mine.queue:
                yield f"{mine.key} reclaims {key} of its own queue"
            if statement.action == "consolidate" and key not in placed:
                yield f"{key} is moved for {mine.key} and has no place"
        if statement.action == "allocate" and told:
            yield f"allocate evicts {sorted(told)}"


def nobody_leaves_for_a_group_that_has_to_wait(case: Case) -> Iterator[str]:
    """Inside its preemption delay a group disturbs nobody."""
    groups = {group.key: group for group in case.cluster.snapshot.pod_groups}
    for statement in case.plan.statements:
        group = groups.get(statement.group)
        if group is None or statement.action not in FOR_OTHERS or not group.preemption_delay_ms:
            continue
        since = max(group.made_ms or 0, group.last_evicted_ms or 0)
        if case.plan.now_ms - since < group.preemption_delay_ms:
            yield f"{statement.action} for {group.key} before its delay is over"


def evicted_pods_are_not_placed(case: Case) -> Iterator[str]:
    """Who is told to go is placed again only as moved, by the statement that told it."""
    for statement in case.plan.statements:
        told = {op.pod for op in statement.operations if isinstance(op, Evict)}
        for operation in statement.operations:
            if isinstance(operation, Pipeline) and operation.moved != (operation.pod in told):
                yield f"{operation.pod} is promised a place, moved={operation.moved}"
            if isinstance(operation, Bind) and operation.pod in case.outcome.evictions:
                yield f"{operation.pod} is evicted and bound"


# -- queues ----------------------------------------------------------------------------------------


def nothing_is_placed_beyond_limit_or_quota(case: Case) -> Iterator[str]:
    """Right after a statement, the queues of what it placed are within their bounds."""
    groups = {group.key: group for group in case.cluster.snapshot.pod_groups}
    for statement, now in case.steps():
        books = now.books()
        for operation in statement.operations:
            if isinstance(operation, Evict):
                continue
            pod = case.pods[operation.pod]
            group = groups[pod.group]
            held = now.held(pod)
            firm = group.preemptibility is Preemptibility.NON_PREEMPTIBLE
            for queue in books.path(group.queue):
                if line := _over(queue.name, books.allocated[queue.name], held, "limit", now):
                    yield f"{statement.action} of {pod.key}: {line}"
                have = books.firm[queue.name]
                if firm and (line := _over(queue.name, have, held, "quota", now)):
                    yield f"{statement.action} of {pod.key}: {line}"


def _over(queue: str, have: Amount, asked: Amount, bound: str, now: Reference) -> str | None:
    for index, kind in enumerate(KINDS):
        most = getattr(now.queues[queue].share_of(kind), bound)
        if asked[index] and most is not None and have[index] > most:
            return f"{queue} has {float(have[index])} {kind}, {bound} {most}"
    return None


def reclaim_stays_within_the_fair_share(case: Case) -> Iterator[str]:
    """A queue that takes from another is not above its own fair share after it.

    Pending memory is measured exactly, placed memory in whole hundredths of a GPU: that much more
    is no breach.
    """
    groups = {group.key: group for group in case.cluster.snapshot.pod_groups}
    for statement, now in case.steps():
        if statement.action != "reclaim":
            continue
        queue = groups[statement.group].queue
        have, fair = now.books().allocated[queue], case.plan.fair_shares[queue]
        for index, kind in enumerate(KINDS):
            slack = _rounding(statement, case) if kind == "gpu" else 0
            if have[index] > fair.of(kind) + slack:
                yield f"{queue} reclaims up to {float(have[index])} {kind} of {fair.of(kind)}"


def nobody_gives_from_within_its_quota(case: Case) -> Iterator[str]:
    """Where the paths of two queues part, the one that gives held more than its quota of something.

    Each loss is judged before it is taken, a gang is one: with some loss back it is above its quota.
    A promise that is dropped is a loss, too, but no plan tells how much it was. Who was moved and is then stopped for
    being below its minimum lost nothing to others.
    """
    groups = {group.key: group for group in case.cluster.snapshot.pod_groups}
    if any(_is_behind(reason) for waiting in case.plan.waiting for reason in waiting.reasons):
        return
    for statement, now in case.steps():
        if statement.action != "reclaim":
            continue
        books, own = now.books(), groups[statement.group].queue
        lost: dict[str, dict[str, Amount]] = {}
        for key in _lost_for_good(statement):
            group = groups[case.pods[key].group]
            giver = _where_they_part(books, own, group.queue)
            amounts = lost.setdefault(giver, {})
            held = now.held(case.pods[key], case.pods[key].node)
            amounts[group.key] = plus(amounts.get(group.key, ZERO), held)
        for giver, losses in lost.items():
            left = books.allocated[giver]
            if not losses.keys() & case.plan.stale.keys() and not any(
                _is_above_quota(giver, plus(left, one), now) for one in losses.values()
            ):
                yield f"{giver} gives to {own} and is within its quota with each loss"


def _lost_for_good(statement: Statement) -> set[str]:
    told = {op.pod for op in statement.operations if isinstance(op, Evict)}
    return told - {op.pod for op in statement.operations if isinstance(op, Pipeline)}


def _where_they_part(books: Books, own: str, other: str) -> str:
    """Return the queue on the way to `other` that is not on the way to `own`; the top one of them."""
    mine = {queue.name for queue in books.path(own)}
    apart = [queue.name for queue in books.path(other) if queue.name not in mine]
    return apart[-1] if apart else other


def _is_above_quota(queue: str, held: Amount, now: Reference) -> bool:
    for index, kind in enumerate(KINDS):
        share = now.queues[queue].share_of(kind)
        bounds = [bound for bound in (share.quota, share.limit) if bound is not None]
        if bounds and held[index] > min(bounds):
            return True
    return False


def _rounding(statement: Statement, case: Case) -> int:
    asked = (case.pods[operation.pod].request.gpu for operation in statement.operations)
    return sum(10 * gpu.devices for gpu in asked if isinstance(gpu, GpuMemory))


# -- words -----------------------------------------------------------------------------------------


def everybody_is_told_why(case: Case) -> Iterator[str]:
    """Every group with a waiting pod has a reason, every eviction too, each one a short sentence."""
    said = {waiting.group: waiting for waiting in case.plan.waiting}
    for pod in case.outcome.pods.values():
        if pod.state is PodState.PENDING:
            waiting = said.get(pod.group)
            if waiting is None or not waiting.reasons:
                yield f"{pod.group} waits without a reason"
    words = [reason for waiting in said.values() for reason in waiting.reasons]
    words += [op.reason for op in case.plan.operations() if isinstance(op, Evict)]
    for reason in words:
        text = reasons.sentence(reason)
        if not text or len(str(reason)) > reasons.MAX_SENTENCE:
            yield f"too long or empty: {text}"
        if reasons.code(reason) == "planning_failed":
            yield f"internal error: {text}"


def each_action_says_why(case: Case) -> Iterator[str]:
    """A group with a pending pod that an action did nothing for hears from that action.

    Who lost a promise to others hears just that.
    """
    policy = case.cluster.policy
    silent = {"evict_stale_gangs"}
    if policy.max_consolidation_victims == 0:
        silent.add("consolidate")
    said = {waiting.group: dict(waiting.by_action) for waiting in case.plan.waiting}
    served = {(statement.action, statement.group) for statement in case.plan.statements}
    pending = {pod.group for pod in case.outcome.pods.values() if pod.state is PodState.PENDING}
    outdone = {w.group for w in case.plan.waiting if any(map(_is_behind, w.reasons))}
    for group in (pending & said.keys()) - outdone:
        for action in policy.actions:
            is_served = (action, group) in served
            if action not in silent and not is_served and not said[group].get(action):
                yield f"{group} waits and {action} does not say why"


def _is_behind(reason: reasons.Reason) -> bool:
    return reasons.code(reason) == "behind"


LAWS: Final[tuple[Callable[[Case], Iterator[str]], ...]] = (
    what_is_always_true,
    promises_can_be_kept,
    gangs_start_whole,
    gangs_go_whole,
    only_running_pods_are_told_to_go,
    protected_work_is_left_alone,
    each_action_takes_from_its_own_victims,
    nobody_leaves_for_a_group_that_has_to_wait,
    evicted_pods_are_not_placed,
    nothing_is_placed_beyond_limit_or_quota,
    reclaim_stays_within_the_fair_share,
    nobody_gives_from_within_its_quota,
    everybody_is_told_why,
    each_action_says_why,
)


def encoded(plan: Plan) -> bytes:
    """Return a plan as bytes, to compare two of them."""
    return msgspec.json.encode(plan)
