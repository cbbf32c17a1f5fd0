"""What the fast planner and the reference make of one cluster where room has to be made."""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from scheduler_service.model.pod import PodState
from scheduler_service.model.policy import ACTIONS, Action
from scheduler_service.simulate.outcome import after
from tests.properties.clusters import Cluster
from tests.properties.exactness import planned, world_of
from tests.reference.allocate import Place
from tests.reference.making_room import MakingRoom
from tests.reference.nodes import Ambiguous

RUNS: tuple[tuple[Action, ...], ...] = (
    ("allocate", "consolidate"), ("allocate", "reclaim"), ("allocate", "preempt"), ("evict_stale_gangs",), ACTIONS,
)  # fmt: skip
"""Who fits without losses is placed first, as in every cycle: what an action does with those by itself is free."""


def victim_differences(cluster: Cluster, actions: Sequence[Action]) -> list[str]:
    """Return a line for each pod that the fast planner treats differently in these actions.

    Raises `Ambiguous` where a free choice decides.
    """
    reference = MakingRoom(cluster.snapshot, cluster.policy)
    expected = reference.run(actions)
    policy = msgspec.structs.replace(cluster.policy, actions=tuple(actions))
    plan = planned(cluster.snapshot, policy)
    outcome = after(world_of(cluster), plan)
    lines = []
    was = {pod.key: pod.state for pod in cluster.snapshot.pods}
    for key in sorted(expected):
        want, pod = expected[key], outcome.pods[key]
        if was[key] is PodState.PENDING and want.state is PodState.RELEASING:
            want = Place(PodState.PENDING)  # a promise of this cycle that was dropped again
        if (want.state, want.node) != (pod.state, pod.node):
            lines.append(f"{key}: {want.state} on {want.node}, planned {pod.state} on {pod.node}")
    return lines


def all_differences(cluster: Cluster, counts: Counter[str] | None = None) -> Iterator[str]:
    """Yield them for each action alone and for a cycle; `counts` is told of free choices."""
    for actions in RUNS:
        name = "cycle" if actions == ACTIONS else actions[-1]
        try:
            yield from (f"{name}: {line}" for line in victim_differences(cluster, actions))
        except Ambiguous:
            if counts is not None:
                counts[f"free choices in {name}"] += 1
