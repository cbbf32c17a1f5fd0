"""An action looks at the first so many waiting groups of a queue only, where the policy says so."""

from msgspec.structs import replace

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.plan import Bind
from scheduler_service.model.pod import Pod, PodRequest
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.cycle import plan

ASKS = {"first": 8, "second": 1, "third": 1}


def bound(**depth: int) -> list[str]:
    """Three groups wait in one queue, one in another; the first fits nowhere."""
    groups = [
        PodGroup(name=name, namespace="d", queue="q", created=n) for n, name in enumerate(ASKS)
    ]
    groups.append(PodGroup(name="other", namespace="d", queue="r"))
    pods = [
        Pod(group.name, "d", group.key, request=PodRequest(gpu=WholeGpus(ASKS.get(group.name, 1))))
        for group in groups
    ]
    snapshot = Snapshot(
        nodes=(Node("n", gpus=4, milli_cpu=1000, memory_bytes=1 << 30),),
        queues=(Queue("q"), Queue("r")),
        pod_groups=tuple(groups),
        pods=tuple(reversed(pods)),  # their order in the book says nothing
    )
    policy = replace(Policy.conformance(), queue_depth=depth)
    made = plan(Ledger.from_snapshot(snapshot), policy, 0)
    return sorted(op.pod for op in made.operations() if isinstance(op, Bind))


def test_without_a_depth_all_are_looked_at() -> None:
    assert bound() == ["d/other", "d/second", "d/third"]


def test_each_queue_has_its_own_first_ones() -> None:
    assert bound(allocate=1) == ["d/other"]
    assert bound(allocate=2) == ["d/other", "d/second"]


def test_a_depth_of_nothing_looks_at_nothing() -> None:
    assert bound(allocate=0) == []


def test_the_depth_of_one_action_is_not_anothers() -> None:
    assert bound(preempt=0) == ["d/other", "d/second", "d/third"]
