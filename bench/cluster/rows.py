"""The rows: each makes its load, waits for the outcome and returns its figures. A row builds on those before it."""

from __future__ import annotations

import asyncio
import re
import statistics
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bench.cluster import bed
from bench.cluster.load import Load, Object
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.process import Process

NODES, GPUS = 500, 8
ALL = NODES * GPUS
LIMIT_PODS = 2_000
LARGE_NODES, LARGE_PODS, LARGE_GROUP = 4_000, 40_000, 10
SINGLE_TRIES = 7
SETTLE_S = 3.0
WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE"})
TOLD = ("POST events", "PATCH podgroups/status", "PATCH pods/status")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
ROOMY, OWNER = "bench-borrows", "bench-owns"
"""Queues: one that has no GPU of its own, and one that owns half of them."""


@dataclass
class Bench:
    """The cluster, the load and what rows leave for each other."""

    cluster: Cluster
    load: Load
    processes: dict[str, Process] = field(default_factory=dict)
    limit_per_s: float = 0.0
    limit_cpu_s: float = 0.0
    """CPU time of everything for a pod of the limit: a measure that other work on the machine changes little."""

    def space(self) -> str:
        """Make a namespace and return the path of its pods."""
        return f"/api/v1/namespaces/{self.cluster.new_namespace('bench')}/pods"

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds until now: of our processes, of the cluster's, and of the load (this process)."""
        plane = self.cluster.control_plane
        others = {
            "api": plane.api,
            "etcd": plane.etcd,
            "controllers": plane.controllers,
            "player": self.cluster.nodes.player,
        }
        found = {name: bed.cpu_s(one) for name, one in (self.processes | others).items()}
        return found | {"load": round(time.process_time(), 2)}

    def writes(self) -> Counter[str]:
        """Return how many objects the API server was asked to write until now, by kind and verb."""
        found: Counter[str] = Counter()
        for line in self.cluster.admin.text("/metrics").splitlines():
            if line.startswith("apiserver_request_total{") and 'code="20' in line:
                said = dict(_LABEL.findall(line))
                if said["verb"] in WRITES:
                    kind = "/".join(filter(None, (said["resource"], said["subresource"])))
                    found[f"{said['verb']} {kind}"] += int(float(line.rpartition(" ")[2]))
        return found


Figures = dict[str, Any]
Row = Callable[[Bench], Awaitable[Figures]]


