"""What is kept of a node, a limit and a quota: given back for one turn, and less by what that turn took."""

from __future__ import annotations

import pytest

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import FractionOfGpu, GpuShare, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup, Preemptibility
from scheduler_service.model.queue import Queue
from scheduler_service.model.reasons import KeptForOther
from scheduler_service.model.resources import QueueShare
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.kept import Kept, Later, later
from tests.properties.book import image

FULL: Later = (8, 16_000, 32, 10)
KEPT: Later = (3, 5_000, 7, 4)
SHARE = QueueShare(quota=6_000, limit=8_000)


def ledger_with(*pods: tuple[PodGroup, Pod]) -> Ledger:
    node = Node("n0", gpus=8, gpu_memory_mib=1000, milli_cpu=16_000, memory_bytes=32, max_pods=10)
    return Ledger.from_snapshot(
        Snapshot(
            nodes=(node,),
            queues=(Queue("q", gpu=SHARE, cpu=SHARE, memory=QueueShare(20, 30)),),
            pod_groups=tuple(group for group, _ in pods),
            pods=tuple(pod for _, pod in pods),
        )
    )


def one(name: str, request: PodRequest, *, firm: bool = False) -> tuple[PodGroup, Pod]:
    kind = Preemptibility.NON_PREEMPTIBLE if firm else Preemptibility.PREEMPTIBLE
    group = PodGroup(name=name, namespace="l", queue="q", preemptibility=kind)
    return group, Pod(name, "l", group.key, request=request)


def start(ledger: Ledger, name: str) -> None:
    ledger.start(ledger.pods.row_of[f"l/{name}"], 3, 0)


def less(one: Later, two: Later) -> Later:
    return tuple(a - b for a, b in zip(one, two, strict=True))  # type: ignore[return-value]


def not_below_0(amounts: Later) -> Later:
    return tuple(max(0, amount) for amount in amounts)  # type: ignore[return-value]


@pytest.mark.parametrize(
    "taken", [(1, 2_000, 3, 1), (3, 5_000, 7, 1), (5, 6_000, 9, 1), (1, 9_000, 2, 1)]
)
def test_what_short_work_takes_is_kept_no_more_and_the_rest_is(taken: Later) -> None:
    gpus, cpu, memory, _ = taken
    ledger = ledger_with(one("short", PodRequest(cpu, memory, WholeGpus(gpus))))
    empty = image(ledger)
    mark = ledger.checkpoint()
    kept = Kept(ledger, "l/wide", 1_000, {0: KEPT})

    kept.book()
    assert later(ledger.nodes, 0) == less(FULL, KEPT)
    kept.lift()
    assert later(ledger.nodes, 0) == FULL
    start(ledger, "short")
    kept.restore()

    left = not_below_0(less(KEPT, taken))
    assert kept.nodes == {0: left}
    assert later(ledger.nodes, 0) == less(less(FULL, taken), left)
    kept.lift()
    assert later(ledger.nodes, 0) == less(FULL, taken)
    kept.restore()
    assert kept.nodes == {0: left}
    ledger.rollback(mark)
    assert image(ledger) == empty


def test_a_limit_is_refused_beyond_what_is_kept_of_it_and_not_before() -> None:
    runs, short = PodRequest(1_000, 2, WholeGpus(1)), PodRequest(1_000, 6, WholeGpus(1))
    ledger = ledger_with(one("runs", runs), one("short", short), one("else", PodRequest()))
    start(ledger, "runs")
    other, wide = ledger.groups["l/else"], PodGroup(name="wide", namespace="l", queue="q")
    kept = Kept(ledger, wide.key, 60_000, {}, {0: (2_000, 5, 3_000)})
    kept.book()

    def refused(cpu: int, memory: int, gpu: int) -> KeptForOther | None:
        return kept.refuses(other, (cpu, memory, gpu), 10_000, is_firm=False)

    assert refused(5_000, 23, 4_000) is None
    assert refused(5_001, 23, 4_000) == KeptForOther("l/wide", 50_000)
    assert refused(5_000, 24, 4_000) is not None
    assert refused(5_000, 23, 4_001) is not None
    assert refused(0, 0, 0) is None
    kept.lift()
    assert refused(7_000, 28, 7_000) is None
    start(ledger, "short")
    kept.restore()
    assert kept.limits == {0: (1_000, 0, 2_000)}
    assert refused(5_000, 22, 4_000) is None
    assert refused(5_000, 22, 4_001) is not None


def test_a_quota_binds_firm_work_only_and_the_group_itself_is_free() -> None:
    firm = one("firm", PodRequest(1_000, 4, WholeGpus(1)), firm=True)
    soft = one("soft", PodRequest(500, 1, WholeGpus(1)))
    before = one("before", PodRequest(700, 2, WholeGpus(1)), firm=True)
    ledger = ledger_with(firm, soft, before, one("wide", PodRequest()))
    start(ledger, "soft")
    start(ledger, "before")
    group, wide = ledger.groups["l/firm"], ledger.groups["l/wide"]
    kept = Kept(ledger, "l/wide", None, {0: KEPT}, {}, {0: (2_000, 5, 3_000)})
    kept.book()

    assert kept.refuses(group, (3_300, 13, 2_000), 0, is_firm=True) is None
    assert kept.refuses(group, (3_300, 13, 2_001), 0, is_firm=True) == KeptForOther("l/wide")
    assert kept.refuses(group, (3_300, 13, 2_001), 0, is_firm=False) is None
    assert kept.refuses(wide, (9_000, 99, 9_000), 0, is_firm=True) is None
    assert (kept.gpus_for("l/wide"), kept.gpus_for("l/firm")) == (3, 0)
    kept.lift()
    start(ledger, "firm")
    kept.restore()
    assert kept.quotas == {0: (1_000, 1, 2_000)}


def test_a_shared_gpu_that_is_to_get_free_is_full_but_for_who_ends_in_time() -> None:
    group, pod = one("half", PodRequest(0, 0, FractionOfGpu(300)))
    there = Pod(
        pod.name,
        "l",
        group.key,
        PodState.RUNNING,
        request=pod.request,
        node="n0",
        devices=(GpuShare("g", 300, 300),),
    )
    ledger = ledger_with((group, there))
    table = ledger.nodes.shared[0]
    kept = Kept(ledger, "l/wide", 1_000, {0: KEPT}, closed={0: ("g",)})

    kept.book()
    assert tuple(table["g"]) == (300, 0, 700)
    kept.lift()
    assert tuple(table["g"]) == (300, 0, 0)
    ledger.nodes.promise_nobody(0, "g", 200)
    kept.restore()
    assert tuple(table["g"]) == (300, 0, 700)
    kept.lift()
    assert tuple(table["g"]) == (300, 0, 200)


@pytest.mark.parametrize(
    ("run_ms", "until_ms", "passes"),
    [(500, 1_500, True), (501, 1_500, False), (None, 1_500, False), (1, None, False)],
)
def test_who_ends_by_then_may_pass(run_ms: int | None, until_ms: int | None, passes: bool) -> None:
    assert Kept(ledger_with(), "l/wide", until_ms, {}).lets_pass(run_ms, 1_000) is passes
