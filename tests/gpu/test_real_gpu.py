"""What only a real device can show. Skipped, with the driver's own words, where there is none."""

from __future__ import annotations

import os

import pytest

from scheduler_service.agent.nvml import Devices, Nvml
from scheduler_service.backends.local.gpus import local_node


@pytest.fixture
def devices() -> Devices:
    answer = Nvml().read()
    if not isinstance(answer, Devices) or not answer.devices:
        pytest.skip(getattr(answer, "text", "The driver knows of no device."))
    return answer


def test_real_devices_have_ids_and_memory(devices: Devices) -> None:
    assert all(device.uuid.startswith("GPU-") and device.name for device in devices.devices)
    assert all(device.memory_mib is None or device.memory_mib > 0 for device in devices.devices)
    assert devices.driver


def test_this_machine_is_a_node_with_its_real_devices(devices: Devices) -> None:
    machine = local_node(nvml=Nvml(), name="here")
    assert not machine.node.is_simulated
    assert [device.id for device in machine.node.devices] == [d.uuid for d in devices.devices]


def test_cuda_sees_the_device_that_the_pod_was_given(devices: Devices) -> None:
    """The id in CUDA_VISIBLE_DEVICES is one that CUDA itself understands."""
    import subprocess
    import sys

    script = (
        "import ctypes\ncuda = ctypes.CDLL('libcuda.so.1')\ncount = ctypes.c_int(-1)\n"
        "assert cuda.cuInit(0) == 0\nassert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0\nprint(count.value)"
    )
    free = [device.uuid for device in devices.devices if not device.is_mig]
    if not free:
        pytest.skip("Every device here is split by MIG.")
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": free[0]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == "1"
