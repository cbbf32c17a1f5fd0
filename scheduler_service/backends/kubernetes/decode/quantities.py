"""Kubernetes' amounts and moments as integers: milli-units, whole units, ms since the epoch."""

from __future__ import annotations

from datetime import datetime
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import lru_cache

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
Quantity = str | int | float


def _decimal(quantity: Quantity) -> Decimal:
    text = str(quantity).strip()
    digits = text.rstrip("numkKMGTPEi")
    try:
        if digits != text and text[len(digits) :] in _SUFFIXES:
            value = Decimal(digits) * _SUFFIXES[text[len(digits) :]]
        else:
            value = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is no amount") from None
    if not value.is_finite():
        raise ValueError(f"{text!r} is no amount")
    return value


@lru_cache(maxsize=4096)
def milli(quantity: Quantity) -> int:
    """Return thousandths, rounded up: "250m" is 250, "2" is 2000."""
    return int((_decimal(quantity) * 1000).to_integral_value(rounding=ROUND_CEILING))


@lru_cache(maxsize=4096)
def whole(quantity: Quantity) -> int:
    """Return whole units (bytes, devices), rounded up: "1Ki" is 1024, "0.5" is 1."""
    return int(_decimal(quantity).to_integral_value(rounding=ROUND_CEILING))


@lru_cache(maxsize=4096)
def moment_ms(text: str) -> int:
    """Return ms since the epoch of an RFC 3339 text."""
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def moment_or_none(text: str | None) -> int | None:
    """Return ms since the epoch, None for no (or no readable) moment."""
    try:
        return moment_ms(text) if text else None
    except ValueError:
        return None
