"""Times as KAI's annotations spell them: "90s", "1h30m", "-1s". In ms here."""

from __future__ import annotations

import re
from decimal import Decimal

_UNIT_MS = {
    "ns": Decimal("0.000001"),
    "us": Decimal("0.001"),
    "µs": Decimal("0.001"),
    "ms": Decimal(1),
    "s": Decimal(1000),
    "m": Decimal(60_000),
    "h": Decimal(3_600_000),
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"[+-]?(?:0|(?:{_PART.pattern})+)", re.ASCII)
_LONGEST = 40


def duration_ms(text: str) -> int | None:
    """Return the ms that the text spells, None where it spells no time."""
    if len(text) > _LONGEST or not _WHOLE.fullmatch(text):
        return None
    total = sum((Decimal(n) * _UNIT_MS[unit] for n, unit in _PART.findall(text)), Decimal(0))
    return -int(total) if text.startswith("-") else int(total)


def duration_text(ms: int) -> str:
    """Return the time as KAI spells it, in its largest units: 90,000 is "1m30s"."""
    sign, rest = ("-" if ms < 0 else ""), abs(ms)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, rest = divmod(rest, 1000)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"), (rest, "ms"))
    return sign + ("".join(f"{count}{unit}" for count, unit in parts if count) or "0s")
