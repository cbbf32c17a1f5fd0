from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_service.runner.environment import GangPorts, gang_ports, pod_environment
from scheduler_service.wire.pod_group import DeviceShare, Work
from scheduler_service.wire.runner import StartOrder

REAL = DeviceShare(
    id="GPU-a",
    index=3,
    model="NVIDIA A10",
    memory_mib=24576,
    milli=250,
    share_mib=6144,
    simulated=False,
)
ORDER = StartOrder(
    incarnation="i",
    namespace="ada",
    group="train",
    pod="train-2",
    kind="gang",
    rank=2,
    workers=4,
    node="here",
    devices=(REAL,),
    fraction_milli=250,
    share_mib=6144,
    cpu_milli=0,
    memory_bytes=0,
    grace_s=15,
    token="secret",
    work=Work(command=("true",), env={"MINE": "1", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}),
)
PORTS = GangPorts(5000, (5001, 5002, 5003, 5004))
OUTSIDE = {
    "PATH": "/bin",
    "KAI_SERVICE_URL": "http://x",
    "KAI_STATE_DIR": "/state",
    "JUPYTERHUB_API_TOKEN": "t",
    "JPY_SESSION_NAME": "n",
}


def made(order: StartOrder, ports: GangPorts | None = PORTS, cores: int = 8) -> dict[str, str]:
    return pod_environment(order, OUTSIDE, ports=ports, cores=cores)


def test_a_share_of_a_real_device_shows_it_alone_and_caps_what_can_be_capped() -> None:
    told = made(ORDER)
    assert {name: told[name] for name in told if "GPU" in name or "VISIBLE" in name} == {
        "CUDA_VISIBLE_DEVICES": "GPU-a",
        "NVIDIA_VISIBLE_DEVICES": "GPU-a",
        "KAI_GPU_DEVICES": "GPU-a",
        "KAI_GPU_FRACTION": "0.25",
        "KAI_GPU_MEMORY_MIB": "6144",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }
    assert told["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.250"
    assert told["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=6144M"


def test_a_whole_device_has_no_cap() -> None:
    whole = replace(REAL, milli=1000, share_mib=24576)
    told = made(replace(ORDER, devices=(whole,), fraction_milli=0, share_mib=None))
    assert told["KAI_GPU_FRACTION"] == "1"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in told


def test_simulated_devices_are_believed_by_no_library() -> None:
    told = made(replace(ORDER, devices=(replace(REAL, id="GPU-sim-0", simulated=True),)))
    assert (told["CUDA_VISIBLE_DEVICES"], told["NVIDIA_VISIBLE_DEVICES"]) == ("", "void")
    assert told["KAI_GPU_DEVICES"] == "GPU-sim-0"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in told


def test_a_pod_without_devices_sees_none() -> None:
    told = made(replace(ORDER, devices=(), fraction_milli=0, share_mib=None))
    assert told["CUDA_VISIBLE_DEVICES"] == ""
    assert "KAI_GPU_FRACTION" not in told


def test_a_gang_gets_torchruns_variables() -> None:
    told = made(replace(ORDER, devices=()))
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    assert [told[name] for name in names] == ["2", "4", "2", "4", "0"]
    assert (told["MASTER_ADDR"], told["MASTER_PORT"]) == ("127.0.0.1", "5000")
    hosts = "127.0.0.1:5001,127.0.0.1:5002,127.0.0.1:5003,127.0.0.1:5004"
    assert told["KAI_GANG_HOSTS"] == hosts
    assert gang_ports(told) == PORTS


def test_workers_that_see_only_their_own_device_find_it_by_their_local_rank() -> None:
    told = made(ORDER)
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    assert [told[name] for name in names] == ["2", "0", "1", "2"]


def test_outside_a_gang_there_is_no_rank() -> None:
    told = made(replace(ORDER, kind="batch", workers=1), ports=None)
    assert "RANK" not in told
    assert gang_ports(told) is None


@pytest.mark.parametrize(
    ("workers", "cpu_milli", "threads"),
    [(4, 0, "2"), (16, 0, "1"), (1, 0, None), (4, 3500, "3"), (1, 500, "1")],
)
def test_threads_follow_the_cpus(workers: int, cpu_milli: int, threads: str | None) -> None:
    told = made(replace(ORDER, workers=workers, cpu_milli=cpu_milli), ports=None)
    assert told.get("OMP_NUM_THREADS") == threads


def test_the_person_chooses_comfort_and_not_devices() -> None:
    work = Work(command=("true",), env={"OMP_NUM_THREADS": "5", "CUDA_VISIBLE_DEVICES": "0"})
    told = made(replace(ORDER, work=work))
    assert (told["OMP_NUM_THREADS"], told["CUDA_VISIBLE_DEVICES"]) == ("5", "GPU-a")


def test_what_belongs_to_the_service_the_hub_and_the_notebook_server_stays_out() -> None:
    told = made(ORDER)
    assert told["PATH"] == "/bin"
    assert told["MINE"] == "1"
    assert told["KAI_STATE_DIR"] == "/state"
    assert not {"KAI_SERVICE_URL", "JUPYTERHUB_API_TOKEN", "JPY_SESSION_NAME"} & told.keys()
    assert "secret" not in told.values()
