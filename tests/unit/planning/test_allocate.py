"""Allocate, seen from the plan: who starts where, and what the others are told."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_service.ledger.events import PodRemoved
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuShare, Mig, WholeGpus
from scheduler_service.model.node import Taint
from scheduler_service.model.plan import Bind, Pipeline, Plan
from scheduler_service.model.pod import PodState
from scheduler_service.model.pod_group import Preemptibility, flat_gang
from scheduler_service.model.policy import Placement, Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.reasons import (
    BackingOff,
    GangShort,
    GpuMemoryUnknown,
    NeverFits,
    NoMatchingNode,
    NonPreemptibleOverQuota,
    NotEnoughOnNode,
    NotReady,
    OverLimit,
    PlanningFailed,
    QueueMissing,
    QueueNotLeaf,
    Reason,
)
from scheduler_service.model.resources import QueueShare
from scheduler_service.model.snapshot import BackOff, StaticVeto
from scheduler_service.planning.cycle import plan
from tests.unit.small_world import NOW_MS, ONE, SmallWorld, node, queue

HALF = FractionOfGpu(500)
ALLOCATE = Policy(actions=("allocate",))


def binds(made: Plan) -> dict[str, str]:
    """Return pod -> node for everything that is bound."""
    return {op.pod: op.node for op in made.operations() if isinstance(op, Bind)}


def reason_of(made: Plan, group: str) -> Reason | None:
    return next((item.main_reason for item in made.waiting if item.group == group), None)


def planned(world: SmallWorld, policy: Policy = ALLOCATE, **changes: object) -> Plan:
    snapshot = msgspec.structs.replace(world.snapshot(), **changes)
    return plan(Ledger.from_snapshot(snapshot), policy, NOW_MS)


def test_the_fullest_node_with_room_is_taken() -> None:
    world = SmallWorld(nodes=[node("n0"), node("n1")])
    world.runs("old", ONE, on="n1")
    world.waits("new", ONE)

    assert binds(planned(world)) == {"d/new-0": "n1"}


def test_with_spread_the_emptiest_node_is_taken() -> None:
    world = SmallWorld(nodes=[node("n0"), node("n1")])
    world.runs("old", ONE, on="n0")
    world.waits("new", ONE)
    spread = msgspec.structs.replace(ALLOCATE, placement=Placement(gpu="spread"))

    assert binds(planned(world, spread)) == {"d/new-0": "n1"}


def test_a_gang_starts_whole_or_not_at_all() -> None:
    world = SmallWorld(nodes=[node("n0"), node("n1", 1)])
    gang = world.waits("gang", ONE, pods=4)
    small = world.waits("small", ONE)

    made = planned(world)

    assert binds(made).keys() == {f"{small}-0"}
    assert reason_of(made, gang) == GangShort(3, 4, "default")


def test_a_shared_gpu_with_room_is_joined() -> None:
    world = SmallWorld(nodes=[node("n0", named=True)])
    world.runs("old", HALF, on="n0", devices=(GpuShare("GPU-n0-1", 500, 500),))
    world.waits("new", HALF)

    (operation,) = planned(world).operations()

    assert operation == Bind("d/new-0", "n0", (GpuShare("GPU-n0-1", 500, 500),))


def test_named_devices_go_out_in_order_and_never_twice() -> None:
    world = SmallWorld(nodes=[node("n0", 3, named=True)])
    world.runs("old", ONE, on="n0", devices=(GpuShare("GPU-n0-0", 1000, 1000),))
    world.waits("whole", ONE)
    world.waits("part", HALF)

    shares = [op.devices for op in planned(world).operations() if isinstance(op, Bind)]

    assert shares == [
        (GpuShare("GPU-n0-1", 1000, 1000),),
        (GpuShare("GPU-n0-2", 500, 500),),
    ]


def test_a_gang_that_has_to_wait_for_one_place_is_promised_all_of_them() -> None:
    world = SmallWorld(nodes=[node("n0")])
    world.runs("old", ONE, on="n0")
    world.pods[0] = msgspec.structs.replace(world.pods[0], state=PodState.RELEASING)
    world.waits("gang", ONE, pods=2)

    operations = planned(world).operations()

    assert [type(operation) for operation in operations] == [Pipeline, Pipeline]


@pytest.mark.parametrize(
    ("gpu", "reason"),
    [
        (WholeGpus(16), NeverFits("gpu", 16_000, 2000)),
        (GpuMemory(5000), NeverFits("gpu_memory", 5000, 1000)),
        (Mig((("1g.10gb", 1),)), NeverFits("mig", 1, 0, "1g.10gb")),
        (WholeGpus(2), NotEnoughOnNode("gpu", 2000, 1000, "n0")),
    ],
)
def test_what_does_not_fit_is_told_in_numbers(gpu: WholeGpus, reason: Reason) -> None:
    world = SmallWorld()
    world.runs("old", ONE, on="n0")
    group = world.waits("new", gpu)

    assert reason_of(planned(world), group) == reason


def test_cpu_may_be_what_is_missing() -> None:
    world = SmallWorld(nodes=[msgspec.structs.replace(node("n0"), milli_cpu=1500)])
    world.runs("old", None, on="n0")
    group = world.waits("new", ONE)

    assert reason_of(planned(world), group) == NotEnoughOnNode("cpu", 1000, 500, "n0")


def test_unknown_gpu_memory_is_told_as_such() -> None:
    world = SmallWorld(nodes=[node("n0", memory_mib=None)])
    group = world.waits("new", GpuMemory(100))

    assert reason_of(planned(world), group) == GpuMemoryUnknown()


def test_a_taint_and_a_veto_are_told() -> None:
    tainted = msgspec.structs.replace(node("n0"), taints=(Taint("spot"),))
    world = SmallWorld(nodes=[tainted])
    group = world.waits("new", ONE)
    assert reason_of(planned(world), group) == NoMatchingNode(
        "the taint spot is not tolerated", 1, 1
    )

    world.nodes = [node("n0")]
    vetoes = (StaticVeto("d/new-0", "the disk is elsewhere"),)
    made = planned(world, vetoes=vetoes)
    assert reason_of(made, group) == NoMatchingNode("the disk is elsewhere", 1, 1)


def test_limits_count_at_every_level() -> None:
    world = SmallWorld(queues=[queue("top", limit=1000), queue("team", "top")])
    world.runs("old", ONE, on="n0")
    group = world.waits("new", ONE)

    assert reason_of(planned(world), group) == OverLimit("top", "gpu", 1000, 1000, 1000)


def test_work_that_may_not_be_preempted_stays_within_quota() -> None:
    team = Queue("team", gpu=QueueShare(quota=500))
    world = SmallWorld(queues=[team])
    group = world.waits("new", ONE, preemptibility=Preemptibility.NON_PREEMPTIBLE)

    reason = reason_of(planned(world), group)

    assert reason == NonPreemptibleOverQuota("team", "gpu", 500, 0, 1000)


def test_a_queue_that_runs_nothing_is_told() -> None:
    world = SmallWorld()
    lost = world.waits("lost", ONE, queue="nowhere")
    parent = world.waits("parent", ONE, queue="top")

    made = planned(world)

    assert reason_of(made, lost) == QueueMissing("nowhere")
    assert reason_of(made, parent) == QueueNotLeaf("top")


def test_a_group_is_not_ready_until_its_pods_are_there() -> None:
    world = SmallWorld()
    group = world.waits("half", ONE, pods=1, gang=flat_gang(2))

    assert reason_of(planned(world), group) == NotReady(1, 2)


def test_a_group_that_backs_off_says_until_when() -> None:
    world = SmallWorld()
    group = world.waits("new", ONE)
    made = planned(world, back_offs=(BackOff(group, 3, NOW_MS + 5000),))

    assert reason_of(made, group) == BackingOff(3, 5000)
    assert made.waiting[0].not_before_ms == NOW_MS + 5000


def test_positions_count_in_the_queue_and_over_all() -> None:
    world = SmallWorld(nodes=[node("n0", 0)])
    first = world.waits("first", ONE)
    world.waits("apart", ONE, queue="other")
    second = world.waits("second", ONE)

    waiting = {item.group: item for item in planned(world).waiting}

    assert (waiting[first].position, waiting[second].position) == (1, 2)
    assert sorted(item.overall for item in waiting.values()) == [1, 2, 3]


def test_surplus_starts_one_by_one_in_turn_with_others() -> None:
    world = SmallWorld(nodes=[node("n0", 3)])
    world.waits("elastic", ONE, pods=3, gang=flat_gang(1))
    world.waits("other", ONE, queue="other")

    started = binds(planned(world))

    assert started.keys() == {"d/elastic-0", "d/elastic-1", "d/other-0"}


def test_a_fault_in_one_group_stops_that_group_only() -> None:
    """A bug must not stop a cluster: the group that met it says so, the rest goes on."""
    world = SmallWorld()
    bad = world.waits("bad", ONE)
    world.waits("good", ONE)
    broken = StaticVeto("d/bad-0", "no list of nodes", nodes=5)  # type: ignore[arg-type]
    ledger = Ledger.from_snapshot(msgspec.structs.replace(world.snapshot(), vetoes=(broken,)))
    before = ledger.snapshot(NOW_MS)

    made = plan(ledger, ALLOCATE, NOW_MS)

    assert binds(made) == {"d/good-0": "n0"}
    assert reason_of(made, bad) == PlanningFailed("TypeError")
    assert ledger.snapshot(NOW_MS) == before


def test_a_gpu_that_leaves_sharing_is_no_room_for_a_share() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    world.runs("going", HALF, on="n0", devices=(GpuShare("g0", 500),))
    world.pods[0] = msgspec.structs.replace(world.pods[0], state=PodState.RELEASING)
    world.waits("whole", ONE, priority=1000)
    share = world.waits("share", FractionOfGpu(250))

    made = planned(world)

    assert [op.pod for op in made.operations() if isinstance(op, Pipeline)] == ["d/whole-0"]
    assert reason_of(made, share) == NotEnoughOnNode("gpu", 250, 0, "n0")


def test_a_gpu_that_was_shared_once_and_is_held_whole_now_is_no_room_for_a_share() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    world.runs("before", HALF, on="n0", devices=(GpuShare("g0", 500),))
    share = world.waits("share", HALF)
    whole = world.waits("whole", ONE, priority=1000)
    ledger = world.ledger()
    ledger.apply(PodRemoved("d/before-0"))

    made = plan(ledger, ALLOCATE, NOW_MS)

    assert binds(made).keys() == {f"{whole}-0"}
    assert reason_of(made, share) == NotEnoughOnNode("gpu", 500, 0, "n0")
