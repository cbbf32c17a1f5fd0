"""A random cluster over many cycles: every law after every plan, and whether it comes to rest."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

import msgspec

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Bind, Evict, Pipeline, Plan
from scheduler_service.model.policy import Policy
from scheduler_service.model.snapshot import Hold, Snapshot
from scheduler_service.planning.cycle import plan
from scheduler_service.simulate.outcome import after, next_world
from tests.properties.book import exact
from tests.properties.clusters import Cluster
from tests.properties.exactness import world_of
from tests.properties.laws import FOR_OTHERS, breaches, encoded

SETTLED_WITHIN = 30
"""Cycles; clusters of this size come to rest in a few."""


@dataclass(frozen=True)
class Run:
    """What happened: lines for breaches (with the cycle's number), and all plans."""

    lines: tuple[str, ...]
    plans: tuple[Plan, ...]

    @property
    def is_at_rest(self) -> bool:
        """Whether the last plan did nothing."""
        return not self.plans[-1].statements


Judge = Callable[[Cluster, Plan], Iterable[str]]


def run(cluster: Cluster, cycles: int = SETTLED_WITHIN, also: Judge | None = None) -> Run:
    """Let the cluster live until a plan does nothing, at most so many cycles; `also`: further laws."""
    lines: list[str] = []
    plans: list[Plan] = []
    for number in range(1, cycles + 1):
        made = plan(Ledger.from_snapshot(cluster.snapshot), cluster.policy, cluster.snapshot.now_ms)
        plans.append(made)
        found = [*breaches(cluster, made), *(also(cluster, made) if also else ())]
        lines += [f"cycle {number}: {line}" for line in found]
        if not made.statements:
            break
        cluster = following(cluster, made)
    return Run(tuple(lines), tuple(plans))


def following(cluster: Cluster, made: Plan) -> Cluster:
    """Return the cluster after everybody has done what the plan says, promises kept as holds."""
    world = world_of(cluster)
    snapshot = next_world(after(world, made), made).snapshot
    if cluster.policy.hold_ms:
        until = made.now_ms + cluster.policy.hold_ms
        promised = [op for op in made.operations() if isinstance(op, Pipeline)]
        known = {hold.pod: hold.until_ms for hold in snapshot.holds}
        holds = tuple(Hold(op.pod, op.node, known.get(op.pod, until)) for op in promised)
        snapshot = msgspec.structs.replace(snapshot, holds=holds)
    return replace(cluster, snapshot=snapshot)


def stolen(cluster: Cluster, plans: tuple[Plan, ...]) -> Iterator[str]:
    """Yield a line for each group that was promised places, and gets fewer in the next plan.

    That is who somebody left for, and also who was moved: a promise is kept to both.

    Its pods are alike here: which of them starts is its own affair.
    """
    group_of = {pod.key: pod.group for pod in cluster.snapshot.pods}
    for number, (one, two) in enumerate(pairwise(plans), start=1):
        served = Counter(
            group_of[op.pod]
            for statement in one.statements
            for op in statement.operations
            if statement.action in FOR_OTHERS and isinstance(op, Pipeline)
        )
        bound = Counter(group_of[op.pod] for op in two.operations() if isinstance(op, Bind))
        if served - bound:
            yield f"cycle {number + 1} does not start {dict(served - bound)}"


def most_evictions(plans: tuple[Plan, ...]) -> int:
    """Return how often the pod that was told to go most often was told so."""
    told = (op.pod for made in plans for op in made.operations() if isinstance(op, Evict))
    return max(Counter(told).values(), default=0)


# -- purity ----------------------------------------------------------------------------------------


def unlike(cluster: Cluster, seed: int) -> Iterator[str]:
    """Yield a line for each way in which planning is not a pure function of the snapshot."""
    snapshot, policy = cluster.snapshot, cluster.policy
    ledger = Ledger.from_snapshot(snapshot)
    before, seen = exact(ledger), ledger.snapshot(snapshot.now_ms)
    first = encoded(plan(ledger, policy, snapshot.now_ms))
    if exact(ledger) != before:
        yield "planning left something in the ledger"
    if ledger.snapshot(snapshot.now_ms) != seen:
        yield "the ledger's snapshot is another one after planning"
    if encoded(plan(ledger, policy, snapshot.now_ms)) != first:
        yield "planning twice gives two plans"
    if encoded(_planned(seen, policy)) != first:
        yield "the ledger's own snapshot gives another plan"
    if encoded(_planned(shuffled(snapshot, Random(seed)), policy)) != first:
        yield "the order of the input decides"


def _planned(snapshot: Snapshot, policy: Policy) -> Plan:
    return plan(Ledger.from_snapshot(snapshot), policy, snapshot.now_ms)


def shuffled(snapshot: Snapshot, random: Random) -> Snapshot:
    """Return the same snapshot with everything in another order."""
    lists = ("nodes", "queues", "pod_groups", "pods")
    mixed = {name: list(getattr(snapshot, name)) for name in lists}
    for values in mixed.values():
        random.shuffle(values)
    return msgspec.structs.replace(
        snapshot, **{name: tuple(values) for name, values in mixed.items()}
    )
