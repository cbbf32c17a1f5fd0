"""Who this process is to the service: kernel, notebook, pid with start time, and whether CUDA is in use here."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

from scheduler_service.wire.locate import start_ticks
from scheduler_service.wire.pod_group import Origin, Process

_KERNEL_FILE = re.compile(r"kernel-(?P<id>[\w-]+)\.json$")


def this_process() -> Process:
    """Return this process as the holder of a lease."""
    pid = os.getpid()
    return Process(
        pid=pid, start_ticks=start_ticks(pid) or 0, cuda_initialised=is_cuda_initialised()
    )


def is_cuda_initialised() -> bool:
    """Whether CUDA was started in this process: from then on it ignores which devices it may see."""
    torch = sys.modules.get("torch")
    is_started = getattr(
        getattr(torch, "cuda", None), "is_initialized", None
    )  # absent in a half-done import
    if is_started is not None and is_started():
        return True
    return _holds_unified_memory_device()


def _holds_unified_memory_device() -> bool:
    """Return whether a file of the CUDA driver is open; NVML alone does not open this one."""
    try:
        descriptors = list(Path("/proc/self/fd").iterdir())
    except OSError:
        return False
    for descriptor in descriptors:
        try:
            if descriptor.readlink().name == "nvidia-uvm":
                return True
        except OSError:
            continue
    return False


def origin_of(shell: Any | None) -> Origin:
    """Return where a request of this shell is made."""
    return Origin(
        notebook=_notebook(),
        kernel_id=kernel_id(shell),
        cell_id=_cell_id(shell),
        host=socket.gethostname(),
    )


def kernel_id(shell: Any | None) -> str | None:
    """Return the id under which the Jupyter server knows this kernel; None in a terminal."""
    kernel = getattr(shell, "kernel", None)
    app = getattr(kernel, "parent", None)
    found = _KERNEL_FILE.search(str(getattr(app, "connection_file", "")))
    return found["id"] if found else None


def _notebook() -> str | None:
    name = os.environ.get("JPY_SESSION_NAME", "")
    return name if name.endswith(".ipynb") else None


def _cell_id(shell: Any | None) -> str | None:
    get_parent = getattr(shell, "get_parent", None)
    if get_parent is None:
        return None
    cell = ((get_parent() or {}).get("metadata") or {}).get("cellId")
    return cell if isinstance(cell, str) else None
