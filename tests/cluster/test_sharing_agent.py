"""`kai agent` on a node: its devices as an annotation of the real API server, written when something is news."""

from __future__ import annotations

import json

import pytest

from tests.cluster.binding import OUR_NAMESPACE
from tests.fakes import nvml

NOTE = "kai.scheduler/gpu-devices"
IDLE = "driver 550.54\ndevice GPU-a 24576 1024 0 0 NVIDIA A10\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return nvml.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def agent(kai_cluster, namespace, library, tmp_path):
    """Give the running agent of node `n`, and the file that its fake NVML reads."""
    del namespace  # removes the node afterwards
    kai_cluster.nodes.add("n", gpus=1)
    world = tmp_path / "world"
    world.write_text(IDLE)
    environment = {"LD_LIBRARY_PATH": str(library), "KAI_FAKE_NVML": str(world)}
    with kai_cluster.faulty_proxy(kai_cluster.access("kai-agent", OUR_NAMESPACE)) as proxy:
        flags = ["--node", "n", "--every", "0.1", "--kubeconfig", str(proxy.login.kubeconfig)]
        process = kai_cluster.kai("agent", *flags, environment=environment)
        yield process, world, proxy
        process.kill()


def told(one):
    return json.loads(one["metadata"].get("annotations", {}).get(NOTE, "{}"))


def test_the_node_says_what_devices_it_has_and_who_uses_them(kai_cluster, agent):
    process, world, proxy = agent
    node = "/api/v1/nodes/n"
    first = kai_cluster.admin.wait_for_one(
        node, lambda one: [d["uuid"] for d in told(one).get("devices", [])] == ["GPU-a"], "told"
    )
    assert told(first)["devices"][0] == {
        "uuid": "GPU-a",
        "index": 0,
        "model": "NVIDIA A10",
        "memory_mib": 24576,
        "mig": False,
        "pids": [],
    }
    world.write_text(IDLE.replace("1024 0", "9999 87"))  # busier: no news
    world.write_text(IDLE + "process 0 42 512\n")
    second = kai_cluster.admin.wait_for_one(
        node, lambda one: told(one)["devices"][0]["pids"] == [42], "a process is told"
    )
    assert told(second) != told(first)
    assert len(proxy.writes()) == 2
    process.stop()
    assert process.exit_code == 0


def test_an_agent_that_starts_anew_writes_nothing_that_is_there(kai_cluster, agent):
    process, world, proxy = agent
    node = "/api/v1/nodes/n"
    first = kai_cluster.admin.wait_for_one(node, lambda one: bool(told(one)), "told")
    process.kill()
    proxy.forget()
    process.start()
    world.write_text(IDLE + "process 0 7 1\n")
    second = kai_cluster.admin.wait_for_one(
        node, lambda one: told(one)["devices"][0]["pids"] == [7], "the new process is told"
    )
    assert told(second) != told(first)
    assert len(proxy.writes()) == 1


def test_a_driver_that_is_gone_is_told_with_its_sentence(kai_cluster, agent):
    _, world, _ = agent
    node = "/api/v1/nodes/n"
    kai_cluster.admin.wait_for_one(node, lambda one: bool(told(one).get("devices")), "told")
    world.write_text("init 18\n")
    found = kai_cluster.admin.wait_for_one(
        node, lambda one: told(one).get("trouble") == "driver_changed", "the trouble is told"
    )
    assert "was changed while it was in use" in told(found)["text"]
