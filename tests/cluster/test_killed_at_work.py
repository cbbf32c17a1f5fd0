"""Scheduler, binder and webhook are killed at any moment while a thousand pods find their places."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.cluster.admission_bed import Webhook, admission, pod
from tests.cluster.binding import Bench
from tests.cluster.scheduling import Stage
from tests.cluster.testbed.admin import ApiError, Object
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.process import FAIL_SAFE_S, Process

WHOLE, HALVES, NODES, GPUS = 800, 200, 115, 8
KILLS = 12
SEED = 20_261_201


class Killed:
    """The programs of one cluster, each of which can be killed and started anew."""

    def __init__(self, cluster: Cluster, bench: Bench, webhook: Webhook) -> None:
        login = cluster.access("kai-scheduler")
        self.serve = cluster.kai(
            *("serve", "--backend", "kubernetes", "--no-leader-elect"),
            *("--kubeconfig", str(login.kubeconfig)),
        )
        self.binder = bench.start()
        self.webhook = webhook

    def kill(self, what: str) -> None:
        """Kill one and start it anew."""
        if what == "webhook":
            self.webhook.kill()
            self.webhook.start()
            return
        process: Process = getattr(self, what)
        process.kill()
        process.start()

    def end(self) -> None:
        self.serve.kill()
        self.binder.kill()


@pytest.fixture
def bench(kai_cluster: Cluster, namespace: str) -> Bench:
    kai_cluster.nodes.add("n", count=NODES, gpus=GPUS)
    return Bench(kai_cluster, namespace)


@contextmanager
def at_work(cluster: Cluster, bench: Bench) -> Iterator[Killed]:
    with admission(cluster) as webhook:
        programs = Killed(cluster, bench, webhook)
        try:
            yield programs
        finally:
            programs.end()


def made(bench: Bench, queue: str) -> list[Future[None]]:
    """Begin to make all pods, as people do who try again when nobody answers."""
    hands = ThreadPoolExecutor(6)
    shares = {number * (WHOLE + HALVES) // HALVES for number in range(HALVES)}
    found = [
        hands.submit(insist, bench, wanted(bench, queue, number, is_half=number in shares))
        for number in range(WHOLE + HALVES)
    ]
    hands.shutdown(wait=False)
    return found


def wanted(bench: Bench, queue: str, number: int, *, is_half: bool) -> Object:
    name = f"{'half' if is_half else 'whole'}-{number}"
    if is_half:
        return pod(bench.namespace, name, queue=queue, annotations={"gpu-fraction": "0.5"})
    return pod(bench.namespace, name, queue=queue, limits={"nvidia.com/gpu": "1"})


def insist(bench: Bench, body: Object) -> None:
    end = time.monotonic() + FAIL_SAFE_S
    while True:
        try:
            bench.admin.create(body)
        except ApiError as error:
            if "failed calling webhook" not in error.message or time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


def test_a_thousand_pods_lose_nothing_and_share_nothing_by_mistake(
    kai_cluster: Cluster, bench: Bench, namespace: str
) -> None:
    queue = Stage(kai_cluster, namespace).default
    chance, killed = random.Random(SEED), Counter[str]()
    with at_work(kai_cluster, bench) as programs:
        making = made(bench, queue)
        while killed.total() < KILLS and _running(bench) < WHOLE + HALVES:
            time.sleep(chance.uniform(0.2, 1.5))  # any moment is meant
            what = chance.choice(["serve", "binder", "webhook"])
            programs.kill(what)
            killed[what] += 1
        for one in making:
            one.result()
        bench.admin.wait_for(
            bench.pods,
            lambda all_: sum(_runs(one) for one in all_.values()) == WHOLE + HALVES,
            "all of them run",
        )
    assert min(killed[what] for what in ("serve", "binder", "webhook")) >= 1, killed
    stored = bench.admin.list(bench.pods)
    assert Counter(one["status"]["phase"] for one in stored) == {"Running": WHOLE + HALVES}
    _check_devices(bench, stored)


def _runs(one: Object) -> bool:
    return bool(one.get("status", {}).get("phase") == "Running")


def _running(bench: Bench) -> int:
    return sum(map(_runs, bench.admin.list(bench.pods)))


def _check_devices(bench: Bench, stored: list[Object]) -> None:
    """No node holds more than it has, no device more than two halves, and every shared one is reserved once."""
    reserved = bench.reservations()
    assert len(reserved) == len({*reserved.values()})
    halves: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    groups: dict[str, set[str]] = {}
    for one in stored:
        node, labels = one["spec"]["nodeName"], one["metadata"].get("labels", {})
        if one["metadata"]["name"].startswith("half-"):
            halves[labels["runai-gpu-group"]] += 1
            groups.setdefault(node, set()).add(labels["runai-gpu-group"])
        else:
            whole[node] += 1
    assert max(halves.values()) <= 2
    assert {*halves} == {*reserved}
    assert all(whole[node] + len(groups.get(node, ())) <= GPUS for node in {*whole, *groups})
