from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_service.agent.nvml import Nvml
from scheduler_service.backends.local import host
from scheduler_service.backends.local.gpus import local_node, simulated_devices
from scheduler_service.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "count", "memory_mib"),
    [
        ("2x24GiB", 2, 24576),
        ("8 x 80GiB", 8, 81920),
        ("4", 4, 24576),
        ("1x16000", 1, 16000),
        ("0", 0, 0),
    ],
)
def test_simulated_devices_are_read(text: str, count: int, memory_mib: int) -> None:
    devices = simulated_devices(text)
    assert len(devices) == count
    assert all(d.memory_mib == memory_mib and d.simulated and not d.taken for d in devices)
    assert [d.id for d in devices] == [f"GPU-sim-{index}" for index in range(count)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not of the form"),
        ("two", "not of the form"),
        ("-1x24GiB", "not of the form"),
        ("2x", "not of the form"),
        ("2x24Gloops", "unit .Gloops. is not known"),
        ("2x0GiB", "without memory"),
        ("9999999x24GiB", "More than 1024"),
    ],
)
def test_bad_simulated_devices_get_a_sentence(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        simulated_devices(text)
    assert "2x24GiB" in caught.value.hint


def test_simulation_is_always_told_and_always_wins() -> None:
    machine = local_node(nvml=Nvml(), simulate="3x8GiB", name="here")
    assert (machine.node.name, machine.node.gpus, machine.node.gpu_memory_mib) == ("here", 3, 8192)
    assert machine.notes == ("The GPUs are simulated.",)
    assert machine.node.is_simulated


def test_a_container_tells_its_own_bounds(tmp_path: Path) -> None:
    """A container with 1.5 CPUs and 2 GiB on a large machine."""
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "memory.max").write_text(f"{2 << 30}\n")
    assert host.milli_cpu(tmp_path) == min(1500, host.milli_cpu(Path("/nonexistent")))
    assert host.memory_bytes(tmp_path) == min(2 << 30, host.memory_bytes(Path("/nonexistent")))


def test_no_bound_is_the_whole_machine(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert host.milli_cpu(tmp_path) == host.milli_cpu(Path("/nonexistent"))
    assert host.memory_bytes(tmp_path) == host.memory_bytes(Path("/nonexistent"))
