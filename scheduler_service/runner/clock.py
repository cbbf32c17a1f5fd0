"""The moment, as it travels. The one place where the runner reads the wall clock."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
