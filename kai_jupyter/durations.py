"""Durations as people write them: "90s", "10m", "2h", "1h30m", "1d"."""

from __future__ import annotations

import re

from kai_jupyter.errors import UsageError

_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "min": 60, "s": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)(d|h|min|m|s)")


def is_duration(text: str) -> bool:
    """Return whether `text` is amounts with their units and nothing else."""
    parts = _PART.findall(text)
    return bool(parts) and "".join(amount + unit for amount, unit in parts) == text


def seconds(text: str, option: str) -> int:
    """Return `text` in seconds. Raises `UsageError` that names `option` and shows how to write it."""
    compact = text.replace(" ", "").lower()
    if is_duration(compact.removeprefix("-")) and compact.startswith("-"):
        raise UsageError(f"{option} takes a positive duration, such as 10m; '{text}' is not one.")
    total = round(sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(compact)))
    if not is_duration(compact) or total <= 0:
        raise UsageError(
            f"{option} takes a duration with its unit, such as 90s, 10m, 2h or 1h30m; '{text}' is not one."
        )
    return total
