"""Random clusters in which some have waited long and some said how long they run, and the laws of that.

What is kept is judged by what it is for: at the moment that was named the group must find its place.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import msgspec

from scheduler_service.model.gpu import Mig, WholeGpus
from scheduler_service.model.plan import Bind, Evict, Pipeline, Plan
from scheduler_service.model.pod import ALLOCATED, Pod, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.policy import Policy
from scheduler_service.model.reasons import KeptForOther, RoomKept
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.simulate.outcome import after
from tests.properties.clusters import NOW_MS, Cluster, cluster
from tests.properties.exactness import planned, world_of

MINUTE = 60_000


def reserving_cluster(seed: int, size: int = 4) -> Cluster:
    """Return the plain cluster of this number, with times, under a policy that keeps room."""
    plain, random = cluster(seed, size), Random(seed)
    running = {pod.group for pod in plain.snapshot.pods if pod.state is PodState.RUNNING}
    groups = tuple(
        _with_times(group, random, runs=group.key in running) for group in plain.snapshot.pod_groups
    )
    policy = msgspec.structs.replace(
        plain.policy,
        reserve_after_ms=10 * MINUTE,
        reserve_for_ms=random.choice([0, 10 * MINUTE]),
        age_ms=random.choice([0, MINUTE]),
        max_age=random.choice([0, 25]),
        hold_ms=random.choice([0, 30_000]),
    )
    snapshot = msgspec.structs.replace(plain.snapshot, pod_groups=groups)
    return replace(plain, snapshot=snapshot, policy=policy)


def _with_times(group: PodGroup, random: Random, *, runs: bool) -> PodGroup:
    run_ms = random.choice([None, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE])
    return msgspec.structs.replace(
        group,
        waits_since_ms=NOW_MS - random.choice([1, 12, 25, 60]) * MINUTE,
        started_ms=NOW_MS - 2 * MINUTE if runs else group.started_ms,
        run_ms=run_ms,
        preemption_delay_ms=None,
    )


def reserving_breaches(cluster: Cluster, made: Plan) -> Iterator[str]:
    """Yield a line for each way in which a reservation is not what it says."""
    yield from _one_at_most(made)
    yield from _it_fits_at_its_moment(cluster, made)
    yield from _only_behind_one(made)


def _said(made: Plan, kind: type[RoomKept | KeptForOther]) -> list[tuple[str, int | None]]:
    return [
        (waiting.group, reason.left_ms)
        for waiting in made.waiting
        for reason in waiting.reasons
        if isinstance(reason, kind)
    ]


def _one_at_most(made: Plan) -> Iterator[str]:
    kept = _said(made, RoomKept)
    if len(kept) > 1:
        yield f"room is kept for {len(kept)} groups"


def _only_behind_one(made: Plan) -> Iterator[str]:
    """Whoever is told of a reservation is told of one that was made (its group may start by it)."""
    lefts = {left for _, left in _said(made, RoomKept)}
    started = {statement.group for statement in made.statements}
    for waiting in made.waiting:
        for reason in waiting.reasons:
            if isinstance(reason, KeptForOther):
                if reason.group == waiting.group:
                    yield f"{waiting.group} is kept from its own room"
                if reason.group not in started and reason.left_ms not in lefts:
                    yield f"{waiting.group} hears of a reservation that nobody has"


def _it_fits_at_its_moment(cluster: Cluster, made: Plan) -> Iterator[str]:
    for key, left in _said(made, RoomKept):
        if left is None or any(isinstance(op, Evict | Pipeline) for op in made.operations()):
            continue
        later = _later(cluster, made, key, cluster.snapshot.now_ms + left)
        if not _is_judged(later, key):
            continue
        then = planned(later, Policy(placement=cluster.policy.placement, actions=("allocate",)))
        if not any(s.group == key and s.operations for s in then.statements):
            yield f"{key} does not fit in {left // 1000} s, though room was kept for it"


def _is_judged(snapshot: Snapshot, key: str) -> bool:
    """Say whether only what is kept decides: parts of GPUs and slices are not."""
    asked = [pod.request.gpu for pod in snapshot.pods if pod.group == key]
    return all(gpu is None or isinstance(gpu, WholeGpus) for gpu in asked) and not any(
        isinstance(gpu, Mig) for gpu in asked
    )


def _later(cluster: Cluster, made: Plan, key: str, moment: int) -> Snapshot:
    """Return the cluster at a moment: who said so has ended, and only this group waits."""
    outcome = after(world_of(cluster), made)
    groups = {group.key: group for group in cluster.snapshot.pod_groups}
    touched = {op.pod for op in made.operations() if isinstance(op, Bind | Evict | Pipeline)}
    pods = []
    for pod in outcome.pods.values():
        if pod.group == key:
            pods.append(pod)
        elif pod.state in ALLOCATED | {PodState.PIPELINED}:
            end = _end(groups[pod.group], cluster.snapshot.now_ms, is_new=pod.key in touched)
            if end is None or end > moment or pod.state is PodState.PIPELINED:
                pods.append(msgspec.structs.replace(pod, state=PodState.RUNNING))
        elif pod.state is PodState.RELEASING and _is_stuck(pod, cluster):
            pods.append(pod)
    return msgspec.structs.replace(cluster.snapshot, pods=tuple(pods), holds=())


def _is_stuck(pod: Pod, cluster: Cluster) -> bool:
    gone = cluster.snapshot.now_ms if pod.deleted_ms is None else pod.deleted_ms
    return cluster.snapshot.now_ms - gone > cluster.policy.stuck_after_ms


def _end(group: PodGroup, now_ms: int, *, is_new: bool) -> int | None:
    began = now_ms if is_new else group.started_ms
    return None if group.run_ms is None or began is None else began + group.run_ms
