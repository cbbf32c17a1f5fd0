"""`report(step, total, loss=…)`: what a worker says of itself while it runs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

_LEAST_PAUSE_S = 0.2
_last = [0.0]


def report(step: int, total: int | None = None, **metrics: float) -> None:
    """Tell how far this worker is; the card shows it. Outside a gang it does nothing.

    Cheap enough for an inner loop: at most five reports a second are written, and the last step always is.
    """
    path = os.environ.get("KAI_PROGRESS_FILE")
    now = time.monotonic()
    is_last = total is not None and step >= total
    if not path or (now - _last[0] < _LEAST_PAUSE_S and not is_last):
        return
    _last[0] = now
    told = {
        "step": int(step),
        "total": None if total is None else int(total),
        "metrics": {name: float(value) for name, value in metrics.items()},
        "at": int(time.time() * 1000),
    }
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.write_text(json.dumps(told), "utf-8")
    temporary.replace(target)
