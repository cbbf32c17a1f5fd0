"""Give the devices of a granted lease to this process, in place, and take them away again.

The same variables that a pod gets. They work as long as CUDA was not started here; otherwise the notebook must be
restarted, and whoever calls is told so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field

from kai_jupyter.identity import is_cuda_initialised
from scheduler_service.wire.pod_group import DeviceShare, PodGroupView
from scheduler_service.wire.torch_cap import cap_torch

WHOLE_MILLI = 1000
NO_DEVICES = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
"""The variables of a program that must not see the GPUs of its machine."""


def share_variables(view: PodGroupView) -> dict[str, str]:
    """Return the variables that tell a program which devices and which share it holds. Pure."""
    devices = view.pods[0].devices if view.pods else ()
    if not devices:
        return {}
    real = ",".join(device.id for device in devices if not device.simulated)
    variables = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": real,
        "NVIDIA_VISIBLE_DEVICES": real or "void",
        "KAI_GPU_DEVICES": ",".join(device.id for device in devices),
        "KAI_GPU_FRACTION": f"{devices[0].milli / WHOLE_MILLI:g}",
        "KAI_POD_GROUP": view.name,
        "KAI_NAMESPACE": view.namespace,
    }
    if devices[0].share_mib is not None:
        variables["KAI_GPU_MEMORY_MIB"] = str(devices[0].share_mib)
    return variables | _caps(devices[0])


def _caps(device: DeviceShare) -> dict[str, str]:
    if device.simulated or not device.share_mib or not device.memory_mib:
        return {}
    if device.share_mib >= device.memory_mib:
        return {}
    return {
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{device.share_mib / device.memory_mib:.3f}",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }


@dataclass(slots=True)
class DeviceEnvironment:
    """The variables of this process, and what they were before the lease."""

    environ: MutableMapping[str, str] = field(default_factory=lambda: os.environ)
    _before: dict[str, str | None] = field(default_factory=dict)
    _had_real_device: bool = False

    @property
    def is_set(self) -> bool:
        """Whether a lease's devices are set."""
        return bool(self._before)

    def give(self, view: PodGroupView) -> str:
        """Set the devices of `view`; return what the notebook's person must know, as a sentence."""
        variables = share_variables(view)
        if not variables:
            return ""
        is_real = bool(variables["CUDA_VISIBLE_DEVICES"])
        if is_real and is_cuda_initialised() and not self._shows_already(variables):
            return (
                "CUDA was started in this notebook before the grant, so it cannot see the new device. "
                "Restart the kernel: the lease is kept."
            )
        for name, value in variables.items():
            self._before.setdefault(name, self.environ.get(name))
            self.environ[name] = value
        self._had_real_device = is_real
        cap_torch()
        if is_real:
            return "CUDA sees the device from now on. Nothing to restart."
        return "Simulated: KAI_GPU_DEVICES is set, and no library sees a GPU."

    def _shows_already(self, variables: Mapping[str, str]) -> bool:
        name = "CUDA_VISIBLE_DEVICES"
        return self.environ.get(name) == variables[name]

    def take(self) -> None:
        """Take the devices away: variables are as before, and a real device is hidden until the next grant."""
        for name, value in self._before.items():
            if value is None:
                self.environ.pop(name, None)
            else:
                self.environ[name] = value
        if self._had_real_device:
            self.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._before.clear()
        self._had_real_device = False