def pod(name: str, queue: str = "", *, gpus: int = 1, owner: Object | None = None) -> Object:
    """Return a pod as people write it, or as an operator makes it for its owner."""
    meta: Object = {"name": name, "labels": {"kai.scheduler/queue": queue} if queue else {}}
    if owner is not None:
        meta["labels"]["training.kubeflow.org/replica-type"] = "worker"
        meta["ownerReferences"] = [
            {
                **{key: owner[key] for key in ("apiVersion", "kind")},
                **{key: owner["metadata"][key] for key in ("name", "uid")},
                "controller": True,
            }
        ]
    limits = {"nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "example.local/box", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }


async def limit(bench: Bench) -> Figures:
    """A loop that creates each pod and binds it at once: what the API server takes without a scheduler."""
    pods = bench.space()
    names = [f"limit-{number}" for number in range(LIMIT_PODS)]

    async def one(name: str) -> None:
        body = pod(name)
        body["spec"]["schedulerName"] = "nobody"
        await bench.load.send("POST", pods, body)
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{int(name[6:]) % NODES}"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
        await bench.load.send("POST", f"{pods}/{name}/binding", {**binding, "target": target})

    before, begun = bench.cpu(), time.monotonic()
    await bench.load.side_by_side(one, names)
    bench.limit_per_s = LIMIT_PODS / (time.monotonic() - begun)
    used = _used(bench, before)
    bench.limit_cpu_s = sum(used.values()) / LIMIT_PODS
    bench.cluster.clean()
    bench.cluster.nodes.add("node", count=NODES, gpus=GPUS)
    return {"pods": LIMIT_PODS, "pods_per_s": round(bench.limit_per_s, 1), "cpu_s": used}


async def fill(bench: Bench) -> Figures:
    """4,000 one-GPU pods fill 4,000 GPUs: first create to last bound, and to the last word that is written of it."""
    pods, names = bench.space(), [f"fill-{number}" for number in range(ALL)]
    async with bench.load.watching(pods):
        before, written, begun = bench.cpu(), bench.writes(), time.monotonic()
        await bench.load.post_all(pods, (pod(name, ROOMY) for name in names))
        created = time.monotonic() - begun
        moments = await bench.load.bound(names)
    took = moments[-1] - begun
    used = _used(bench, before)
    each = sum(used.values()) / ALL
    settled, made = await _settled(bench, written)
    return {
        "pods": ALL,
        "created_s": round(created, 1),
        "last_bound_s": round(took, 1),
        "pods_per_s": round(ALL / took, 1),
        "all_told_s": round(settled - begun, 1),
        "of_limit": round(ALL / took / bench.limit_per_s, 2) if bench.limit_per_s else None,
        "of_limit_by_cpu": round(bench.limit_cpu_s / each, 2) if bench.limit_cpu_s else None,
        "cpu_s": used,
        "writes_per_pod": {kind: round(n / ALL, 2) for kind, n in made.most_common(10)},
    }


def _used(bench: Bench, before: dict[str, float]) -> dict[str, float]:
    return {name: round(now - before[name], 1) for name, now in bench.cpu().items()}


async def _settled(bench: Bench, written: Counter[str]) -> tuple[float, Counter[str]]:
    """Return when the last event or status was written, and all that was written since."""
    made, at = bench.writes() - written, time.monotonic()
    while time.monotonic() - at < SETTLE_S:
        await asyncio.sleep(SETTLE_S / 10)
        now = bench.writes() - written
        if any(now[kind] != made[kind] for kind in TOLD):
            at = time.monotonic()
        made = now
    return at, made


async def reclaim_one(bench: Bench) -> Figures:
    """On the full cluster a pod of the queue that owns GPUs: its create to its binding, several times."""
    pods, took = bench.space(), []
    for number in range(SINGLE_TRIES):
        name = f"one-{number}"
        async with bench.load.watching(pods):
            begun = time.monotonic()
            await bench.load.send("POST", pods, pod(name, OWNER))
            took.append((await bench.load.bound([name]))[0] - begun)
    return {
        "median_s": round(statistics.median(took), 2),
        "min_s": round(min(took), 2),
        "max_s": round(max(took), 2),
    }


async def reclaim_gang(bench: Bench) -> Figures:
    """On the full cluster a gang of 250 one-GPU pods of the queue that owns GPUs."""
    return await _gang(bench, "reclaims", workers=250, queue=OWNER)


async def never_fits(bench: Bench) -> Figures:
    """A gang that asks for 4,600 of 4,000 GPUs (575 pods of 8): until a pod says why."""
    pods, owner, workers = await _job(bench, "huge", workers=575, queue=OWNER, gpus=8)
    async with bench.load.watching(pods):
        begun = time.monotonic()
        await bench.load.post_all(pods, workers)
        created = time.monotonic() - begun
        sight = await bench.load.refused()
    path = bench.cluster.admin.path_of(owner)
    bench.cluster.admin.delete(path)
    return {
        "created_s": round(created, 2),
        "told_s": round((sight.refused_at or 0.0) - begun, 2),
        "says": sight.says,
    }


async def gang(bench: Bench) -> Figures:
    """A gang of 512 one-GPU pods on the empty cluster: first and last bound."""
    return await _gang(bench, "gang", workers=512, queue=OWNER)


async def memory(bench: Bench) -> Figures:
    """What our processes hold after all that, each with its children."""
    each = {name: bed.resident_mib(process) for name, process in bench.processes.items()}
    total = {kind: round(sum(one[kind] for one in each.values()), 1) for kind in ("rss", "pss")}
    return {**{f"{name}_mib": one for name, one in each.items()}, "all_mib": total}


async def large(bench: Bench) -> Figures:
    """4,000 nodes, 40,000 running pods in groups of ten: memory, time to ready, and a cycle with one new pod."""
    cluster, load = bench.cluster, bench.load
    cluster.nodes.add("big", count=LARGE_NODES - NODES, gpus=GPUS)
    pods = bench.space()
    groups = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{pods.split('/')[4]}/podgroups"

    async def one(number: int) -> None:
        name, at = f"runs-{number}", number % LARGE_NODES
        body = pod(name, ROOMY, gpus=0)
        body["metadata"]["annotations"] = {"pod-group-name": f"group-{number // LARGE_GROUP}"}
        body["spec"]["nodeName"] = f"node-{at}" if at < NODES else f"big-{at - NODES}"
        body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        await load.send("POST", pods, body)

    made = (_group_by_hand(f"group-{number}") for number in range(LARGE_PODS // LARGE_GROUP))
    await load.post_all(groups, made)
    await load.side_by_side(one, range(LARGE_PODS))
    begun = time.monotonic()
    with bed.ours(cluster) as processes:
        ready = bed.elapsed(begun)
        async with load.watching(pods):
            begun = time.monotonic()
            await load.send("POST", pods, pod("first", OWNER))
            first = (await load.bound(["first"]))[0] - begun
            singles = []
            for number in range(SINGLE_TRIES):
                begun = time.monotonic()
                await load.send("POST", pods, pod(f"new-{number}", OWNER))
                singles.append((await load.bound([f"new-{number}"]))[0] - begun)
        held = {name: bed.resident_mib(process) for name, process in processes.items()}
        cycle = _cycle_ms(processes["serve"])
    return {
        "ready_s": ready,
        "first_bound_s": round(first, 2),
        "one_pod_median_s": round(statistics.median(singles), 2),
        "last_cycle_ms": cycle,
        "serve_mib": held["serve"],
        "binder_mib": held["binder"],
    }


def _group_by_hand(name: str) -> Object:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"queue": ROOMY, "minMember": LARGE_GROUP},
    }


def _cycle_ms(serve: Process) -> float | None:
    found = re.search(r"health on [^\s:]+:(\d+)", serve.log.read_text())
    if found is None:
        return None
    url = f"http://127.0.0.1:{found[1]}/metrics"
    with urllib.request.urlopen(url) as answer:
        text = answer.read().decode()
    line = re.search(r"^kai_e2e_scheduling_latency_milliseconds (\S+)$", text, re.MULTILINE)
    return None if line is None else round(float(line[1]), 1)


async def _gang(bench: Bench, name: str, *, workers: int, queue: str) -> Figures:
    pods, owner, bodies = await _job(bench, name, workers=workers, queue=queue, gpus=1)
    async with bench.load.watching(pods):
        begun = time.monotonic()
        await bench.load.post_all(pods, bodies)
        created = time.monotonic() - begun
        moments = await bench.load.bound(body["metadata"]["name"] for body in bodies)
    bench.cluster.admin.delete(bench.cluster.admin.path_of(owner))
    return {
        "pods": workers,
        "created_s": round(created, 2),
        "first_bound_s": round(moments[0] - begun, 2),
        "last_bound_s": round(moments[-1] - begun, 2),
    }


async def _job(
    bench: Bench, name: str, *, workers: int, queue: str, gpus: int
) -> tuple[str, Object, list[Object]]:
    """Make a PyTorchJob, and return the path of its pods, it, and the pods that its operator would make."""
    pods = bench.space()
    namespace = pods.split("/")[4]
    template = {"spec": {"containers": [{"name": "pytorch", "image": "example.local/box"}]}}
    owner = bench.cluster.admin.create(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"kai.scheduler/queue": queue},
            },
            "spec": {
                "pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": template}}
            },
        }
    )
    names = (f"{name}-worker-{number}" for number in range(workers))
    return pods, owner, [pod(each, queue, gpus=gpus, owner=owner) for each in names]


def clear(bench: Bench, keep: Iterable[str] = ()) -> None:
    """Remove all pods of the rows before."""
    admin = bench.cluster.admin
    for one in admin.list("/api/v1/namespaces", labelSelector="testbed.kai/test"):
        name = one["metadata"]["name"]
        if name not in keep:
            pods = f"/api/v1/namespaces/{name}/pods"
            admin.delete(pods, grace_s=0)
            admin.wait_for(pods, lambda left: not left, f"the pods of {name} are gone")
