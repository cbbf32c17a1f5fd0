"""What groups and queues ask for and hold: exact, and nothing left out that the scheduler counts."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_service.backends.kubernetes.controllers import totals as of
from scheduler_service.backends.kubernetes.controllers.totals import Totals
from scheduler_service.backends.kubernetes.decode.groups import ResourcesStatus
from scheduler_service.backends.kubernetes.encode.status import quantity, resources_patch
from scheduler_service.backends.kubernetes.objects import RawPod, decode_pod
from tests.unit.kubernetes import objects

GPU, GPU_MEMORY, MIG = "nvidia.com/gpu", "run.ai/gpu.memory", "nvidia.com/mig-3g.20gb"


def pod(name: str = "p", **parts: Any) -> RawPod:
    return decode_pod(objects.raw(objects.pod(name, **parts)))


def totals(*pods: RawPod, preemptible: bool = True, memory: int | None = 16_000) -> Totals:
    return of.of_group(pods, preemptible=preemptible, memory=lambda _node: memory)


def test_a_waiting_pod_asks_and_holds_nothing_a_placed_one_does_both_an_ended_one_neither() -> None:
    asks: dict[str, Any] = {"requests": {"cpu": "1500m", "memory": "1Ki", GPU: "2"}}
    waiting = totals(pod(**asks))
    assert waiting.requested == {"cpu": 1500, "memory": 1_024_000, GPU: 2000}
    assert waiting.allocated == {}
    placed = totals(pod(**asks, node="n"), preemptible=False)
    assert placed.requested == placed.allocated == placed.allocated_non_preemptible
    assert totals(pod(**asks, node="n", phase="Succeeded")) == Totals()


@pytest.mark.parametrize(
    ("notes", "asked", "held"),
    [
        ({"gpu-fraction": "0.5"}, {GPU: 500}, {GPU: 500}),
        (
            {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "3"},
            {GPU: 1500},
            {GPU: 1500},
        ),
        ({"gpu-memory": "4000"}, {GPU_MEMORY: 4_000_000}, {GPU: 250}),
        (
            {"gpu-memory": "4000", "gpu-fraction-num-devices": "2"},
            {GPU_MEMORY: 8_000_000},
            {GPU: 500},
        ),
    ],
)
def test_shares_count_with_all_their_devices(
    notes: dict[str, str], asked: dict[str, int], held: dict[str, int]
) -> None:
    assert totals(pod(annotations=notes)).requested == asked
    assert totals(pod(annotations=notes, node="n")).allocated == held


def test_memory_stays_memory_where_nobody_knows_the_gpus_of_the_node() -> None:
    found = totals(pod(annotations={"gpu-memory": "4000"}, node="n"), memory=None)
    assert found.allocated == {GPU_MEMORY: 4_000_000}


def test_init_containers_overhead_and_other_resources_count() -> None:
    init = {"name": "i", "resources": {"requests": {"cpu": "4"}}}
    found = totals(
        pod(
            requests={"cpu": "1", MIG: "1", "example.com/fpga": "2"},
            initContainers=[init],
            overhead={"cpu": "250m"},
        )
    )
    assert found.requested == {"cpu": 4250, MIG: 1000, "example.com/fpga": 2000}


def test_a_share_that_makes_no_sense_spoils_no_sum() -> None:
    found = totals(pod("a", annotations={"gpu-fraction": "NaN"}), pod("b", requests={"cpu": "1"}))
    assert found.requested == {"cpu": 1000}


def test_queues_add_up_to_the_top_and_a_ring_ends() -> None:
    one = Totals(requested={GPU: 1000})
    parents = {"top": "", "a": "top", "b": "top", "c": "a", "x": "y", "y": "x"}
    found = of.of_queues({"a": one, "b": one, "c": one, "x": one}, parents)
    assert {name: each.requested.get(GPU, 0) for name, each in found.items()} == {
        "top": 3000,
        "a": 2000,
        "b": 1000,
        "c": 1000,
        "x": 1000,
        "y": 1000,
    }
    assert of.children_of(parents) == {
        "": ["top"],
        "top": ["a", "b"],
        "a": ["c"],
        "y": ["x"],
        "x": ["y"],
    }


def test_what_is_taken_away_leaves_nothing() -> None:
    one = Totals({GPU: 1000}, {GPU: 500}, {"cpu": 1})
    assert one + -one == Totals()


@pytest.mark.parametrize(("milli", "text"), [(1500, "1500m"), (2000, "2"), (0, "0"), (1, "1m")])
def test_amounts_are_written_as_the_api_does(milli: int, text: str) -> None:
    assert quantity(milli) == text


def test_a_patch_takes_away_what_is_held_no_more() -> None:
    told = ResourcesStatus(requested={GPU: "2", "cpu": "1"}, allocated={GPU: "2"})
    assert of.are_equal({"cpu": "1000m"}, {"cpu": 1000})
    wanted = {"requested": {GPU: "2"}, "allocated": {}, "allocatedNonPreemptible": {}}
    assert resources_patch("u", told, wanted) == {
        "metadata": {"uid": "u"},
        "status": {"resourcesStatus": {"requested": {"cpu": None}, "allocated": {GPU: None}}},
    }
