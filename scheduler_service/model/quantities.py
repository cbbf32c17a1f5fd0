"""Amounts as people write and read them. Parsing refuses with a sentence; nothing is guessed."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from scheduler_service.errors import RequestError

_BYTES = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
}
MIB = 2**20
WHOLE = 1000
MOST_DIGITS = 18
"""Larger numbers are nobody's need, and work without end for whoever computes with them."""


def _decimal(text: str, *, what: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise RequestError(
            f"{what} {text!r} is not a number.", hint="Write it like 0.5, 2 or 8GiB."
        ) from None
    if not value.is_finite() or value < 0:
        raise RequestError(f"{what} must not be {text}.", hint="Use a number of 0 or more.")
    if value.adjusted() > MOST_DIGITS:
        raise RequestError(f"{what} {text} is more than there is anywhere.", hint="Ask for less.")
    return value


def _whole(value: Decimal, *, what: str, smallest: str) -> int:
    if value != value.to_integral_value():
        raise RequestError(f"{what} is too fine.", why=f"The smallest step is {smallest}.")
    return int(value)


def parse_milli_gpu(text: str | float) -> int:
    """Return milli-GPU for "0.5", 2 or "250m"."""
    raw = str(text).strip()
    value = (
        _decimal(raw[:-1], what="GPU amount")
        if raw.endswith("m")
        else _decimal(raw, what="GPU amount") * WHOLE
    )
    return _whole(value, what=f"GPU amount {raw}", smallest="0.001 GPU")


def parse_milli_cpu(text: str | float) -> int:
    """Return milli-CPU for "2", 0.5 or "500m"."""
    raw = str(text).strip()
    value = (
        _decimal(raw[:-1], what="CPU amount")
        if raw.endswith("m")
        else _decimal(raw, what="CPU amount") * WHOLE
    )
    return _whole(value, what=f"CPU amount {raw}", smallest="0.001 CPU")


def parse_bytes(text: str | int) -> int:
    """Return bytes for "8GiB", "8Gi", "16G", "500MB" or a plain number."""
    raw = str(text).strip()
    body = raw[:-1] if raw.endswith("B") else raw
    unit = body.lstrip("-0123456789. ")
    digits = body.removesuffix(unit)
    if unit not in _BYTES:
        raise RequestError(f"Memory unit {unit!r} is not known.", hint="Use MiB, GiB, MB or GB.")
    value = _decimal(digits.strip(), what="Memory amount") * _BYTES[unit]
    return int(value.to_integral_value(rounding="ROUND_CEILING"))


def parse_mib(text: str | int) -> int:
    """Return MiB, rounded up, for "8GiB"; a bare number is MiB already."""
    raw = str(text).strip()
    if raw.replace(".", "", 1).isdigit():
        return int(_decimal(raw, what="Memory amount").to_integral_value(rounding="ROUND_CEILING"))
    return -(-parse_bytes(raw) // MIB)


def _trimmed(value: int, unit: int, places: int) -> str:
    text = f"{value / unit:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def gpu_words(milli: int) -> str:
    """Return "0.5 GPU", "1 GPU", "4 GPUs" or "0 GPUs"."""
    return f"{_trimmed(milli, WHOLE, 3)} GPU{'' if 0 < milli <= WHOLE else 's'}"


def cpu_words(milli: int) -> str:
    """Return "0.5 CPU", "1 CPU", "4 CPUs" or "0 CPUs"."""
    return f"{_trimmed(milli, WHOLE, 3)} CPU{'' if 0 < milli <= WHOLE else 's'}"


def bytes_words(amount: int) -> str:
    """Return "8 GiB", "512 MiB" or "12 bytes"."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB")):
        if amount >= unit:
            return f"{_trimmed(amount, unit, 1)} {name}"
    return f"{amount} bytes"


def mib_words(mib: int) -> str:
    """Return "8 GiB" or "512 MiB" for an amount of device memory."""
    return bytes_words(mib * MIB) if mib else "0 MiB"
