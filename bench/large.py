"""`python -m bench.large [--nodes N] [--pods N] [--json FILE]`: scheduler and binder in a large, busy cluster.

The cluster is a server that holds nodes, running pods and their groups, and answers at once: what is measured is ours
alone. Ready = everything listed and understood. Then lone pods come one after another, each from its creation to our
binding call. A real API server is slower, and its row is `large` of `python -m bench cluster`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

GROUP_SIZE, GPUS = 10, 8
TRIES, SETTLE_S = 20, 5.0
BOOKMARK_S = 30.0
STAMP = "2026-01-05T09:00:00Z"
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
GROUPS = "/apis/scheduling.run.ai/v2alpha2/podgroups"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
NO_LIMIT = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
Object = dict[str, Any]


def meta(name: str, namespace: str = "", **more: Any) -> Object:
    """Return the head of an object as an API server gives it, with who wrote which field."""
    fields: Object = {
        f"f:{key}": {} for key in ("status", "spec", "labels", "annotations", "conditions")
    }
    found = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": STAMP}
    managed = [{"manager": who, "operation": "Update", "fieldsV1": fields} for who in ("a", "b")]
    return (
        found | ({"namespace": namespace} if namespace else {}) | {"managedFields": managed, **more}
    )


def node(number: int) -> Object:
    """Return a node with eight GPUs."""
    amounts = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    name = f"node-{number}"
    labels = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.memory": "81920",
        "zone": f"z{number % 8}",
    }
    ready = {"type": "Ready", "status": "True", "message": "kubelet is posting ready status"}
    images = [{"names": [f"example.local/image-{each}"], "sizeBytes": 10**9} for each in range(20)]
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready], "images": images}
    return {"metadata": meta(name, labels=labels), "spec": {}, "status": status}


def pod(name: str, group: str = "", at: str = "", *, gpus: int = 1) -> Object:
    """Return a pod that runs on a node, or a lone one that waits."""
    limits = {"cpu": "1", "memory": "4Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    container = {
        "name": "main",
        "image": "example.local/box",
        "resources": {"limits": limits, "requests": limits},
        "env": [{"name": f"SETTING_{number}", "value": "x" * 20} for number in range(10)],
    }
    spec: Object = {"schedulerName": "kai-scheduler", "containers": [container]}
    notes = {"pod-group-name": group} if group else {}
    said = meta(name, "work", labels={"kai.scheduler/queue": "team"}, annotations=notes)
    status: Object = {"phase": "Running" if at else "Pending"}
    if at:
        spec["nodeName"] = at
        status |= {
            "startTime": STAMP,
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
        }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": said, "spec": spec, "status": status}


def group(name: str) -> Object:
    """Return a group of pods that run."""
    spec = {"minMember": GROUP_SIZE, "queue": "team"}
    return {"metadata": meta(name, "work"), "spec": spec, "status": {}}


def queue(name: str) -> Object:
    """Return a queue without limits."""
    resources = {"gpu": {**NO_LIMIT, "quota": 0}, "cpu": NO_LIMIT, "memory": NO_LIMIT}
    return {"metadata": meta(name), "spec": {"resources": resources}, "status": {}}


@dataclass
class Cluster:
    """Holds everything, tells watches of new pods, and takes every write."""

    nodes: int
    pods: int
    bound: dict[str, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    version: int = 10
    watches: dict[str, set[web.StreamResponse]] = field(default_factory=dict)
    live: dict[str, Object] = field(default_factory=dict)

    def count(self, path: str) -> int:
        """Return how many objects a collection holds."""
        counts = {NODES: self.nodes, PODS: self.pods, GROUPS: self.pods // GROUP_SIZE, QUEUES: 1}
        return counts.get(path, 0)

    def item(self, path: str, number: int) -> Object:
        """Return one object of a collection."""
        if path == NODES:
            return node(number)
        if path == GROUPS:
            return group(f"group-{number}")
        if path == QUEUES:
            return queue("team")
        name, round_, at = f"p-{number}", *divmod(number, self.nodes)
        gpus = 1 if round_ < GPUS - 1 else 0
        return pod(name, f"group-{number // GROUP_SIZE}", f"node-{at}", gpus=gpus)

    def page(self, path: str, query: dict[str, str]) -> bytes:
        """Return a page of a list; its token says how many came before."""
        first, total = int(query.get("continue") or 0), self.count(path)
        end = min(total, first + int(query.get("limit") or total))
        head = {"resourceVersion": "5", **({"continue": str(end)} if end < total else {})}
        items = [self.item(path, number) for number in range(first, end)]
        return json.dumps({"metadata": head, "items": items}).encode()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        query = dict(request.query)
        if request.method == "GET" and "watch" in query:
            return await self._watch(request)
        if request.method == "GET":
            return web.Response(body=self.page(request.path, query))
        body = json.loads(await request.read() or b"{}")
        if request.path.endswith("/binding"):
            await self._bound(request.path.split("/")[-2], body)
        self.version += 1
        told = {**body.get("metadata", {}), "uid": f"made-{self.version}"}
        body["metadata"] = {**told, "resourceVersion": str(self.version)}
        return web.json_response(body, status=201)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.watches.setdefault(request.path, set()).add(response)
        kind = {"apiVersion": "v1", "kind": "Bookmark"}
        while True:  # who hears nothing for long takes a watch for dead
            await asyncio.sleep(BOOKMARK_S)
            mark = {**kind, "metadata": {"resourceVersion": str(self.version)}}
            await response.write(json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n")

    async def _bound(self, name: str, body: Object) -> None:
        self.bound[name] = time.perf_counter()
        one = self.live[name]
        one["spec"]["nodeName"] = body["target"]["name"]
        one["metadata"]["annotations"] |= body["metadata"].get("annotations", {})
        await self.tell("MODIFIED", one)
        self.changed.set()

    async def tell(self, kind: str, one: Object) -> None:
        """Tell all who watch pods of one."""
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)
        self.live[one["metadata"]["name"]] = one
        line = json.dumps({"type": kind, "object": one}).encode() + b"\n"
        for response in self.watches.get(PODS, ()):
            await response.write(line)

    async def bound_after(self, name: str) -> float:
        """Make a lone pod, and return the seconds until it was bound."""
        begun = time.perf_counter()
        await self.tell("ADDED", pod(name))
        while name not in self.bound:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 300)
        return self.bound[name] - begun


def cpu_s(pid: int) -> float:
    """Return the CPU time of one process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> dict[str, float]:
    """Return the MiB that a process and its children hold, shared pages counted in full and once."""
    found = {"Rss": 0, "Pss": 0}
    pids = [pid]
    for one in pids:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            pids += map(int, task.read_text("ascii").split())
        for line in Path(f"/proc/{one}/smaps_rollup").read_text("ascii").splitlines():
            name = line.partition(":")[0]
            if name in found:
                found[name] += int(line.split()[1])
    return {name.lower(): round(kib / 1024, 1) for name, kib in found.items()}


