"""Random clusters with everything the reference does not speak of: topologies, rules between pods,
taints, nodes that are away, and groups of which only the surplus may be taken."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import msgspec
from hypothesis import strategies as st

from scheduler_service.model.node import Node, Taint
from scheduler_service.model.plan import Plan
from scheduler_service.model.pod import COUNTS_FOR_QUEUE, Pod, PodAffinity, PodState, Toleration
from scheduler_service.model.pod_group import PodGroup, Preemptibility, SubGroup
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.model.topology import Topology, TopologyConstraint
from tests.properties.clusters import Cluster, cluster
from tests.properties.laws import Case, has_minimum

NET = Topology("net", ("zone", "rack"), {"near": "rack"})
LABELS = ({"app": "x"}, {"app": "y"}, {})


def rich_cluster(seed: int, size: int = 4) -> Cluster:
    """Return the plain cluster of this number with more to it."""
    plain, random = cluster(seed, size), Random(seed)
    snapshot = plain.snapshot
    rich = msgspec.structs.replace(
        snapshot,
        nodes=tuple(_node(node, number, random) for number, node in enumerate(snapshot.nodes)),
        pod_groups=tuple(_group(group, random) for group in snapshot.pod_groups),
        pods=tuple(_pod(pod, random) for pod in snapshot.pods),
        topologies=(NET,),
    )
    return replace(plain, snapshot=rich)


def rich_clusters(max_size: int = 5) -> st.SearchStrategy[Cluster]:
    """Return a strategy of such clusters."""
    return st.builds(rich_cluster, st.integers(0, 2**31), st.integers(1, max_size))


def _node(node: Node, number: int, random: Random) -> Node:
    labels = dict(node.labels) | {"host": node.name}
    if random.random() < 0.9:
        labels["rack"] = f"{labels['zone']}-{number % 2}"
    is_tainted = random.random() < 0.1
    return msgspec.structs.replace(
        node,
        labels=labels,
        taints=(Taint("only", "lab"),) if is_tainted else (),
        ready=random.random() < 0.95,
    )


def _group(group: PodGroup, random: Random) -> PodGroup:
    kind = group.preemptibility
    if kind is Preemptibility.PREEMPTIBLE and random.random() < 0.2:
        kind = Preemptibility.SEMI_PREEMPTIBLE
    levels = [None, "zone", "rack", "near"]
    constraint = None
    if random.random() < 0.35:
        required, preferred = random.choice(levels), random.choice(levels)
        constraint = TopologyConstraint("net", required, preferred)
    gang: SubGroup = msgspec.structs.replace(group.gang, topology=constraint)
    return msgspec.structs.replace(group, preemptibility=kind, gang=gang)


def _pod(pod: Pod, random: Random) -> Pod:
    changes: dict[str, object] = {"labels": random.choice(LABELS)}
    if random.random() < 0.1:
        changes["pod_anti_affinity"] = (PodAffinity({"app": "x"}, random.choice(["host", "zone"])),)
    elif random.random() < 0.05:
        changes["pod_affinity"] = (PodAffinity({"app": "y"}, "zone"),)
    if random.random() < 0.2:
        changes["tolerations"] = (Toleration("only", "lab"),)
    return msgspec.structs.replace(pod, **changes)


# -- laws of what is only here ---------------------------------------------------------------------


def rich_breaches(cluster: Cluster, plan: Plan) -> list[str]:
    """Return a line for each of the further laws that the plan breaks."""
    case = Case(cluster, plan)
    laws = (
        placed_pods_are_where_nodes_allow,
        groups_stay_in_one_required_domain,
        pods_that_repel_are_apart,
        only_the_surplus_of_semi_preemptible_groups_goes,
    )
    return [f"{law.__name__}: {line}" for law in laws for line in law(case)]


def placed_pods_are_where_nodes_allow(case: Case) -> Iterator[str]:
    """Nothing new on nodes that are away, or tainted against it."""
    nodes = {node.name: node for node in case.cluster.snapshot.nodes}
    for key in case.outcome.binds | case.outcome.pipelines:
        pod = case.outcome.pods[key]
        node = nodes[str(pod.node)]
        if not node.ready:
            yield f"{key} is placed on {node.name}, which is not ready"
        if node.taints and not pod.tolerations:
            yield f"{key} is placed on {node.name}, which is tainted"


def groups_stay_in_one_required_domain(case: Case) -> Iterator[str]:
    """What was placed of a group with a required level is with its others, if they are together."""
    snapshot = case.cluster.snapshot
    placed = case.outcome.binds | case.outcome.pipelines
    for group in snapshot.pod_groups:
        constraint = group.gang.topology
        if constraint is None or constraint.required_level is None:
            continue
        level = NET.level_index(constraint.required_level)
        assert level is not None
        domains = _domains(snapshot, level + 1)
        old = {
            domains.get(str(pod.node))
            for pod in case.pods.values()
            if pod.group == group.key and pod.state in COUNTS_FOR_QUEUE
        }
        new = {
            domains.get(str(case.outcome.pods[key].node))
            for key in placed
            if case.pods[key].group == group.key
        }
        stayed = {
            domains.get(str(pod.node))
            for pod in case.outcome.pods.values()
            if pod.group == group.key and pod.state is PodState.RUNNING
        }
        if new and len(old) <= 1 and (None in new or len(new | stayed) > 1):
            yield f"{group.key} is spread over {new | stayed} by level {constraint.required_level}"


def _domains(snapshot: Snapshot, depth: int) -> dict[str, tuple[str, ...]]:
    """Return the domain of each node that belongs to the topology."""
    return {
        node.name: tuple(node.labels[key] for key in NET.levels[:depth])
        for node in snapshot.nodes
        if all(key in node.labels for key in NET.levels)
    }


def pods_that_repel_are_apart(case: Case) -> Iterator[str]:
    """A bound pod shares no domain with a pod that it, or that repels it."""
    labels = {node.name: node.labels for node in case.cluster.snapshot.nodes}
    there = [pod for pod in case.outcome.holders() if pod.state is not PodState.RELEASING]
    for key in case.outcome.binds:
        pod = case.outcome.pods[key]
        for other in there:
            if other.key == key:
                continue
            for one, two in ((pod, other), (other, pod)):
                for term in one.pod_anti_affinity:
                    place = labels[str(one.node)].get(term.topology_key)
                    is_near = place == labels[str(two.node)].get(term.topology_key)
                    is_meant = term.match_labels.items() <= two.labels.items()
                    if is_near and is_meant and place is not None:
                        yield f"{one.key} repels {two.key} and shares {place} with it"


def only_the_surplus_of_semi_preemptible_groups_goes(case: Case) -> Iterator[str]:
    """A group that had its minimum keeps it, stale gangs apart."""
    if any(statement.action == "evict_stale_gangs" for statement in case.plan.statements):
        return
    for group in case.cluster.snapshot.pod_groups:
        if group.preemptibility is not Preemptibility.SEMI_PREEMPTIBLE:
            continue
        had, has = (
            has_minimum(case, group.key, pods.values()) for pods in (case.pods, case.outcome.pods)
        )
        if had and not has:
            yield f"{group.key} is cut below its minimum"
