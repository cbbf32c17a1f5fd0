"""The cluster of the benchmark, and our processes in it: one replica each of serve, binder and webhook."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from tests.cluster.admission_bed import admission
from tests.cluster.testbed.cluster import DEPLOY, OUR_NAMESPACE, Cluster
from tests.cluster.testbed.control_plane import API_ADDRESS
from tests.cluster.testbed.namespace import NetworkNamespace, possible
from tests.cluster.testbed.operators import apply_crds
from tests.cluster.testbed.process import Process

UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


@contextmanager
def kubernetes() -> Iterator[Cluster]:
    """Give a running cluster with what we ship installed in it; nothing of ours runs yet."""
    space = NetworkNamespace() if possible() else None
    with (
        tempfile.TemporaryDirectory(prefix="kai-bench-") as folder,
        space.entered() if space else nullcontext(),
    ):
        if space:
            space.add_address(API_ADDRESS, alias=0)
        with Cluster.started(Path(folder), own_namespace=space is not None, say=_say) as cluster:
            cluster.install(DEPLOY / "manifests")
            apply_crds(cluster, "kubeflow")
            yield cluster


def _say(line: str) -> None:
    print(f"  [cluster] {line}", file=sys.stderr, flush=True)


@contextmanager
def ours(cluster: Cluster, *, admits: bool = True) -> Iterator[dict[str, Process]]:
    """Give our running processes with the accounts that we ship, until the block ends; ready when given."""
    with ExitStack() as ending:
        found = {}
        if admits:
            webhook = ending.enter_context(admission(cluster))
            if webhook.process is not None:
                found["webhook"] = webhook.process
        serve = str(cluster.access("kai-scheduler").kubeconfig)
        binder = str(cluster.access("kai-binder").kubeconfig)
        found["serve"] = cluster.kai("serve", "--backend", "kubernetes", "--kubeconfig", serve)
        found["binder"] = cluster.kai(
            "binder", "--kubeconfig", binder, "--lease-namespace", OUR_NAMESPACE
        )
        for process in found.values():
            ending.callback(process.kill)
        found["serve"].wait_until(lambda: _leads(cluster), "the scheduler leads")
        yield found


def _leads(cluster: Cluster) -> bool:
    lease = cluster.admin.find(
        "/apis/coordination.k8s.io/v1/namespaces/kai-scheduler/leases/kai-scheduler"
    )
    return bool(lease and lease["spec"].get("holderIdentity"))


def queue(cluster: Cluster, name: str, *, gpus: float) -> str:
    """Make a queue with so many GPUs of its own and no limits; return its name."""
    gpu = {"quota": gpus, "limit": -1, "overQuotaWeight": 1}
    cluster.admin.create(
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"resources": {"gpu": gpu, "cpu": UNLIMITED, "memory": UNLIMITED}},
        }
    )
    return name


def resident_mib(process: Process) -> dict[str, float]:
    """Return the resident memory of a process and all below it: as counted (rss), and shared pages once (pss)."""
    rss = pss = 0
    for pid in _family(process.pid):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, rest = line.partition(":")
            if name == "Rss":
                rss += int(rest.split()[0])
            elif name == "Pss":
                pss += int(rest.split()[0])
    return {"rss": round(rss / 1024, 1), "pss": round(pss / 1024, 1)}


def cpu_s(process: Process) -> float:
    """Return the CPU time that a process and all below it have used."""
    ticks = 0
    for pid in _family(process.pid):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return round(ticks / os.sysconf("SC_CLK_TCK"), 2)


def _family(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


def elapsed(since: float) -> float:
    """Return the seconds since a moment of the monotonic clock, to hundredths."""
    return round(time.monotonic() - since, 2)
