"""A few lines for a small cluster: nodes, two queues, groups of pods that wait or run."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import GpuRequest, GpuShare, WholeGpus
from scheduler_service.model.node import GpuDevice, Node
from scheduler_service.model.plan import Plan
from scheduler_service.model.pod import Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup, flat_gang
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.cycle import plan

NOW_MS = 1_000_000


def node(name: str, gpus: int = 2, *, named: bool = False, memory_mib: int | None = 1000) -> Node:
    """Return a node; with `named`, its GPUs have ids."""
    devices = tuple(GpuDevice(f"GPU-{name}-{i}", i, memory_mib) for i in range(gpus))
    return Node(
        name,
        gpus=gpus,
        gpu_memory_mib=memory_mib,
        milli_cpu=16_000,
        memory_bytes=64 << 30,
        devices=devices if named else (),
    )


def queue(name: str, parent: str | None = None, *, limit: int | None = None) -> Queue:
    """Return a queue with a limit in milli-GPU."""
    return Queue(name, parent=parent, gpu=QueueShare(limit=limit))


@dataclass
class SmallWorld:
    """Groups and pods in namespace `d`; `team` and `other` are leaves under `top`."""

    nodes: list[Node] = field(default_factory=lambda: [node("n0")])
    queues: list[Queue] = field(
        default_factory=lambda: [queue("top"), queue("team", "top"), queue("other", "top")]
    )
    groups: list[PodGroup] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)

    def waits(self, name: str, gpu: GpuRequest | None, *, pods: int = 1, **group: object) -> str:
        """Add a group of pods that wait; return its key."""
        return self._add(name, gpu, pods, PodState.PENDING, None, (), **group)

    def runs(
        self,
        name: str,
        gpu: GpuRequest | None,
        *,
        on: str,
        devices: tuple[GpuShare, ...] = (),
        **group: object,
    ) -> str:
        """Add a group of one pod that runs; return its key."""
        return self._add(name, gpu, 1, PodState.RUNNING, on, devices, **group)

    def _add(self, name, gpu, pods, state, on, devices, **group) -> str:
        group.setdefault("queue", "team")
        group.setdefault("gang", flat_gang(pods))
        self.groups.append(PodGroup(name=name, namespace="d", created=len(self.groups), **group))
        request = PodRequest(1000, 1 << 30, gpu)
        self.pods.extend(
            Pod(f"{name}-{i}", "d", f"d/{name}", state, request=request, node=on, devices=devices)
            for i in range(pods)
        )
        return f"d/{name}"

    def snapshot(self) -> Snapshot:
        """Return it all, frozen."""
        return Snapshot(
            now_ms=NOW_MS,
            nodes=tuple(self.nodes),
            queues=tuple(self.queues),
            pod_groups=tuple(self.groups),
            pods=tuple(self.pods),
        )

    def ledger(self) -> Ledger:
        """Return a ledger that holds it."""
        return Ledger.from_snapshot(self.snapshot())

    def plan(self) -> Plan:
        """Return the plan under plain rules."""
        return plan(self.ledger(), Policy.conformance(), NOW_MS)


ONE = WholeGpus(1)
