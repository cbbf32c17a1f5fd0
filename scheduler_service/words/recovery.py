"""What people read after the state file was lost: what was found again, what was ended and why, what waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from scheduler_service.store.books import EndedUnknown
from scheduler_service.words.units import DAY_MS, clock_words

TOLD_FOR_MS = DAY_MS
MOST_NAMES = 20

FOUND_AGAIN = "Found again after the state file was lost"
ENDED_BEFORE = "It ended before the state file was lost; how, only the lost file knew."
NO_SEAL = "its order was given by an older version or can not be read"
BAD_SEAL = "its order is not one that this service signed for it"
NOT_LOST = "its order is older than what the service knows"
OTHER_NODE = "its order is another machine's"
GROUP_OVER = "a later start of its request is known"


def no_room(why: str) -> str:
    """Return why work that runs could not be counted."""
    return why.rstrip(".")


def renamed(old: str, new: str) -> str:
    """Return the note of a request whose name was taken when it was found again."""
    return f"renamed to {new}: {old} was taken when it was found again"


def lost_note(damage: str | None, path: Path) -> str:
    """Return what is told when new books begin where others had been. `damage`: what was moved aside, if it was."""
    if damage is None:
        return (
            f"The state file {path} was gone and a new one begun."
            " Requests that waited and the history before are lost; ask again for what waited."
        )
    return (
        f"{damage} Requests that waited and the history before are only in the old one;"
        " ask again for what waited."
    )


def held_note(until: int) -> str:
    """Return that nothing starts yet."""
    moment = clock_words(until, seconds=True)
    return f"Nothing new starts before {moment}: what runs is looked for first."


def found_note(keys: Sequence[str]) -> str:
    """Return what was found again."""
    one = len(keys) == 1
    what = "1 running request was" if one else f"{len(keys)} running requests were"
    return f"{what} found again and {'goes' if one else 'go'} on: {_names(keys)}."


def ended_note(ended: Sequence[EndedUnknown]) -> str:
    """Return what was ended because no book told of it, by reason, and where it can be looked into."""
    by_why: dict[str, list[str]] = defaultdict(list)
    for item in ended:
        by_why[item.why].append(item.pod)
    causes = "; ".join(f"{_names(pods)} ({why})" for why, pods in by_why.items())
    one = len(ended) == 1
    what = "1 pod that ran was" if one else f"{len(ended)} pods that ran were"
    return (
        f"{what} ended because the books did not know {'it' if one else 'them'}: {causes}."
        " Orders and logs are kept in 'kept' in the state directory. Submit again what is needed."
    )


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    rest = len(names) - MOST_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown
