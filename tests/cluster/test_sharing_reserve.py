"""`kai reserve`, what runs in a reservation pod: it tells its device with its own small rights, and waits small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.binding import IMAGE, RESERVATIONS, RESERVED
from tests.cluster.testbed.process import wait_until

TOLD = "run.ai/reserve_for_gpu_index"


@pytest.fixture
def reservation(kai_cluster, namespace):
    """Give a pod of the reservation namespace; nobody plays its kubelet, so only the program can tell."""
    del namespace
    pod = kai_cluster.admin.post(
        RESERVATIONS,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "gpu-reservation-0", "namespace": RESERVED},
            "spec": {
                "schedulerName": "nobody",
                "serviceAccountName": "kai-resource-reservation",
                "containers": [{"name": "c", "image": IMAGE}],
            },
        },
    )
    yield pod
    kai_cluster.admin.delete(f"{RESERVATIONS}/gpu-reservation-0", grace_s=0)


def started(cluster, **environment):
    login = cluster.access("kai-resource-reservation", RESERVED)
    own = {"KUBECONFIG": str(login.kubeconfig), "POD_NAMESPACE": RESERVED}
    return cluster.kai("reserve", environment={**own, **environment})


def test_it_tells_the_device_that_the_plug_in_gave_and_waits_small(kai_cluster, reservation):
    process = started(kai_cluster, POD_NAME="gpu-reservation-0", NVIDIA_VISIBLE_DEVICES="GPU-abc")
    kai_cluster.admin.wait_for_one(
        f"{RESERVATIONS}/gpu-reservation-0",
        lambda one: one["metadata"].get("annotations", {}).get(TOLD) == "GPU-abc",
        "the device is told",
    )
    process.wait_until(lambda: "holds GPU-abc" in process.tail(), "it only waits")
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) < 20_000
    process.stop()
    assert process.exit_code == 0


def test_a_reservation_that_does_not_know_its_device_says_why_and_ends(kai_cluster, reservation):
    process = started(kai_cluster, POD_NAME="gpu-reservation-0", NVIDIA_VISIBLE_DEVICES="void")
    wait_until(lambda: not process.alive, "it ends")
    assert process.exit_code == 1
    assert "does not know which GPU it was given" in process.tail()
    assert "Traceback" not in process.tail()


def test_outside_of_a_reservation_pod_it_says_so(kai_cluster):
    process = started(kai_cluster)
    wait_until(lambda: not process.alive, "it ends")
    assert process.exit_code == 2
    assert "runs in a reservation pod only" in process.tail()
