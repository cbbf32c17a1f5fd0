"""What taking GPUs of a kind of nodes costs those who may be on no other kind."""

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import FractionOfGpu, GpuRequest, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import NodeAffinity, Pod, PodRequest
from scheduler_service.model.policy import Policy
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.board import Board
from scheduler_service.planning.hosting import DEAREST, Hosting
from scheduler_service.planning.requests import requests_of

NODES = (
    Node("n0", gpus=4, labels={"kind": "common"}),
    Node("n1", gpus=4, labels={"kind": "common"}),
    Node("n2", gpus=1, labels={"kind": "rare"}),
)


def asks(name: str, gpu: GpuRequest, kind: str | None = None) -> Pod:
    only = (NodeAffinity("kind", (kind,)),) if kind else ()
    return Pod(name, "d", "d/g", request=PodRequest(1000, 1 << 30, gpu), node_affinity=only)


def prices(*pods: Pod) -> tuple[int, int]:
    """Return the prices of the common and of the rare kind."""
    board = Board.of(
        Ledger.from_snapshot(Snapshot(nodes=NODES, pods=pods)), Policy.conformance(), 0
    )
    hosting, class_of = Hosting(board, requests_of(board)), board.ledger.nodes.class_of
    return hosting.price(class_of[0]), hosting.price(class_of[2])


def test_a_kind_costs_what_is_asked_for_of_it_alone_against_its_part_of_all_gpus() -> None:
    """Six GPUs are asked for of eight in nine, half a GPU of one in nine."""
    common = [asks(f"c{number}", WholeGpus(2), "common") for number in range(3)]
    rare = asks("r", FractionOfGpu(500), "rare")
    anywhere = [asks(f"a{number}", WholeGpus(8)) for number in range(9)]

    expected = (6000 * 9000 // 8 // 6500, 500 * 9000 // 1 // 6500)
    assert prices(*common, rare) == prices(*common, rare, *anywhere) == expected


def test_the_price_has_a_bound_and_costs_nothing_where_all_may_be_anywhere() -> None:
    assert prices(asks("r", WholeGpus(1), "rare")) == (0, DEAREST)
    assert prices(asks("a", WholeGpus(1))) == (0, 0)
    assert prices(asks("nobody", WholeGpus(1), "gone")) == (0, 0)