def _text(file: Path) -> str:
    return file.read_text("utf-8")


async def ready(log: Path) -> str:
    """Return where a process serves its health, once it is ready."""
    async with aiohttp.ClientSession() as session:
        while True:
            at = re.search(r"health on (\S+)", _text(log))
            if at:
                async with session.get(f"http://{at[1]}/readyz") as answer:
                    if answer.status == 200:
                        return f"http://{at[1]}"
            await asyncio.sleep(0.05)


async def cycle_ms(url: str) -> float:
    """Return what the last cycle took."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        text = await answer.text()
    found = re.search(r"^kai_e2e_scheduling_latency_milliseconds (\S+)$", text, re.MULTILINE)
    return round(float(found[1]), 1) if found else -1.0


async def measured(nodes: int, pods: int) -> Object:
    """Return the figures of one run."""
    cluster = Cluster(nodes, pods)
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{tail:.*}", cluster.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    with tempfile.TemporaryDirectory(prefix="kai-bench-") as folder:
        try:
            return await _in_folder(cluster, Path(folder), int(runner.addresses[0][1]))
        finally:
            await runner.cleanup()


async def _in_folder(cluster: Cluster, folder: Path, port: int) -> Object:
    config = folder / "kubeconfig"
    config.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    kai = [sys.executable, "-m", "scheduler_service.cli"]
    commands = {
        "serve": ["serve", "--backend", "kubernetes", "--no-leader-elect"],
        "binder": ["binder", "--no-lease"],
    }
    running, begun = {}, time.perf_counter()
    settings = {**os.environ, "KAI_STATE_DIR": str(folder / "state"), "PYTHONUNBUFFERED": "1"}
    try:
        for name, command in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                running[name] = await asyncio.create_subprocess_exec(
                    *kai,
                    *command,
                    "--kubeconfig",
                    str(config),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=settings,
                )
        url = await ready(folder / "serve.log")
        took, serve = time.perf_counter() - begun, running["serve"].pid
        ready_cpu_s = cpu_s(serve)
        first = await cluster.bound_after("new-first")
        await asyncio.sleep(SETTLE_S)
        before = cpu_s(serve)
        each = [await cluster.bound_after(f"new-{number}") for number in range(TRIES)]
        used = cpu_s(serve) - before
        return {
            "nodes": cluster.nodes,
            "pods": cluster.pods,
            "ready_s": round(took, 1),
            "ready_cpu_s": round(ready_cpu_s, 1),
            "first_bound_s": round(first, 2),
            "one_pod_median_ms": round(1000 * statistics.median(each), 1),
            "one_pod_cpu_ms": round(1000 * used / TRIES, 1),
            "last_cycle_ms": await cycle_ms(url),
            **{f"{name}_mib": resident(one.pid) for name, one in running.items()},
        }
    finally:
        for one in running.values():
            one.kill()
            await one.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.large", description=__doc__)
    parser.add_argument("--nodes", type=int, default=4_000)
    parser.add_argument("--pods", type=int, default=40_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = asyncio.run(measured(options.nodes, options.pods))
    print(json.dumps(figures, indent=1))
    if options.json:
        options.json.write_text(json.dumps([figures], indent=1) + "\n")


if __name__ == "__main__":
    main()
