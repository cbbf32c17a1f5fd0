"""Placing by least fragmentation against packing: a published trace, and nodes no two of which are alike."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import msgspec

from bench import shapes
from bench.shapes import Case, World
from scheduler_service.model.gpu import FractionOfGpu, GpuShare
from scheduler_service.model.pod import Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.policy import Action, NodeStrategy, Placement
from scheduler_service.model.queue import Queue
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.simulate import packing

ALLOCATE: tuple[Action, ...] = ("allocate",)
STRATEGIES: tuple[NodeStrategy, ...] = ("pack", "least_fragmentation")
SIZES = (470, 320, 650, 810)


def folder() -> Path:
    """Return where the traces are."""
    shared = Path(os.environ.get("KAI_SHARED", Path(__file__).parents[2] / "shared"))
    return Path(os.environ.get("KAI_TRACES", shared / "traces")) / "openb"


def openb(count: int) -> Snapshot:
    """Return the first pods of the trace, all waiting, and its mix in pods that never start."""
    listed = packing.read_pods(folder() / "openb_pod_list_default.csv.gz")
    nodes = packing.read_nodes(folder() / packing.NODE_LIST, 42)
    offered = sum(node.gpus for node in nodes) * 1000
    groups = [PodGroup(name=f"g{n}", namespace="t", queue="q", created=n) for n in range(count)]
    came = [
        msgspec.structs.replace(pod, name=group.name, group=group.key)
        for pod, group in zip(packing.tuned(listed, offered, 42), groups, strict=False)
    ]
    known = [
        msgspec.structs.replace(pod, name=f"known-{n}", group="t/known")
        for n, pod in enumerate(listed)
    ]
    return Snapshot(
        nodes=nodes, queues=(Queue("q"),), pod_groups=tuple(groups), pods=(*came, *known)
    )


def varied(count: int, pods: int) -> Snapshot:
    """Return nodes with a different rest of CPU and of a shared GPU each, and parts that wait."""
    world = World(shapes.nodes(count), shapes.departments(4, count * shapes.GPUS))
    for number in range(count + pods):
        size = SIZES[number % len(SIZES)]
        is_new = number >= count
        milli_cpu = 1000 if is_new else 1000 + number % 9973
        request = PodRequest(milli_cpu, 1 << 28, FractionOfGpu(size))
        world.add(f"job-{number}", f"queue-{number % 4}", request=request)
        if not is_new:
            world.pods[-1] = _running(world.pods[-1], f"node-{number}", size)
    return world.snapshot()


def _running(pod: Pod, node: str, size: int) -> Pod:
    share = GpuShare("g0", size, size * 81920 // 1000)
    return msgspec.structs.replace(pod, state=PodState.RUNNING, node=node, devices=(share,))


def traces() -> list[Case]:
    """Return each case under both ways of placing, one after the other."""
    found: list[Case] = []
    for strategy in STRATEGIES:
        placement = Placement(strategy, strategy)
        found += [
            Case(
                f"varied/{n}x{p}/{strategy}",
                n,
                n + p,
                partial(varied, n, p),
                ALLOCATE,
                {"bound": p},
                placement,
            )
            for n, p in ((1000, 200), (10_000, 200))
        ]
        if folder().is_dir():
            found.append(
                Case(
                    f"openb/1213x4000/{strategy}",
                    1213,
                    4000,
                    partial(openb, 4000),
                    ALLOCATE,
                    {"bound": 4000},
                    placement,
                )
            )
    return sorted(found, key=lambda case: case.name)
