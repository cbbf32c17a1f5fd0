"""This machine as a node: its real devices through NVML, or simulated ones, which every surface then says."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scheduler_service.agent.nvml import Devices, GpuState, Nvml, Trouble
from scheduler_service.backends.local import host
from scheduler_service.errors import ConfigurationError, RequestError
from scheduler_service.model.node import GpuDevice, Node
from scheduler_service.model.quantities import parse_mib

DEFAULT_SIMULATED = "2x24GiB"
SIMULATED_MODEL = "simulated GPU"
MOST_SIMULATED = 1024
_FORM = re.compile(r"(?P<count>\d+)(?:\s*[x\u00d7]\s*(?P<memory>\S.*))?", re.IGNORECASE)

Ownership = Literal["ours", "other", "unseen"]


@dataclass(frozen=True, slots=True)
class Machine:
    """The node, and what people must be told of it."""

    node: Node
    notes: tuple[str, ...] = ()


def local_node(
    *,
    nvml: Nvml,
    simulate: str | None = None,
    name: str | None = None,
    held: Collection[str] = frozenset(),
) -> Machine:
    """Return this machine as a node. Raises `ConfigurationError` for a bad `simulate`.

    `simulate` as in ``--simulate-gpus`` always wins; without it real devices are used, and where there are none,
    two simulated ones. `held` are the ids of devices that our own pods hold now.
    """
    if simulate is not None:
        return _machine(name, simulated_devices(simulate))
    answer = nvml.read()
    if isinstance(answer, Devices) and answer.devices:
        devices = tuple(_device(state, held) for state in answer.devices)
        return _machine(name, devices, _notes(answer, devices))
    notes = (answer.text,) if isinstance(answer, Trouble) else answer.lost
    return _machine(name, simulated_devices(DEFAULT_SIMULATED), notes)


def simulated_devices(text: str) -> tuple[GpuDevice, ...]:
    """Return the devices that "8x80GiB" describes. Raises `ConfigurationError` with a sentence."""
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise _bad(text, "It is not of the form COUNTxMEMORY.")
    count = int(form["count"])
    if count > MOST_SIMULATED:
        raise _bad(text, f"More than {MOST_SIMULATED} simulated GPUs are not supported.")
    try:
        memory = parse_mib(form["memory"] or DEFAULT_SIMULATED.partition("x")[2])
    except RequestError as error:
        raise _bad(text, f"{error.what} {error.why}".strip()) from error
    if memory == 0:
        raise _bad(text, "A GPU without memory can not be shared.")
    return tuple(
        GpuDevice(
            id=f"GPU-sim-{index}",
            index=index,
            memory_mib=memory,
            model=SIMULATED_MODEL,
            simulated=True,
        )
        for index in range(count)
    )


def owner_of(pid: int) -> Ownership:
    """Return whose process `pid` is; "unseen" where it is outside of what this process can see (a container)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return "other"
    except ProcessLookupError:
        return "unseen"
    try:
        uid = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return "ours"  # no /proc here, and we may signal it
    return "ours" if uid == os.getuid() else "other"


def _device(state: GpuState, held: Collection[str]) -> GpuDevice:
    return GpuDevice(
        id=state.uuid,
        index=state.index,
        memory_mib=state.memory_mib,
        model=state.name,
        taken=state.is_mig or _is_taken(state, is_held=state.uuid in held),
    )


def _is_taken(state: GpuState, *, is_held: bool) -> bool:
    """Whether someone else uses the device. A process we can not see is someone else's unless we use the device too."""
    owners = {owner_of(process.pid) for process in state.processes}
    return "other" in owners or ("unseen" in owners and not is_held)


def _notes(answer: Devices, devices: tuple[GpuDevice, ...]) -> tuple[str, ...]:
    notes = list(answer.lost)
    for state, device in zip(answer.devices, devices, strict=True):
        if state.is_mig:
            notes.append(
                f"GPU {state.index} is split by MIG and is not handed out on this machine."
            )
        elif device.taken:
            notes.append(
                f"GPU {state.index} is used by somebody else's process and is not handed out."
            )
    return tuple(notes)


def _machine(
    name: str | None, devices: tuple[GpuDevice, ...], notes: tuple[str, ...] = ()
) -> Machine:
    free = [device for device in devices if not device.taken]
    known = [device.memory_mib for device in devices if device.memory_mib is not None]
    node = Node(
        name=name or socket.gethostname(),
        gpus=len(free),
        gpu_memory_mib=min(known) if len(known) == len(devices) and known else None,
        milli_cpu=host.milli_cpu(),
        memory_bytes=host.memory_bytes(),
        max_pods=10_000,
        devices=devices,
    )
    is_simulated = any(device.simulated for device in devices)
    return Machine(node, ("The GPUs are simulated.", *notes) if is_simulated else notes)


def _bad(text: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"Simulated GPUs {text!r} are not understood.",
        why=why,
        hint="Write for example 2x24GiB, 8x80GiB, or 0 for none.",
    )
