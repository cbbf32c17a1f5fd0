"""What the fast planner and the reference make of one cluster where room has to be made."""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from scheduler_service.model.policy import ACTIONS, Action
from scheduler_service.simulate.outcome import after
from tests.properties.clusters import Cluster
from tests.properties.exactness import planned, world_of
from tests.reference.making_room import MakingRoom
from tests.reference.nodes import Ambiguous

RUNS: tuple[tuple[Action, ...], ...] = (
    ("consolidate",), ("reclaim",), ("preempt",), ("evict_stale_gangs",), ACTIONS,
)  # fmt: skip


def victim_differences(cluster: Cluster, actions: Sequence[Action]) -> list[str]:
    """Return a line for each pod that the fast planner treats differently in these actions.

    Raises `Ambiguous` where a free choice decides.
    """
    expected = MakingRoom(cluster.snapshot, cluster.policy).run(actions)
    policy = msgspec.structs.replace(cluster.policy, actions=tuple(actions))
    outcome = after(world_of(cluster), planned(cluster.snapshot, policy))
    lines = []
    for key in sorted(expected):
        want, pod = expected[key], outcome.pods[key]
        if (want.state, want.node) != (pod.state, pod.node):
            lines.append(f"{key}: {want.state} on {want.node}, planned {pod.state} on {pod.node}")
    return lines


def all_differences(cluster: Cluster, counts: Counter[str] | None = None) -> Iterator[str]:
    """Yield them for each action alone and for a cycle; `counts` is told of free choices."""
    for actions in RUNS:
        name = actions[0] if len(actions) == 1 else "cycle"
        try:
            yield from (f"{name}: {line}" for line in victim_differences(cluster, actions))
        except Ambiguous:
            if counts is not None:
                counts[f"free choices in {name}"] += 1
