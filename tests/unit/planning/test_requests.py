"""The requests that the book knows: by what they ask for and where they may be, whoever came first."""

import pytest

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import NodeAffinity, Pod, PodRequest, Toleration
from scheduler_service.model.policy import Policy
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning import requests
from scheduler_service.planning.board import Board
from scheduler_service.planning.requests import requests_of


def pod(name: str, gpu: GpuRequest | None, **rules: object) -> Pod:
    return Pod(name, "d", "d/g", request=PodRequest(1000, 1 << 30, gpu), **rules)


def known(*pods: Pod) -> list[tuple[int, int, int]]:
    """Return size, GPUs and weight of each request, the most frequent first."""
    node = Node("n0", gpus=8, gpu_memory_mib=40_000)
    ledger = Ledger.from_snapshot(Snapshot(nodes=(node,), pods=pods))
    board = Board.of(ledger, Policy.conformance(), 0)
    return [(r.size, r.gpus, r.weight) for r in requests_of(board)]


def test_whole_gpus_parts_and_memory_count_and_work_without_gpus_does_not():
    found = known(
        pod("a", WholeGpus(2)),
        pod("b", WholeGpus(2)),
        pod("c", FractionOfGpu(300, 2)),
        pod("d", GpuMemory(10_000)),
        pod("e", None),
        pod("f", WholeGpus(1), legacy_mig=True),
    )

    assert found == [(1000, 2, 2), (250, 1, 1), (300, 2, 1)]


@pytest.mark.parametrize("turned", [False, True])
def test_pods_that_may_be_on_other_nodes_are_other_requests_in_whatever_order_they_came(turned):
    pods = [
        pod("a", WholeGpus(1), tolerations=(Toleration("x"),)),
        pod("b", WholeGpus(1), tolerations=(Toleration("y"),)),
        pod("c", WholeGpus(1), node_affinity=(NodeAffinity("model", ("A",)),)),
        pod("f", WholeGpus(1), node_affinity=(NodeAffinity("model", ("A",)),)),
        pod("d", WholeGpus(1), node_affinity=(NodeAffinity("model", ("A",), 5),)),
        pod("e", WholeGpus(1)),
    ]

    assert known(*(pods[::-1] if turned else pods)) == [
        *[(1000, 1, 2)] * 2,
        *[(1000, 1, 1)] * 2,
    ]


@pytest.mark.parametrize("turned", [False, True])
def test_a_whole_gpu_asked_for_in_three_ways_is_three_requests(turned):
    """Memory is not to be had where nobody knows it, nor a part where GPUs are not shared."""
    pods = [
        pod("a", WholeGpus(1)),
        pod("b", FractionOfGpu(1000)),
        pod("c", GpuMemory(40_000)),
    ]

    assert known(*(pods[::-1] if turned else pods)) == [(1000, 1, 1)] * 3


def test_the_most_frequent_requests_are_kept(monkeypatch):
    monkeypatch.setattr(requests, "MOST", 1)

    assert known(pod("a", WholeGpus(1)), pod("b", WholeGpus(4)), pod("c", WholeGpus(4))) == [
        (1000, 4, 2)
    ]
