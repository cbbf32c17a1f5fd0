"""The sentence about a GPU that somebody uses without a lease. Pure but for the local time zone."""

from __future__ import annotations

from scheduler_service.words.units import clock_words


def foreign_sentence(index: int, user: str, pid: int, *, since: int, now: int) -> str:
    """Return "GPU 1 is used by ben without a lease (process 42, since 10:42), so it is not handed out."."""
    who = user or "somebody"
    when = clock_words(since, now)
    return f"GPU {index} is used by {who} without a lease (process {pid}, since {when}), so it is not handed out."
