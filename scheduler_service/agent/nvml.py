"""The devices as NVML tells them. The one file that knows NVML; trouble comes back as a value, never as an exception.

Every query is guarded by itself: a board that does not tell its memory (shared memory, vGPU) still counts as a device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

import pynvml

T = TypeVar("T")
MIB = 2**20
TroubleCode = Literal["no_driver", "driver_changed", "no_permission", "failed"]


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that uses a device; `used_mib` is None where it is not told. `pid` is the host's.

    `draws_only`: it computes nothing there, like the display server of a workstation.
    """

    pid: int
    used_mib: int | None
    draws_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """One device at this moment."""

    uuid: str
    index: int
    name: str
    memory_mib: int | None
    used_mib: int | None
    utilisation_percent: int | None
    is_mig: bool
    processes: tuple[GpuProcess, ...]


@dataclass(frozen=True, slots=True)
class Devices:
    """All devices, in NVML's order; `lost` tells of each that no longer answers."""

    driver: str
    devices: tuple[GpuState, ...]
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the devices are not known."""

    code: TroubleCode
    text: str


class Nvml:
    """Reads the devices again and again; after trouble it starts anew with the next read."""

    def __init__(self) -> None:
        self._is_ready = False

    def read(self) -> Devices | Trouble:
        """Return the devices now."""
        try:
            if not self._is_ready:
                pynvml.nvmlInit()
                self._is_ready = True
            return _devices()
        except (pynvml.NVMLError, OSError) as error:
            self.close()
            return _trouble(error)

    def close(self) -> None:
        """Let the library go."""
        if self._is_ready:
            self._is_ready = False
            _known(pynvml.nvmlShutdown)


def _devices() -> Devices:
    found: list[GpuState] = []
    lost: list[str] = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            found.append(_state(index))
        except pynvml.NVMLError as error:
            lost.append(f"GPU {index} does not answer: {error}. Look at it with nvidia-smi.")
    return Devices(
        _known(pynvml.nvmlSystemGetDriverVersion) or "unknown", tuple(found), tuple(lost)
    )


def _state(index: int) -> GpuState:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = _known(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    rates = _known(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    mig = _known(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    return GpuState(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        index=index,
        name=_known(lambda: pynvml.nvmlDeviceGetName(handle)) or "NVIDIA GPU",
        memory_mib=memory.total // MIB if memory and memory.total else None,
        used_mib=memory.used // MIB if memory and memory.total else None,
        utilisation_percent=None if rates is None else int(rates.gpu),
        is_mig=bool(mig and mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE),
        processes=_processes(handle),
    )


def _processes(handle: object) -> tuple[GpuProcess, ...]:
    """Return who computes or draws on the device, each process once."""
    compute = _known(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle)) or []
    graphics = _known(lambda: pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle)) or []
    computing = {int(each.pid) for each in compute}
    used = {int(each.pid): each.usedGpuMemory for each in (*graphics, *compute)}
    return tuple(
        GpuProcess(pid, None if memory is None else int(memory) // MIB, pid not in computing)
        for pid, memory in sorted(used.items())
    )


def _known(query: Callable[[], T]) -> T | None:
    """Return the answer, None where this board or driver does not tell."""
    try:
        return query()
    except pynvml.NVMLError:
        return None


_CODES: dict[int, TroubleCode] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no_driver",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "no_driver",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "driver_changed",
    pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
}
_TEXTS: dict[TroubleCode, str] = {
    "no_driver": "No NVIDIA driver was found on this machine.",
    "driver_changed": "The NVIDIA driver was changed while it was in use. Restart the machine to load the new one.",
    "no_permission": "This account may not use the NVIDIA driver. Ask for access to the devices /dev/nvidia*.",
    "failed": "The NVIDIA driver does not answer ({error}). Look at it with nvidia-smi.",
}


def _trouble(error: Exception) -> Trouble:
    code = _CODES.get(getattr(error, "value", 0), "failed")
    return Trouble(code, _TEXTS[code].format(error=error))
