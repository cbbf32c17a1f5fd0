from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scheduler_service.agent.nvml import Devices, GpuProcess, GpuState, Nvml, Trouble
from tests.fakes import nvml

READ = """
import sys
from scheduler_service.agent.nvml import *
nvml = Nvml()
print(repr(nvml.read()))
for line in sys.argv[1:]:
    open(__import__("os").environ["KAI_FAKE_NVML"], "w").write(line)
    print(repr(nvml.read()))
"""
NODE = """
import sys
from scheduler_service.agent.nvml import Nvml
from scheduler_service.backends.local.foreign import ForeignRule
from scheduler_service.backends.local.gpus import local_node
rule = ForeignRule(holders=dict.fromkeys(sys.argv[1:], frozenset({"me"})))
machine = local_node(nvml=Nvml(), name="here", rule=rule)
for device in machine.node.devices:
    print(device.id, device.memory_mib, device.taken)
print(machine.node.gpus, machine.node.gpu_memory_mib)
print(*machine.notes, sep="\\n")
"""
A10 = "device GPU-a 24576 1024 37 0 NVIDIA A10\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nvml.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return tmp_path / "world"


def seen(library: Path, world: Path, *then: str) -> list[Devices | Trouble]:
    names = {"Devices": Devices, "GpuState": GpuState, "GpuProcess": GpuProcess, "Trouble": Trouble}
    lines = nvml.ask(library, world, READ, *then).splitlines()
    return [eval(line, names) for line in lines]  # noqa: S307 - our own reprs


def test_devices_and_their_processes_are_read(library: Path, world: Path) -> None:
    world.write_text(
        f"driver 550.54\n{A10}device GPU-b 81920 0 0 0 NVIDIA H100\nprocess 0 42 512\n"
    )
    assert seen(library, world) == [
        Devices(
            "550.54",
            (
                GpuState(
                    uuid="GPU-a",
                    index=0,
                    name="NVIDIA A10",
                    memory_mib=24576,
                    used_mib=1024,
                    utilisation_percent=37,
                    is_mig=False,
                    processes=(GpuProcess(42, 512),),
                ),
                GpuState(
                    uuid="GPU-b",
                    index=1,
                    name="NVIDIA H100",
                    memory_mib=81920,
                    used_mib=0,
                    utilisation_percent=0,
                    is_mig=False,
                    processes=(),
                ),
            ),
        )
    ]


def test_what_a_board_does_not_tell_is_none(library: Path, world: Path) -> None:
    """A board with shared memory: no memory, no utilisation, a process whose memory is not told."""
    world.write_text("device GPU-a -1 0 -1 0 NVIDIA GB10\nprocess 0 42 -1\n")
    (answer,) = seen(library, world)
    assert isinstance(answer, Devices)
    device = answer.devices[0]
    assert (device.memory_mib, device.used_mib, device.utilisation_percent) == (None, None, None)
    assert device.processes == (GpuProcess(42, None),)


def test_a_lost_device_is_told_and_the_others_stay(library: Path, world: Path) -> None:
    world.write_text(f"{A10}device GPU-b 81920 0 0 0 NVIDIA H100\nlost 0\n")
    (answer,) = seen(library, world)
    assert isinstance(answer, Devices)
    assert [device.uuid for device in answer.devices] == ["GPU-b"]
    assert answer.lost[0].startswith("GPU 0 does not answer:")


@pytest.mark.parametrize(
    ("code", "word"),
    [(9, "no_driver"), (18, "driver_changed"), (4, "no_permission"), (999, "failed")],
)
def test_each_trouble_has_its_word(library: Path, world: Path, code: int, word: str) -> None:
    world.write_text(f"init {code}\n")
    (answer,) = seen(library, world)
    assert isinstance(answer, Trouble)
    assert answer.code == word
    assert answer.text.endswith((".", "*."))


def test_after_trouble_the_next_read_starts_anew(library: Path, world: Path) -> None:
    """The driver is updated under a running service, and the machine heals."""
    world.write_text(A10)
    first, second, third = seen(library, world, "init 18\n", A10)
    assert isinstance(second, Trouble)
    assert first == third


def test_no_library_is_a_value() -> None:
    if os.path.exists("/dev/nvidiactl"):  # noqa: PTH110 - a device node, not a file of ours
        pytest.skip("this machine has an NVIDIA driver")
    answer = Nvml().read()
    assert answer == Trouble("no_driver", "No NVIDIA driver was found on this machine.")


def test_a_device_that_others_use_is_taken(library: Path, world: Path) -> None:
    """A shared workstation: one board is used by another person, one by something outside our container."""
    if os.getuid() != 0:
        pytest.skip("only root can start another person's process here")
    with subprocess.Popen(["sleep", "1000"], user=65534) as other:
        world.write_text(
            A10
            + "device GPU-b 81920 0 0 0 NVIDIA H100\ndevice GPU-c 81920 0 0 0 NVIDIA H100\n"
            + f"process 0 {os.getpid()} 512\nprocess 1 {other.pid} 512\nprocess 2 4194303 512\n"
        )
        told = nvml.ask(library, world, NODE).splitlines()
        held = nvml.ask(library, world, NODE, "GPU-b", "GPU-c").splitlines()
        other.kill()
    assert told[:4] == ["GPU-a 24576 False", "GPU-b 81920 True", "GPU-c 81920 True", "1 24576"]
    assert held[1:3] == ["GPU-b 81920 True", "GPU-c 81920 False"]


def test_a_split_device_is_not_handed_out(library: Path, world: Path) -> None:
    world.write_text("device GPU-a 81920 0 0 1 NVIDIA H100\n")
    told = nvml.ask(library, world, NODE).splitlines()
    assert told[0] == "GPU-a 81920 True"
    assert "split by MIG" in told[-1]
