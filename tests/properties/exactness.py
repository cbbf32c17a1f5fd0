"""What the fast planner and the reference make of one cluster, and where they differ."""

from collections import Counter
from collections.abc import Iterable

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory
from scheduler_service.model.plan import Plan
from scheduler_service.model.pod import HOLDS_RESOURCES, Pod, PodState
from scheduler_service.model.policy import Policy
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.cycle import plan
from scheduler_service.simulate.outcome import after
from scheduler_service.simulate.reader import World
from tests.properties.clusters import Cluster
from tests.reference.allocate import Place, Reference

HOLDS_NOW = HOLDS_RESOURCES - {PodState.PIPELINED}
Shared = FractionOfGpu | GpuMemory


def world_of(cluster: Cluster) -> World:
    """Return the cluster as the scenario runner knows it."""
    keys = {pod.key: pod.key for pod in cluster.snapshot.pods}
    groups = {group.key: group.key for group in cluster.snapshot.pod_groups}
    return World(cluster.snapshot, cluster.policy, frozenset(), keys, groups)


def planned(snapshot: Snapshot, policy: Policy) -> Plan:
    """Return the fast planner's plan."""
    return plan(Ledger.from_snapshot(snapshot), policy, snapshot.now_ms)


def allocate_differences(cluster: Cluster) -> list[str]:
    """Return a line for each pod that the fast planner's allocate treats differently.

    Raises `Ambiguous` where a free choice decides.
    """
    expected = Reference(cluster.snapshot, cluster.policy).allocate()
    only = _only_allocate(cluster.policy)
    outcome = after(world_of(cluster), planned(cluster.snapshot, only))
    lines = []
    for key in sorted(expected):
        want, pod = expected[key], outcome.pods[key]
        if (want.state, want.node) != (pod.state, pod.node):
            lines.append(f"{key}: {want.state} on {want.node}, planned {pod.state} on {pod.node}")
    found = _fill(cluster, _places(outcome.pods.values()))
    if not lines and _fill(cluster, expected) != found:
        lines.append(f"devices: {_fill(cluster, expected)}, planned {found}")
    return lines


def _only_allocate(policy: Policy) -> Policy:
    return Policy(
        placement=policy.placement,
        actions=("allocate",),
        stale_gang_grace_ms=policy.stale_gang_grace_ms,
        max_consolidation_victims=policy.max_consolidation_victims,
    )


def _places(pods: Iterable[Pod]) -> dict[str, Place]:
    return {p.key: Place(p.state, p.node, tuple(s.device for s in p.devices)) for p in pods}


def _fill(
    cluster: Cluster, places: dict[str, Place]
) -> dict[str, list[tuple[tuple[str, int], ...]]]:
    """Return, for each node, who shares a GPU with whom, promises apart; names play no part."""
    tenants: dict[tuple[str, str], Counter[str]] = {}
    for pod in cluster.snapshot.pods:
        place = places[pod.key]
        if place.state in HOLDS_NOW and isinstance(pod.request.gpu, Shared):
            for device in place.devices:
                amounts = tenants.setdefault((str(place.node), device), Counter())
                amounts[f"{place.state} {pod.request.gpu}"] += 1
    found: dict[str, list[tuple[tuple[str, int], ...]]] = {}
    for (node, _), amounts in tenants.items():
        found.setdefault(node, []).append(tuple(sorted(amounts.items())))
    return {node: sorted(devices) for node, devices in found.items()}
