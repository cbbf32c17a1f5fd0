"""Whose a process of this machine is: the account that it runs as."""

from __future__ import annotations

import os
import pwd
from functools import lru_cache
from pathlib import Path
from typing import Literal

PROC = Path("/proc")
Ownership = Literal["ours", "other", "unseen"]


def user_of(pid: int, proc: Path = PROC) -> str | None:
    """Return the name of the account that a process runs as; None where it is gone or can not be seen from here."""
    try:
        uid = (proc / str(pid)).stat().st_uid
    except OSError:
        return None
    return name_of(uid)


@lru_cache(maxsize=1024)
def name_of(uid: int) -> str:
    """Return the name of an account, its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


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
