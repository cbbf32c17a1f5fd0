"""Whole numbers as people write them, for settings and for options of commands. Pure."""

from __future__ import annotations


class Unfit(ValueError):
    """What is written can not be used: `what` is wrong with it, and `hint`, what to write."""

    def __init__(self, what: str, hint: str) -> None:
        self.what = what
        self.hint = hint
        super().__init__(f"{what} {hint}")


def whole(text: str, least: int | None = None, most: int | None = None) -> int:
    """Return the number that is written, from `least` to `most`; raises `Unfit`."""
    span = _span(least, most)
    try:
        value = int(text)
    except ValueError:
        raise Unfit(f"'{text}' is not a whole number.", f"Write one{span}.") from None
    if least is not None and value < least:
        raise Unfit(f"{value} is too small.", f"Write a whole number{span}.")
    if most is not None and value > most:
        raise Unfit(f"{value} is too large.", f"Write a whole number{span}.")
    return value


def _span(least: int | None, most: int | None) -> str:
    if least is not None and most is not None:
        return f" from {least} to {most}"
    if least is not None:
        return f" from {least} on"
    return f" up to {most}" if most is not None else " like 4"
