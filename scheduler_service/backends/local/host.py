"""How many CPUs and how much memory this machine, or the container we are in, really gives us."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def milli_cpu(cgroup: Path = CGROUP) -> int:
    """Return the milli-CPUs that this process may use: its affinity, bounded by its control group."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        return min(count * 1000, int(quota) * 1000 // int(period))
    return count * 1000


def memory_bytes(cgroup: Path = CGROUP) -> int:
    """Return the bytes of memory that this process may use."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _read(cgroup / "memory.max").strip()
    return min(physical, int(limit)) if limit.isdigit() else physical


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except OSError:
        return ""
