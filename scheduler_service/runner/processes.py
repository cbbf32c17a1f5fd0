"""What the operating system says of processes: who descends from whom, who carries a mark, who holds a GPU open.

Rule: standard library only, no wait and no clock. Where there is no /proc the answers shrink and say so.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
_GPU_NODE = re.compile(r"/dev/nvidia\d+")


def has_proc() -> bool:
    """Whether this system tells of its processes in /proc (Linux)."""
    return (PROC / "self" / "stat").exists()


def descendants(pid: int) -> list[int]:
    """Return every living process below `pid`, nearest first; zombies are left out."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found: list[int] = []
    front = [pid]
    while front:
        front = [child for parent in front for child in children.get(parent, ())]
        found += front
    return found


def marked(name: str, value: str) -> list[int]:
    """Return this user's processes whose environment at their start had `name` = `value` (Linux only, else none)."""
    mark = f"{name}={value}".encode()
    found = []
    for entry in _numbered():
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in variables and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each of `pids` that is still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def send_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group, if it is still there."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def is_group_alive(group: int) -> bool:
    """Whether a process group still has a member that this user may signal."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def holds_gpu(pid: int) -> bool | None:
    """Whether `pid` has an NVIDIA device open; None if that can not be seen (it belongs to someone else)."""
    if not has_proc():
        return False  # no NVIDIA device where there is no /proc
    folder = PROC / str(pid) / "fd"
    try:
        entries = list(folder.iterdir())
    except FileNotFoundError:
        return False
    except PermissionError:
        return None
    return any(_GPU_NODE.fullmatch(_target(entry)) for entry in entries)


def tree_holds_gpu(pid: int) -> bool | None:
    """Whether `pid` or a process below it has an NVIDIA device open; None if that can not be seen."""
    answers = [holds_gpu(each) for each in (pid, *descendants(pid))]
    if any(answers):
        return True
    return None if None in answers else False


def memory_kills() -> int:
    """Return how often the kernel has killed a process for want of memory since boot; 0 where it does not tell."""
    try:
        lines = (PROC / "vmstat").read_text("ascii").splitlines()
    except OSError:
        return 0
    counts = (line.split() for line in lines if line.startswith("oom_kill "))
    return next((int(words[1]) for words in counts), 0)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _numbered() -> list[Path]:
    try:
        return [entry for entry in PROC.iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _parents() -> list[tuple[int, int]]:
    if not has_proc():
        return _parents_by_ps()
    pairs = []
    for entry in _numbered():
        try:
            stat = (entry / "stat").read_text("utf-8", errors="replace")
        except OSError:
            continue
        state, parent = stat[stat.rindex(")") + 2 :].split()[:2]
        if state not in "ZX":
            pairs.append((int(entry.name), int(parent)))
    return pairs


def _parents_by_ps() -> list[tuple[int, int]]:
    answer = subprocess.run(
        ["/bin/ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, check=False
    )
    rows = (line.split() for line in answer.stdout.splitlines() if line.strip())
    return [(int(pid), int(parent)) for pid, parent, state in rows if not state.startswith("Z")]
