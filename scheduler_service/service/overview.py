"""What the last plan said, by group: why it waits, where it stands, which pods have a promised place. Frozen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scheduler_service.model.plan import Pipeline, Plan, Waiting
from scheduler_service.model.reasons import GangShort
from scheduler_service.wire.pod_group import EtaView
from scheduler_service.words.group import Standing


@dataclass(frozen=True, slots=True)
class Overview:
    """One plan, indexed. `etas` come from the forecast of each waiting group."""

    plan: Plan | None = None
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    queue_of: Mapping[str, str] = field(default_factory=dict)
    in_queue: Mapping[str, int] = field(default_factory=dict)
    promised: Mapping[str, frozenset[int]] = field(default_factory=dict)
    etas: Mapping[str, EtaView] = field(default_factory=dict)

    def standing(self, key: str) -> Standing:
        """Return where a group stands; an empty one for a group that the plan did not see."""
        waiting = self.waiting.get(key)
        if waiting is None:
            return Standing()
        short = next((r for r in waiting.reasons if isinstance(r, GangShort)), None)
        return Standing(
            position=waiting.position,
            waiting_in_queue=self.in_queue.get(self.queue_of.get(key, ""), 1),
            overall=waiting.overall,
            eta=self.etas.get(key),
            reason=waiting.main_reason,
            fitting=None if short is None else short.placed,
        )


def by_name(pod: str) -> tuple[str, int]:
    """Return group and rank of a pod that has both in its name."""
    group, _, rank = pod.rpartition("-")
    return group, int(rank)


def overview(
    plan: Plan,
    queue_of: Mapping[str, str],
    etas: Mapping[str, EtaView],
    *,
    rank_of: Callable[[str], tuple[str, int]] = by_name,
) -> Overview:
    """Return the plan, indexed. `queue_of`: the queue of each waiting group; `rank_of`: group and rank of a pod."""
    promised: dict[str, set[int]] = {}
    for operation in plan.operations():
        if isinstance(operation, Pipeline):
            group, rank = rank_of(operation.pod)
            promised.setdefault(group, set()).add(rank)
    waiting = {item.group: item for item in plan.waiting}
    return Overview(
        plan=plan,
        waiting=waiting,
        queue_of=queue_of,
        in_queue=Counter(queue_of[key] for key in waiting if key in queue_of),
        promised={key: frozenset(ranks) for key, ranks in promised.items()},
        etas=etas,
    )
