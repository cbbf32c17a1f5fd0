"""Which GPUs of different size a part takes on one node, and whether it fits there now or later."""

from __future__ import annotations

import pytest

from scheduler_service.ledger.nodes import NodeTable
from scheduler_service.ledger.shape import Shape
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, GpuShare, WholeGpus
from scheduler_service.model.node import GpuDevice, Node
from scheduler_service.model.pod import Pod, PodRequest, PodState
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning import mixed

SIZES = {"small": 16_000, "middle": 40_000, "large": 80_000}
HALF = FractionOfGpu(500)


def held(
    name: str, gpu: GpuRequest | None, *devices: str, state: PodState = PodState.RUNNING
) -> Pod:
    """Return a pod on these GPUs."""
    shares = tuple(GpuShare(device, 500, SIZES[device] // 2) for device in devices)
    return Pod(name, "d", "d/g", state, request=PodRequest(0, 0, gpu), node="n0", devices=shares)


def world(gpu: GpuRequest, *pods: Pod, slots: int = 110) -> tuple[NodeTable, Shape]:
    """Return the nodes of a book and the shape of a pod that waits."""
    devices = tuple(
        GpuDevice(name, index, memory_mib=size) for index, (name, size) in enumerate(SIZES.items())
    )
    node = Node("n0", gpus=3, gpu_memory_mib=16_000, max_pods=slots, devices=devices)
    want = Pod("want", "d", "d/g", request=PodRequest(0, 0, gpu))
    ledger = Ledger.from_snapshot(Snapshot(nodes=(node,), pods=(*pods, want)))
    return ledger.nodes, ledger.shape_of(ledger.pods.row_of["d/want"])


def test_the_largest_free_gpu_is_one_that_nobody_has_whole_or_in_part() -> None:
    whole, part = held("w", WholeGpus(1), "large"), held("p", HALF, "middle")
    leaves = held("l", HALF, "small", state=PodState.RELEASING)

    going = held("w", WholeGpus(1), "large", state=PodState.RELEASING)

    found = [
        mixed.largest_free(world(HALF, *pods)[0], 0)
        for pods in ((), (whole,), (whole, part), (part,), (whole, part, leaves), (going,))
    ]

    assert found == [80_000, 40_000, 16_000, 80_000, 0, 40_000]


@pytest.mark.parametrize(
    ("gpu", "slots", "expected"),
    [
        (HALF, 2, (True, True, False)),
        (HALF, 1, (False, True, False)),
        (FractionOfGpu(500, 2), 3, (True, True, False)),
        (FractionOfGpu(500, 2), 2, (False, True, False)),
        (FractionOfGpu(500, 4), 9, (False, False, False)),
        (GpuMemory(30_000, 2), 9, (True, True, False)),
        (GpuMemory(30_000, 3), 9, (False, False, False)),
    ],
)
def test_each_gpu_that_is_opened_takes_a_slot(
    gpu: GpuRequest, slots: int, expected: tuple[bool, bool, bool]
) -> None:
    assert mixed.fits(*_in(world(gpu, slots=slots))) == expected


def test_beside_others_a_part_needs_no_free_gpu() -> None:
    others = [held(f"p{name}", HALF, name) for name in SIZES]

    assert mixed.fits(*_in(world(HALF, *others, slots=7))) == (True, True, True)
    assert mixed.fits(*_in(world(GpuMemory(41_000), *others))) == (False, False, False)
    assert mixed.fits(*_in(world(FractionOfGpu(600), *others))) == (False, False, False)


def test_what_leaves_is_there_later() -> None:
    others = [held(f"p{name}", HALF, name, state=PodState.RELEASING) for name in SIZES]
    wholes = [held(f"w{name}", WholeGpus(1), name, state=PodState.RELEASING) for name in SIZES]

    for pods in (others, wholes):
        nodes, shape = world(HALF, *pods)
        assert mixed.fits(nodes, 0, shape) == (True, False, False)
        assert mixed.free(nodes, 0, shape, later=True) == ["small", "middle", "large"]
        assert mixed.free(nodes, 0, shape, later=False) == []
        assert mixed.choose(nodes, 0, shape, (), spread=False) == (("small",), True)


def test_pack_joins_the_fullest_and_spread_opens_the_smallest() -> None:
    part = FractionOfGpu(100)
    two = held("a", HALF, "middle"), held("b", HALF, "large")

    nodes, shape = world(part, *two)
    assert mixed.choose(nodes, 0, shape, (), spread=False) == (("large",), False)
    assert mixed.choose(nodes, 0, shape, (), spread=True) == (("small",), False)
    full, shape = world(part, *two, held("c", WholeGpus(1), "small"))
    assert mixed.choose(full, 0, shape, (), spread=True) == (("middle",), False)


def test_without_a_second_slot_spread_joins() -> None:
    nodes, shape = world(FractionOfGpu(100), held("a", HALF, "middle"), slots=3)

    assert mixed.choose(nodes, 0, shape, (), spread=True) == (("middle",), False)


def test_its_own_gpus_come_first() -> None:
    nodes, shape = world(HALF)

    assert mixed.choose(nodes, 0, shape, ("large",), spread=False) == (("large",), False)


def _in(found: tuple[NodeTable, Shape]) -> tuple[NodeTable, int, Shape]:
    return found[0], 0, found[1]


def quarter(name: str, device: str, milli: int, state: PodState = PodState.RUNNING) -> Pod:
    """Return a pod on so much of one GPU."""
    share = GpuShare(device, milli, SIZES[device] * milli // 1000)
    request = PodRequest(0, 0, FractionOfGpu(milli))
    return Pod(name, "d", "d/g", state, request=request, node="n0", devices=(share,))


BUSY = held("w0", WholeGpus(1), "small"), held("w1", WholeGpus(1), "middle")


def test_what_is_promised_of_a_gpu_is_not_there_for_others() -> None:
    nodes, shape = world(HALF, *BUSY, quarter("q", "large", 250))
    nodes.promise_nobody(0, "large", 20_000)

    assert mixed.open_rooms(nodes, 0, shape) == ["large"]
    nodes.promise_nobody(0, "large", 1)
    assert mixed.open_rooms(nodes, 0, shape) == []


def test_a_gpu_that_is_half_held_and_half_promised_is_not_free() -> None:
    nodes, shape = world(HALF, *BUSY, held("p", HALF, "large"))
    nodes.promise_nobody(0, "large", 40_000)

    assert mixed.free(nodes, 0, shape, later=True) == []


def test_beside_those_that_leave_and_those_that_only_come_a_part_waits() -> None:
    leaves = quarter("l", "large", 750, PodState.RELEASING)
    nodes, shape = world(HALF, *BUSY, leaves, quarter("q", "large", 250))
    assert mixed.choose(nodes, 0, shape, (), spread=False) == (("large",), True)

    nodes, shape = world(HALF, *BUSY, quarter("c", "large", 250, PodState.PIPELINED))
    assert mixed.choose(nodes, 0, shape, (), spread=False) == (("large",), True)

    nodes, shape = world(HALF, *BUSY, quarter("q", "large", 500))
    assert mixed.choose(nodes, 0, shape, (), spread=False) == (("large",), False)


def test_memory_costs_most_on_the_smallest_gpu_that_has_it() -> None:
    for mib, size in ((40_000, 40_000), (40_001, 80_000), (16_000, 16_000), (90_000, 16_000)):
        nodes, shape = world(GpuMemory(mib))
        assert mixed.most_charged(nodes, 0, shape) == shape.charge_on(size)


def test_a_free_gpu_that_is_too_small_is_no_place_now() -> None:
    going = held("w", WholeGpus(1), "large", state=PodState.RELEASING)
    nodes, shape = world(GpuMemory(70_000), going)

    assert mixed.fits(nodes, 0, shape) == (True, False, False)
    assert mixed.choose(nodes, 0, shape, (), spread=False) == (("large",), True)


def test_one_shared_gpu_with_room_is_company() -> None:
    assert mixed.fits(*_in(world(HALF, held("a", HALF, "middle")))) == (True, True, True)


def test_with_exactly_two_slots_spread_opens_and_if_one_is_leaving_it_waits() -> None:
    nodes, shape = world(FractionOfGpu(100), held("a", HALF, "middle"), slots=4)
    assert mixed.choose(nodes, 0, shape, (), spread=True) == (("small",), False)

    nodes, shape = world(HALF, held("c", None, state=PodState.RELEASING), slots=2)
    assert mixed.choose(nodes, 0, shape, (), spread=False) == (("small",), True)
