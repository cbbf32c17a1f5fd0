"""What has come and gone leaves nothing behind."""

from scheduler_service.ledger import events
from scheduler_service.ledger.store import Ledger
from scheduler_service.ledger.tidy import FEW
from scheduler_service.model.node import Node
from scheduler_service.model.pod import NodeAffinity, Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.planning.cycle import plan

CYCLES = 10_000


def node(name: str, gpus: int = 4) -> Node:
    return Node(
        name, gpus=gpus, milli_cpu=64_000, memory_bytes=1 << 38, labels={"kubernetes.io/host": name}
    )


def ledger_with_a_queue() -> Ledger:
    ledger = Ledger()
    ledger.apply(events.QueueAdded(Queue("q")))
    return ledger


def rows_of(ledger: Ledger) -> list[int]:
    """Return the length of every table that has a place for each node or shape."""
    nodes = ledger.nodes
    tables = (
        nodes.row_of,
        nodes.models,
        nodes.gone,
        nodes.shared,
        nodes.all_extra,
        nodes.by_name(),
    )
    return [*map(len, (*tables, *nodes.columns())), len(nodes.class_of), len(ledger.shapes.shapes)]


def test_nodes_that_come_and_go_leave_no_rows() -> None:
    """When this happens: a cloud pool where every node has a new name, for a year."""
    ledger = ledger_with_a_queue()
    for number in range(3):
        ledger.apply(events.NodeAdded(node(f"stays-{number}")))

    for number in range(CYCLES):
        ledger.apply(events.NodeAdded(node(f"spot-{number}")))
        ledger.apply(events.NodeRemoved(f"spot-{number}"))

    assert max(rows_of(ledger)) <= 3 + 2 * FEW
    assert [found.name for found in ledger.snapshot(0).nodes] == ["stays-0", "stays-1", "stays-2"]


def test_pods_with_rules_and_requests_of_their_own_leave_no_shapes() -> None:
    """When this happens: each run asks for so many bytes, on the very node that it names."""
    ledger = ledger_with_a_queue()
    ledger.apply(events.PodGroupAdded(PodGroup(name="g", namespace="d", queue="q")))

    for number in range(CYCLES // 10):
        here = f"spot-{number}"
        ledger.apply(events.NodeAdded(node(here)))
        term = NodeAffinity("kubernetes.io/host", (here,))
        request = PodRequest(100, number)
        pod = Pod(f"p{number}", "d", "d/g", request=request, node_affinity=(term,))
        ledger.apply(events.PodAdded(pod))
        ledger.apply(events.PodStateChanged(pod.key, PodState.RUNNING, here))
        ledger.apply(events.PodRemoved(pod.key))
        ledger.apply(events.NodeRemoved(here))

    assert max(rows_of(ledger)) <= 2 * FEW + 2
    assert ledger.queues.allocated == [(0, 0, 0)]


def test_a_row_stays_as_long_as_a_pod_is_on_it_and_is_used_again_after() -> None:
    """When this happens: a node is gone before the last word of its pod; then its name comes back."""
    ledger = ledger_with_a_queue()
    ledger.apply(events.PodGroupAdded(PodGroup(name="g", namespace="d", queue="q")))
    ledger.apply(events.NodeAdded(node("old")))
    held = Pod("held", "d", "d/g", state=PodState.RUNNING, request=PodRequest(1000, 1), node="old")
    ledger.apply(events.PodAdded(held))
    ledger.apply(events.NodeRemoved("old"))
    for number in range(2 * FEW):
        ledger.apply(events.NodeAdded(node(f"spot-{number}")))
        ledger.apply(events.NodeRemoved(f"spot-{number}"))

    ledger.apply(events.NodeAdded(node("old")))

    assert ledger.nodes.idle_cpu[ledger.nodes.row_of["old"]] == 63_000
    ledger.apply(events.PodRemoved(held.key))
    assert ledger.nodes.idle_cpu[ledger.nodes.row_of["old"]] == 64_000


def test_rows_that_are_used_again_plan_like_new_ones() -> None:
    ledger = ledger_with_a_queue()
    for number in range(3 * FEW):
        ledger.apply(events.NodeAdded(node(f"spot-{number}", gpus=8)))
    for number in range(3 * FEW):
        ledger.apply(events.NodeRemoved(f"spot-{number}"))
    ledger.apply(events.PodGroupAdded(PodGroup(name="g", namespace="d", queue="q")))
    ledger.apply(events.PodAdded(Pod("p", "d", "d/g", request=PodRequest(1000, 1))))
    for name in ("b", "a"):
        ledger.apply(events.NodeAdded(node(name, gpus=1)))
    fresh = Ledger.from_snapshot(ledger.snapshot(0))

    made = plan(ledger, Policy(), 0)

    assert made.statements == plan(fresh, Policy(), 0).statements
    assert [operation.node for operation in made.operations()] == ["a"]
