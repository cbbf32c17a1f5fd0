"""What each event does to the book."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_service.ledger import events
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.claim import ClaimAllocation, ResourceClaim, ResourceSlice
from scheduler_service.model.gpu import FractionOfGpu, GpuShare, WholeGpus
from scheduler_service.model.plan import Evict, Pipeline, Statement
from scheduler_service.model.pod import Pod, PodRequest, PodState
from scheduler_service.model.pod_group import SubGroup
from scheduler_service.model.reasons import Cancelled
from scheduler_service.model.snapshot import BackOff, Hold, StaticVeto
from scheduler_service.model.topology import Topology
from tests.unit.small_world import NOW_MS, ONE, SmallWorld, node, queue


@pytest.fixture
def world() -> SmallWorld:
    world = SmallWorld()
    world.runs("old", ONE, on="n0")
    world.waits("new", ONE)
    return world


def free_gpus(ledger: Ledger, name: str = "n0") -> tuple[int, int]:
    """Return whole GPUs free now, and in the end."""
    row = ledger.nodes.row_of[name]
    return ledger.nodes.idle_gpu[row], ledger.nodes.all_gpu[row]


def held_gpu(ledger: Ledger, name: str = "team") -> int:
    return ledger.queues.allocated[ledger.queues.row_of[name]][2]


def test_a_binding_takes_room_and_counts_up_to_the_top(world: SmallWorld) -> None:
    ledger = world.ledger()

    ledger.apply(events.PodStateChanged("d/new-0", PodState.BINDING, "n0"))

    assert free_gpus(ledger) == (0, 0)
    assert held_gpu(ledger) == held_gpu(ledger, "top") == 2000


def test_a_leaving_pod_keeps_its_place_but_counts_no_more(world: SmallWorld) -> None:
    ledger = world.ledger()

    ledger.apply(events.PodStateChanged("d/old-0", PodState.RELEASING))

    assert free_gpus(ledger) == (1, 2)
    assert held_gpu(ledger) == 0


def test_a_place_is_kept_where_an_event_tells_none(world: SmallWorld) -> None:
    """A kubelet reports Running; the node is known from the binding."""
    ledger = world.ledger()
    ledger.apply(events.PodStateChanged("d/new-0", PodState.BINDING, "n0"))
    ledger.apply(events.PodStateChanged("d/new-0", PodState.RUNNING))

    pod = next(pod for pod in ledger.snapshot(0).pods if pod.name == "new-0")

    assert (pod.state, pod.node) == (PodState.RUNNING, "n0")


def test_a_pod_without_a_place_can_not_run(world: SmallWorld) -> None:
    ledger = world.ledger()

    ledger.apply(events.PodStateChanged("d/new-0", PodState.RUNNING))

    assert ledger.snapshot(0).pods == world.ledger().snapshot(0).pods


def test_pods_may_come_before_their_node_and_group() -> None:
    world = SmallWorld()
    world.runs("old", ONE, on="n0")
    ledger = Ledger()
    for pod in world.pods:
        ledger.apply(events.PodAdded(pod))
    for made in world.queues:
        ledger.apply(events.QueueAdded(made))
    for group in world.groups:
        ledger.apply(events.PodGroupAdded(group))
    ledger.apply(events.NodeAdded(world.nodes[0]))

    assert free_gpus(ledger) == (1, 1)
    assert held_gpu(ledger) == 1000


def test_a_node_that_shrinks_below_what_runs_on_it_stays_overbooked(world: SmallWorld) -> None:
    ledger = world.ledger()

    ledger.apply(events.NodeChanged(node("n0", 0)))

    assert free_gpus(ledger) == (-1, -1)
    ledger.apply(events.NodeChanged(node("n0", 2)))
    assert free_gpus(ledger) == (1, 1)


def test_a_node_that_is_gone_comes_back_with_its_pods(world: SmallWorld) -> None:
    ledger = world.ledger()

    ledger.apply(events.NodeRemoved("n0"))
    assert ledger.snapshot(0).nodes == ()

    ledger.apply(events.NodeAdded(node("n0")))
    assert free_gpus(ledger) == (1, 1)


def test_a_group_takes_its_pods_with_it(world: SmallWorld) -> None:
    ledger = world.ledger()

    ledger.apply(events.PodGroupRemoved("d/old"))

    assert free_gpus(ledger) == (2, 2)
    assert [pod.name for pod in ledger.snapshot(0).pods] == ["new-0"]


class CountedReads(list[Pod]):
    """Models of pods that count how often one is read."""

    reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("event", [events.PodGroupChanged, events.PodGroupRemoved])
def test_news_of_a_group_looks_at_its_own_pods_only(event: type[events.Event]) -> None:
    world = SmallWorld()
    for number in range(200):
        world.waits(f"w{number}", ONE)
    ledger = world.ledger()
    counted = ledger.pods.models = CountedReads(ledger.pods.models)
    told = world.groups[7]

    ledger.apply(event(told if event is events.PodGroupChanged else told.key))

    assert counted.reads < 10


def test_pods_of_a_sub_group_that_comes_later_are_let_in_then(world: SmallWorld) -> None:
    """The tree of a group is changed: what it no longer names waits, and counts again once it does."""
    ledger = world.ledger()
    (old, new) = world.groups
    other = SubGroup("", 1, children=(SubGroup("workers", 1),))
    for group in (old, new):
        ledger.apply(events.PodGroupChanged(msgspec.structs.replace(group, gang=other)))

    assert held_gpu(ledger) == 0
    assert free_gpus(ledger) == (1, 1)

    ledger.apply(events.PodGroupChanged(old))
    assert held_gpu(ledger) == 1000

    ledger.apply(events.PodGroupRemoved(new.key))
    assert "d/new-0" not in ledger.pods.row_of
    assert not ledger.orphans


def test_a_group_that_changes_its_queue_is_charged_there(world: SmallWorld) -> None:
    ledger = world.ledger()
    moved = msgspec.structs.replace(world.groups[0], queue="other")

    ledger.apply(events.PodGroupChanged(moved))

    assert held_gpu(ledger, "other") == 1000
    assert held_gpu(ledger, "team") == 0


def test_a_queue_that_is_gone_holds_nothing_until_it_is_back(world: SmallWorld) -> None:
    ledger = world.ledger()

    ledger.apply(events.QueueRemoved("team"))
    assert held_gpu(ledger, "top") == 0

    ledger.apply(events.QueueAdded(queue("team", "top")))
    assert held_gpu(ledger, "top") == 1000


def test_the_row_of_a_pod_that_is_gone_is_used_again(world: SmallWorld) -> None:
    ledger = world.ledger()
    before = len(ledger.pods.models)
    for _ in range(3):
        ledger.apply(events.PodRemoved("d/new-0"))
        ledger.apply(events.PodAdded(world.pods[1]))

    assert len(ledger.pods.models) == before


def test_an_accepted_statement_is_assumed_with_a_hold_for_promises(world: SmallWorld) -> None:
    ledger = world.ledger()
    statement = Statement(
        "preempt",
        "d/new",
        (Evict("d/old-0", "n0", Cancelled("x")), Pipeline("d/new-0", "n0")),
    )

    ledger.apply(events.Assumed(statement, NOW_MS, hold_ms=500))

    assert ledger.holds == {"d/new-0": Hold("d/new-0", "n0", NOW_MS + 500)}
    assert free_gpus(ledger) == (1, 2)
    ledger.apply(events.AssumedUndone(statement))
    assert ledger.holds == {}
    assert ledger.snapshot(0) == world.ledger().snapshot(0)


def test_a_shared_gpu_is_one_gpu_and_one_slot_more() -> None:
    world = SmallWorld()
    share = (GpuShare("g", 500, 500),)
    world.runs("a", FractionOfGpu(500), on="n0", devices=share)
    world.runs("b", FractionOfGpu(500), on="n0", devices=share)
    ledger = world.ledger()
    row = ledger.nodes.row_of["n0"]

    assert free_gpus(ledger) == (1, 1)
    assert ledger.nodes.idle_slots[row] == 110 - 3

    ledger.apply(events.PodStateChanged("d/a-0", PodState.RELEASING))
    assert free_gpus(ledger) == (1, 1)
    ledger.apply(events.PodStateChanged("d/b-0", PodState.RELEASING))
    assert free_gpus(ledger) == (1, 2)
    ledger.apply(events.PodRemoved("d/a-0"))
    ledger.apply(events.PodRemoved("d/b-0"))
    assert free_gpus(ledger) == (2, 2)
    assert ledger.nodes.idle_slots[row] == 110


def test_a_claim_is_taken_once_and_freed_by_the_last_user() -> None:
    world = SmallWorld(nodes=[node("n0", 0)])
    ledger = world.ledger()
    ledger.apply(events.SlicesChanged((ResourceSlice("n0", "gpu.example", 2),)))
    ledger.apply(events.ClaimChanged(ResourceClaim("c", "d", "gpu.example", 2, queue="team")))
    for name in ("a", "b"):
        pod = Pod(name, "d", "d/none", PodState.RUNNING, node="n0", resource_claims=("c",))
        ledger.apply(events.PodAdded(pod))

    assert free_gpus(ledger) == (0, 0)
    ledger.apply(events.PodRemoved("d/a"))
    assert free_gpus(ledger) == (0, 0)
    ledger.apply(events.PodRemoved("d/b"))
    assert free_gpus(ledger) == (2, 2)
    ledger.apply(events.ClaimRemoved("d/c"))
    assert ledger.snapshot(0).resource_claims == ()


def test_foreign_users_keep_a_claim_where_it_is() -> None:
    world = SmallWorld(nodes=[node("n0", 0)])
    ledger = world.ledger()
    ledger.apply(events.SlicesChanged((ResourceSlice("n0", "gpu.example", 2),)))
    claim = ResourceClaim(
        "c", "d", "gpu.example", 1, allocation=ClaimAllocation("n0"), foreign_consumers=1
    )
    ledger.apply(events.ClaimChanged(claim))

    assert free_gpus(ledger) == (1, 1)
    ledger.apply(events.NodeChanged(node("n0", 0)))
    assert free_gpus(ledger) == (1, 1)


def test_what_is_said_beside_pods_is_part_of_every_snapshot(world: SmallWorld) -> None:
    ledger = world.ledger()
    told: list[events.Event] = [
        events.BackedOff(BackOff("d/new", 2, NOW_MS)),
        events.Held(Hold("d/new-0", "n0", NOW_MS)),
        events.VetoesChanged((StaticVeto("d/new-0", "no disk"),)),
        events.TopologyChanged(Topology("t", ("zone",))),
        events.UsageChanged({}, {"team": {"ann": 5}}),
    ]
    ledger.apply_all(told)
    read = ledger.snapshot(0)

    assert len(read.back_offs) == len(read.holds) == 1
    assert len(read.vetoes) == len(read.topologies) == 1
    assert read.owner_usage == {"team": {"ann": 5}}
    assert Ledger.from_snapshot(read).snapshot(0) == read
    ledger.apply_all(
        [
            events.BackOffEnded("d/new"),
            events.HoldEnded("d/new-0"),
            events.VetoesChanged(()),
            events.TopologyChanged(Topology("t", ())),
            events.UsageChanged({}),
        ]
    )
    assert ledger.snapshot(0) == world.ledger().snapshot(0)


def test_overhead_is_held_too() -> None:
    world = SmallWorld()
    ledger = world.ledger()
    request = PodRequest(1000, 0, WholeGpus(1), overhead_milli_cpu=250, overhead_memory_bytes=7)

    ledger.apply(
        events.PodAdded(Pod("p", "d", "d/x", PodState.RUNNING, request=request, node="n0"))
    )

    row = ledger.nodes.row_of["n0"]
    assert ledger.nodes.idle_cpu[row] == 16_000 - 1250
    assert ledger.nodes.idle_memory[row] == (64 << 30) - 7


class CountedPlaces(list[int]):
    """A column that counts how often it is read."""

    reads = 0

    def __getitem__(self, at: object) -> int:  # type: ignore[override]
        self.reads += 1
        return super().__getitem__(at)  # type: ignore[call-overload, no-any-return]


def busy(nodes: int) -> Ledger:
    world = SmallWorld(nodes=[node(f"n{number}") for number in range(nodes)])
    for number in range(nodes):
        world.runs(f"on-{number}", ONE, on=f"n{number}")
    return world.ledger()


def reads_of_a_change(ledger: Ledger) -> int:
    ledger.apply(events.NodeChanged(node("n1", gpus=3)))
    column = ledger.pods.node = CountedPlaces(ledger.pods.node)
    ledger.apply(events.NodeChanged(node("n0", gpus=3)))
    return column.reads


def test_a_change_of_a_node_costs_what_is_on_it_and_not_what_is_elsewhere() -> None:
    assert reads_of_a_change(busy(4)) == reads_of_a_change(busy(40))


def test_a_node_knows_who_came_who_left_and_who_is_elsewhere_now(world: SmallWorld) -> None:
    world.waits("third", ONE)
    ledger = world.ledger()
    row = ledger.nodes.row_of["n0"]

    def on_it() -> list[str]:
        return [ledger.pods.keys[pod] for pod in ledger.pods.on(row)]

    assert on_it() == ["d/old-0"]
    ledger.apply(events.PodStateChanged("d/new-0", PodState.BINDING, "n0"))
    assert on_it() == ["d/new-0", "d/old-0"]
    ledger.apply(events.PodStateChanged("d/new-0", PodState.PENDING))
    ledger.apply(events.PodStateChanged("d/third-0", PodState.BINDING, "n0"))
    assert on_it() == ["d/old-0", "d/third-0"]
    ledger.apply(events.PodRemoved("d/old-0"))
    ledger.apply(events.PodGroupRemoved("d/third"))
    assert on_it() == []
