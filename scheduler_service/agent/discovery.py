"""A node's devices as one line of text, for whoever keeps it with the node and writes it when it changed.

What changes all the time (memory used, how busy) is left out, or a line would be written each time.
"""

from __future__ import annotations

import json

from scheduler_service.agent.nvml import Devices, GpuState, Trouble

ANNOTATION = "kai.scheduler/gpu-devices"


def devices_text(found: Devices | Trouble) -> str:
    """Return the devices with who uses them, or why they are not known, as JSON on one line."""
    if isinstance(found, Trouble):
        content: dict[str, object] = {"trouble": found.code, "text": found.text}
    else:
        content = {
            "driver": found.driver,
            "devices": [_device(state) for state in found.devices],
            "lost": list(found.lost),
        }
    return json.dumps(content, separators=(",", ":"), sort_keys=True)


def _device(state: GpuState) -> dict[str, object]:
    return {
        "uuid": state.uuid,
        "index": state.index,
        "model": state.name,
        "memory_mib": state.memory_mib,
        "mig": state.is_mig,
        "pids": [process.pid for process in state.processes],
    }
