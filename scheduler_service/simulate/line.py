"""The line outside: groups that can not start now wait out of the planner's sight.

Of groups that ask for the same GPUs and nothing else, in one queue without bounds, only so many
can start as have room in what is free, and those that come first do. So only they are shown to a
plan. What a plan starts is the same, and a trace with thousands who wait takes minutes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from scheduler_service.ledger import events
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import WholeGpus
from scheduler_service.model.pod import Pod, PodRequest
from scheduler_service.model.pod_group import PodGroup, flat_gang
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.snapshot import Snapshot

Rank = tuple[int, int, str]
Ask = tuple[int, int]
"""How many pods start together, and the GPUs of each."""


def may_wait_outside(cluster: Snapshot, policy: Policy) -> bool:
    """Say whether who waits has no say in who starts: one unbounded queue, nobody is moved."""
    return (
        set(policy.actions) <= {"allocate", "evict_stale_gangs"}
        and not policy.weighs_usage
        and not policy.reserve_after_ms
        and not policy.age_ms
        and [Queue(queue.name) for queue in cluster.queues] == list(cluster.queues)
        and len(cluster.queues) == 1
    )


@dataclass(slots=True)
class Line:
    """Who waits outside, and who was let in for the next plan."""

    ledger: Ledger
    _outside: dict[Ask, list[tuple[Rank, PodGroup, tuple[Pod, ...]]]] = field(default_factory=dict)
    _inside: list[tuple[PodGroup, tuple[Pod, ...]]] = field(default_factory=list)

    def takes(self, group: PodGroup, pods: tuple[Pod, ...]) -> bool:
        """Let a group wait outside if it asks for whole GPUs and nothing else."""
        gpu = pods[0].request.gpu if pods else None
        if not isinstance(gpu, WholeGpus) or group.gang != flat_gang(len(pods)):
            return False
        request = PodRequest(gpu=gpu)
        if any(pod != Pod(pod.name, pod.namespace, pod.group, request=request) for pod in pods):
            return False
        rank = (-group.priority, group.created, group.name)
        heappush(self._outside.setdefault((len(pods), gpu.count), []), (rank, group, pods))
        return True

    def let_in(self) -> None:
        """Put into the book who may start: of each kind as many as what is free could hold."""
        free = sum(gpus for gpus in self.ledger.nodes.idle_gpu if gpus > 0)
        for (count, gpus), waiting in self._outside.items():
            for _ in range(min(len(waiting), free // (count * gpus))):
                _, group, pods = heappop(waiting)
                self._inside.append((group, pods))
                self.ledger.apply(events.PodGroupAdded(group))
                for pod in pods:
                    self.ledger.apply(events.PodAdded(pod))

    def let_out(self) -> None:
        """Take out of the book again who did not start."""
        for group, pods in self._inside:
            if self.ledger.open_groups.get(group.key):
                for pod in pods:
                    self.ledger.apply(events.PodRemoved(pod.key))
                self.ledger.apply(events.PodGroupRemoved(group.key))
                self.takes(group, pods)
        self._inside.clear()
