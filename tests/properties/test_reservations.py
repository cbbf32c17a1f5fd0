"""Room that is kept: every other law holds beside it, and at its moment the group finds its place."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_service.model.plan import Plan
from tests.properties.clusters import Cluster
from tests.properties.cycles import unlike
from tests.properties.exactness import planned
from tests.properties.laws import breaches
from tests.properties.reserving import reserving_breaches, reserving_cluster

PROFILE = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
CLUSTERS = st.builds(reserving_cluster, st.integers(0, 2**31), st.integers(1, 6))


@given(CLUSTERS)
@PROFILE
def test_a_plan_that_keeps_room_keeps_every_law(cluster: Cluster):
    made = planned(cluster.snapshot, cluster.policy)

    assert not breaches(cluster, made)
    assert not list(reserving_breaches(cluster, made))


@given(CLUSTERS, st.integers(0, 99))
@settings(PROFILE, max_examples=50)
def test_planning_with_reservations_is_pure(cluster: Cluster, seed: int):
    assert not list(unlike(cluster, seed))


def test_the_law_finds_a_reservation_that_others_used_up():
    """When this happens: never in life; a plan for a smaller cluster, judged on a fuller one."""
    found = 0
    for seed in range(300):
        cluster = reserving_cluster(seed, 1 + seed % 6)
        made = planned(cluster.snapshot, cluster.policy)
        found += bool(list(reserving_breaches(cluster, _twice(made))))
    assert found


def _twice(made: Plan) -> Plan:
    """Return the plan with each reason said by two groups, as if room was kept for both."""
    return Plan(made.now_ms, made.statements, (*made.waiting, *made.waiting))
