"""How many GPUs are missing: shares are packed as they could really lie."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_service.backends.kubernetes.controllers import scale_rules as rules
from scheduler_service.backends.kubernetes.encode.scaling_pod import scaling_name, scaling_pod
from scheduler_service.backends.kubernetes.objects import RawPod, decode_pod
from tests.unit.kubernetes import objects

OURS = frozenset({"kai-scheduler"})
TOLD = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]


def pod(name: str, **parts: Any) -> RawPod:
    notes = {
        key.replace("_", "-"): str(parts.pop(key))
        for key in ("gpu_fraction", "gpu_memory", "gpu_fraction_num_devices")
        if key in parts
    }
    status = {"conditions": parts.pop("conditions", TOLD)}
    return decode_pod(objects.raw(objects.pod(name, annotations=notes, status=status, **parts)))


def sizes(*pods: RawPod, memory: int | None = None) -> list[tuple[int, int]]:
    return [(each.devices, len(each.origins)) for each in rules.bins_of(pods, memory)]


@pytest.mark.parametrize(
    ("fractions", "bins"),
    [
        (["0.6", "0.6", "0.6"], [1, 1, 1]),
        (["0.5", "0.5", "0.5"], [2, 1]),
        (["0.7", "0.3", "0.2"], [2, 1]),
        (["0.333", "0.333", "0.334"], [3]),
    ],
)
def test_shares_are_packed_onto_devices(fractions: list[str], bins: list[int]) -> None:
    pods = [pod(f"p{i}", gpu_fraction=share) for i, share in enumerate(fractions)]
    assert [count for _, count in sizes(*pods)] == bins
    assert [count for _, count in sizes(*reversed(pods))] == bins


def test_memory_is_the_part_of_a_gpu_that_it_is_and_a_whole_one_where_nobody_knows() -> None:
    pods = [pod("a", gpu_memory=8_000), pod("b", gpu_memory=8_000)]
    assert sizes(*pods, memory=16_000) == [(1, 2)]
    assert sizes(*pods, memory=12_000) == [(1, 1), (1, 1)]
    assert sizes(*pods) == [(1, 1), (1, 1)]


def test_devices_of_one_share_stay_together_and_kinds_of_nodes_apart() -> None:
    pair = pod("a", gpu_fraction="0.5", gpu_fraction_num_devices=2)
    other = pod("b", gpu_fraction="0.5", nodeSelector={"pool": "x"})
    assert sizes(pair, other, pod("c", gpu_fraction="0.5")) == [(2, 1), (1, 1), (1, 1)]


def test_a_device_asks_for_the_cpu_and_memory_of_its_shares() -> None:
    first = pod("a", gpu_fraction="0.5", requests={"cpu": "500m"})
    second = pod("b", gpu_fraction="0.5", requests={"cpu": "1", "memory": "1Gi"})
    (both,) = rules.bins_of([first, second], None)
    assert both.amounts == {"cpu": "1500m", "memory": str(2**30)}
    (one,) = rules.bins_of([first], None)
    assert one.amounts == {"cpu": "500m"}


def test_nonsense_needs_no_node() -> None:
    assert sizes(pod("a", gpu_fraction="NaN")) == []


@pytest.mark.parametrize(
    ("parts", "counts"),
    [
        ({}, True),
        ({"conditions": []}, False),
        ({"conditions": [{**TOLD[0], "reason": "SchedulingGated"}]}, False),
        ({"node": "n"}, False),
        ({"phase": "Failed"}, False),
        ({"deleted": objects.MADE}, False),
        ({"schedulerName": "other"}, False),
    ],
)
def test_only_pods_of_ours_that_were_told_count(parts: dict[str, Any], *, counts: bool) -> None:
    assert rules.is_candidate(pod("a", gpu_fraction="0.5", **parts), OURS) is counts


def test_who_stands_for_a_device_already_is_not_made_again() -> None:
    origin = pod("a", gpu_fraction="0.5", nodeSelector={"pool": "x"})
    bins = rules.bins_of([origin, pod("b", gpu_fraction="0.5")], None)
    made = scaling_pod(origin, "image", devices=1, amounts={})
    standing = decode_pod(objects.raw(made))
    assert [each.origins[0].metadata.name for each in rules.missing(bins, [standing])] == ["b"]
    assert rules.missing(bins, [standing, standing]) == rules.missing(bins, [standing])


def test_a_long_name_stays_one_of_its_own() -> None:
    first, second = (scaling_name(pod(f"{'n' * 240}-{end}")) for end in "ab")
    assert first != second
    assert max(len(first), len(second)) <= 253
