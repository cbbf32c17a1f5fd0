"""What every plan of every cluster keeps, and what a cluster does when its plans are carried out."""

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scheduler_service.model.plan import Bind, Evict, Pipeline, Plan, Statement, Waiting
from scheduler_service.model.pod import PodState
from scheduler_service.model.policy import ACTIONS
from scheduler_service.model.reasons import Cancelled
from scheduler_service.model.resources import Resources
from tests.properties import laws
from tests.properties.clusters import Cluster, cluster, clusters
from tests.properties.cycles import most_evictions, run, stolen, unlike
from tests.properties.exactness import planned
from tests.properties.laws import breaches

MOST_EVICTIONS = 3
"""Of one pod, until a cluster that nobody touches has come to rest."""
PROFILE = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@given(clusters())
@example(cluster(205, 3))  # moved by reclaim, then stopped for being below its minimum
@PROFILE
def test_a_plan_keeps_every_law(cluster: Cluster):
    assert not breaches(cluster, planned(cluster.snapshot, cluster.policy))


@given(clusters(), st.integers(0, 99))
@PROFILE
def test_planning_is_a_pure_function_of_the_snapshot(cluster: Cluster, seed: int):
    assert not list(unlike(cluster, seed))


def with_holds(cluster: Cluster) -> Cluster:
    """Return the cluster under the settings of an installation: freed places are held."""
    return replace(cluster, policy=msgspec.structs.replace(cluster.policy, hold_ms=30_000))


@given(clusters())
@settings(PROFILE, max_examples=150)
def test_every_cycle_of_a_cluster_keeps_every_law_and_it_comes_to_rest(cluster: Cluster):
    history = run(with_holds(cluster))

    assert not history.lines
    assert history.is_at_rest


@given(clusters())
@settings(PROFILE, max_examples=150)
def test_freed_places_go_to_whom_they_were_freed_for(cluster: Cluster):
    """When this happens: a busy cluster, where the evicted would come first for the free room."""
    history = run(with_holds(cluster))

    assert not list(stolen(cluster, history.plans))
    assert most_evictions(history.plans) <= MOST_EVICTIONS


# -- the judges can say no ---------------------------------------------------------------------


@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
def test_every_law_is_broken_by_some_broken_plan(law):
    """When this happens: never in life, which is why the law needs a test of its own."""
    assert any(list(law(case)) for case in broken_cases())


def broken_cases() -> Iterator[laws.Case]:
    """Yield random clusters, each with the plans of a planner that does everything wrong."""
    for seed in range(60):
        found = cluster(seed, 1 + seed % 5)
        for plan in broken_plans(found):
            yield laws.Case(found, plan)


def broken_plans(found: Cluster) -> Iterator[Plan]:
    snapshot = found.snapshot
    pending = [pod for pod in snapshot.pods if pod.state is PodState.PENDING]
    running = [pod for pod in snapshot.pods if pod.state is PodState.RUNNING]
    node = snapshot.nodes[0].name
    binds = tuple(Bind(pod.key, node) for pod in pending)
    promises = tuple(Pipeline(pod.key, node) for pod in pending)
    evicts = tuple(Evict(pod.key, str(pod.node), Cancelled("ana")) for pod in running[:1])
    again = tuple(Bind(pod.key, node) for pod in running[:1])
    silent = tuple(Waiting(group.key, ()) for group in snapshot.pod_groups)
    shares = dict.fromkeys((queue.name for queue in snapshot.queues), Resources())
    for group in snapshot.pod_groups:
        for action in ACTIONS:
            for operations in (binds, promises, evicts, (*evicts, *again), evicts * 2):
                statement = Statement(action, group.key, operations)
                yield Plan(snapshot.now_ms, (statement,), fair_shares=shares)
                yield Plan(snapshot.now_ms, (statement,), silent, fair_shares=shares)
