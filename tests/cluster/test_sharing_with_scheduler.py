"""Scheduler and binder together: halves and whole GPUs on one node, never more than there is, all of it free again."""

from __future__ import annotations

import pytest

from tests.cluster.binding import Bench
from tests.cluster.scheduling import Stage, scheduler


@pytest.fixture
def world(kai_cluster, namespace):
    """Give stage and bench of one namespace, with both programs running."""
    bench = Bench(kai_cluster, namespace)
    with scheduler(kai_cluster), bench.binder():
        yield Stage(kai_cluster, namespace), bench


def half(stage, name):
    notes = {"gpu-fraction": "0.5", "runai/shared-gpu-configmap": f"{name}-abc1234-shared-gpu"}
    return stage.alone(name, annotations=notes)


def test_halves_and_whole_gpus_fill_a_node_and_come_back(world):
    """ALC-45, ALC-46: four halves on two devices beside one whole GPU; afterwards three whole ones fit."""
    stage, bench = world
    stage.cluster.nodes.add("n", gpus=3)
    halves = [half(stage, f"h{number}") for number in range(4)]
    for name in halves:
        bench.running(name)
    stage.alone("whole", gpus=1)
    bench.running("whole")
    seen = [bench.variables(name)["NVIDIA_VISIBLE_DEVICES"] for name in halves]
    assert sorted(seen.count(device) for device in {*seen}) == [2, 2]
    assert set(bench.reservations().values()) == {*seen}
    taken = stage.cluster.nodes.devices(f"{bench.pods}/whole")
    assert not {*taken} & {*seen}
    for name in halves:
        bench.admin.delete(f"{bench.pods}/{name}", grace_s=0)
    bench.wait_for_reservations(set())
    for name in ("second", "third"):
        stage.alone(name, gpus=1)
        bench.running(name)


def test_a_failed_bind_is_decided_anew(world):
    """The device goes to a foreign pod between decision and reservation; the half runs once there is room."""
    stage, bench = world
    stage.cluster.nodes.add("n", gpus=1)
    player = stage.cluster.nodes.player
    player.kill()
    try:
        half(stage, "h")
        bench.admin.wait_for(bench.requests, lambda all_: "h" in all_, "a decision is made")
        bench.pod("foreign", gpus=1, nodeName="n")
    finally:
        player.start()
    bench.admin.wait_for_one(
        f"{bench.pods}/foreign",
        lambda one: one["status"]["phase"] != "Pending",
        "it started or failed",
    )
    bench.admin.delete(f"{bench.pods}/foreign", grace_s=0)
    bench.running("h")
