"""The devices of a lease, in place: what is set, what comes back, and when a restart is needed."""

import sys
import types

import pytest

from kai_jupyter import device_env
from kai_jupyter.device_env import DeviceEnvironment, share_variables
from kai_jupyter.identity import is_cuda_initialised
from scheduler_service.wire import torch_cap
from scheduler_service.wire.pod_group import DeviceShare, PodGroupView, PodView, RequestView

REAL = DeviceShare(
    id="GPU-8f1",
    index=1,
    model="H100",
    memory_mib=80_000,
    milli=500,
    share_mib=40_000,
    simulated=False,
)
SIMULATED = DeviceShare(
    id="GPU-sim-0",
    index=0,
    model="Simulated",
    memory_mib=24_576,
    milli=500,
    share_mib=12_288,
    simulated=True,
)


def lease_on(*devices):
    return PodGroupView(
        namespace="ana", name="lease", owner="ana", mine=True, kind="lease", queue="default",
        request=RequestView(text="0.5 GPU"), workers=1, min_members=1, priority=100, preemptible=False,
        state="Running", word="Granted", tone="ok", icon="tick", headline="", detail="", sentence="", rev=1,
        created_at=0, pods=(PodView(name="lease-0", rank=0, state="Running", devices=devices),),
    )  # fmt: skip


@pytest.fixture
def no_cuda(monkeypatch):
    monkeypatch.setattr(device_env, "is_cuda_initialised", lambda: False)


def test_a_real_share_is_set_with_its_caps():
    assert share_variables(lease_on(REAL)) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-8f1",
        "NVIDIA_VISIBLE_DEVICES": "GPU-8f1",
        "KAI_GPU_DEVICES": "GPU-8f1",
        "KAI_GPU_FRACTION": "0.5",
        "KAI_GPU_MEMORY_MIB": "40000",
        "KAI_POD_GROUP": "lease",
        "KAI_NAMESPACE": "ana",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.500",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }


def test_no_library_believes_in_a_simulated_device():
    variables = share_variables(lease_on(SIMULATED))

    assert variables["KAI_GPU_DEVICES"] == "GPU-sim-0"
    assert variables["CUDA_VISIBLE_DEVICES"] == ""
    assert variables["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in variables


def test_after_the_lease_everything_is_as_before_and_the_real_device_is_hidden(no_cuda):
    environ = {"HOME": "/h"}
    devices = DeviceEnvironment(environ)
    assert "Nothing to restart" in devices.give(lease_on(REAL))
    devices.take()

    assert environ == {"HOME": "/h", "CUDA_VISIBLE_DEVICES": ""}


def test_cuda_that_was_started_before_needs_a_restart_and_nothing_is_set(monkeypatch):
    monkeypatch.setattr(device_env, "is_cuda_initialised", lambda: True)
    environ = {}

    note = DeviceEnvironment(environ).give(lease_on(REAL))

    assert "Restart the kernel: the lease is kept" in note
    assert environ == {}


def test_cuda_is_seen_through_torch(monkeypatch):
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: True))
    assert not is_cuda_initialised()
    monkeypatch.setitem(sys.modules, "torch", torch)

    assert is_cuda_initialised()


def test_pytorch_is_capped_when_cuda_starts(monkeypatch):
    """As PyTorch does: what is asked before CUDA starts is kept and run then."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8f1")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.500")
    kept, caps = [], []
    cuda = types.SimpleNamespace(
        _lazy_call=kept.append, set_per_process_memory_fraction=caps.append
    )
    torch_cap.apply(types.SimpleNamespace(cuda=cuda))
    assert caps == []
    for call in kept:
        call()

    assert caps == [0.5]


def test_an_import_of_pytorch_later_is_capped_too(monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text(
        "calls = []\nclass cuda:\n    _lazy_call = calls.append\n"
        "    set_per_process_memory_fraction = staticmethod(calls.append)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8f1")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.250")
    torch_cap.cap_torch()
    import torch

    sys.modules.pop("torch")  # no other test shall believe in it
    assert len(torch.calls) == 1
    torch.calls[0]()
    assert torch.calls[1] == 0.25
