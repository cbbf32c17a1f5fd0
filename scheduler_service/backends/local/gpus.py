"""This machine as a node: its real devices through NVML, or simulated ones, which every surface then says."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

from scheduler_service.agent.nvml import Devices, GpuState, Nvml, Trouble
from scheduler_service.backends.local import host
from scheduler_service.backends.local.foreign import ForeignRule
from scheduler_service.errors import ConfigurationError, RequestError
from scheduler_service.model.node import GpuDevice, Node
from scheduler_service.model.quantities import parse_mib

DEFAULT_SIMULATED = "2x24GiB"
SIMULATED_MODEL = "simulated GPU"
MOST_SIMULATED = 1024
ONE_PERSON = ForeignRule()
_FORM = re.compile(r"(?P<count>\d+)(?:\s*[x\u00d7]\s*(?P<memory>\S.*))?", re.IGNORECASE)


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
    rule: ForeignRule = ONE_PERSON,
) -> Machine:
    """Return this machine as a node. Raises `ConfigurationError` for a bad `simulate`.

    `simulate` as in ``--simulate-gpus`` always wins; without it real devices are used, and where there are none,
    two simulated ones. `rule` says who uses a device without a lease.
    """
    if simulate is not None:
        return _machine(name, simulated_devices(simulate))
    answer = nvml.read()
    if isinstance(answer, Devices) and answer.devices:
        devices = tuple(_device(state, rule) for state in answer.devices)
        return _machine(name, devices, _notes(answer))
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


def _device(state: GpuState, rule: ForeignRule) -> GpuDevice:
    return GpuDevice(
        id=state.uuid,
        index=state.index,
        memory_mib=state.memory_mib,
        model=state.name,
        taken=state.is_mig or bool(rule.of(state)),
    )


def _notes(answer: Devices) -> tuple[str, ...]:
    return (
        *answer.lost,
        *(
            f"GPU {state.index} is split by MIG and is not handed out on this machine."
            for state in answer.devices
            if state.is_mig
        ),
    )


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
