"""The same laws where there is more: topologies, rules between pods, taints, semi-preemptible groups."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_service.model.plan import Bind, Evict, Pipeline, Plan, Statement
from scheduler_service.model.pod import PodState
from scheduler_service.model.reasons import Cancelled
from tests.properties.clusters import Cluster
from tests.properties.cycles import run, unlike
from tests.properties.exactness import planned
from tests.properties.laws import breaches
from tests.properties.rich import rich_breaches, rich_cluster, rich_clusters

PROFILE = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@given(rich_clusters())
@PROFILE
def test_a_plan_keeps_every_law_of_rich_clusters_too(cluster: Cluster):
    plan = planned(cluster.snapshot, cluster.policy)

    assert not breaches(cluster, plan)
    assert not rich_breaches(cluster, plan)


@given(rich_clusters(), st.integers(0, 99))
@settings(PROFILE, max_examples=100)
def test_planning_rich_clusters_is_pure(cluster: Cluster, seed: int):
    assert not list(unlike(cluster, seed))


@given(rich_clusters())
@settings(PROFILE, max_examples=80)
def test_rich_clusters_keep_every_law_over_many_cycles(cluster: Cluster):
    assert not run(cluster, cycles=8, also=rich_breaches).lines


def test_each_further_law_is_broken_by_some_broken_plan():
    """When this happens: never in life, which is why the laws need a test of their own."""
    broken = set()
    for seed in range(80):
        found = rich_cluster(seed, 1 + seed % 5)
        for plan in broken_plans(found):
            broken |= {line.partition(":")[0] for line in rich_breaches(found, plan)}

    assert broken == {
        "placed_pods_are_where_nodes_allow",
        "groups_stay_in_one_required_domain",
        "pods_that_repel_are_apart",
        "only_the_surplus_of_semi_preemptible_groups_goes",
    }


def broken_plans(found: Cluster):
    snapshot = found.snapshot
    pending = [pod for pod in snapshot.pods if pod.state is PodState.PENDING]
    running = [pod for pod in snapshot.pods if pod.state is PodState.RUNNING]
    nodes = [node.name for node in snapshot.nodes]
    spread = [(pod.key, nodes[number % len(nodes)]) for number, pod in enumerate(pending)]
    for operations in (
        tuple(Bind(pod, node) for pod, node in spread),
        tuple(Pipeline(pod, node) for pod, node in spread),
        tuple(Evict(pod.key, str(pod.node), Cancelled("ana")) for pod in running),
    ):
        group = snapshot.pod_groups[0].key
        yield Plan(snapshot.now_ms, (Statement("preempt", group, operations),))
