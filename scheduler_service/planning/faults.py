"""A plan in spite of internal errors: whose fault one is, and the same plan without that group.

A bug that meets one group must not stop a cycle, nor cost another group its turn. Where an error
comes up, the frames it went through say which groups were looked at; the nearest one is left out
and the plan is made again. What belongs here: that search. What never does: what a plan does
without a group (`cycle`), and errors that no group has part in: they end the plan.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Final, TypeVar

from scheduler_service.ledger.groups import Group

Made = TypeVar("Made")
Aside = Mapping[str, str]
"""Groups that are left out of a plan, each with the name of the error."""

MOST: Final = 16
"""Groups that are left out of one plan before it is given up: then it is not about groups."""


class GroupLeftOut(RuntimeWarning):
    """A bug: a group met an internal error, and the plan was made without it."""


def without_the_faulty(make: Callable[[Aside], Made]) -> Made:
    """Return what `make` returns with as few groups left out as it takes to get through."""
    aside: dict[str, str] = {}
    while True:
        try:
            made = make(aside)
        except Exception as error:
            key = next((key for key in suspects(error) if key not in aside), None)
            if key is None or len(aside) == MOST:
                raise
            aside[key] = type(error).__name__
            message = f"{key} is left out of this plan: {type(error).__name__}: {error}"
            warnings.warn(GroupLeftOut(message), stacklevel=3)
        else:
            return _with_the_innocent(make, aside, made)


def _with_the_innocent(make: Callable[[Aside], Made], aside: dict[str, str], made: Made) -> Made:
    """Take back in, one by one, those without whose absence the plan is made as well."""
    for key in list(aside)[:-1]:
        fewer = {other: error for other, error in aside.items() if other != key}
        try:
            made = make(fewer)
        except Exception:  # noqa: BLE001, S112 - it is as guilty as it seemed
            continue
        aside = fewer
    return made


def is_of_another(error: Exception, group: Group) -> bool:
    """Say whether an error is rather another group's than that of the one that is served."""
    return next(suspects(error), group.key) != group.key


def suspects(error: Exception) -> Iterator[str]:
    """Yield the groups that were looked at when an error came up, the nearest first."""
    frames: list[FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in reversed(frames):
        for group in _groups_in(frame.f_locals):
            yield group.key


def _groups_in(names: Mapping[str, Any]) -> Iterator[Group]:
    """Yield the groups among the names of a frame: themselves, then those of entries and wishes."""
    values = [value for name, value in names.items() if name != "self"]
    values.append(names.get("self"))
    yield from (value for value in values if isinstance(value, Group))
    for value in values:
        inner = getattr(value, "group", None)
        if isinstance(inner, Group):
            yield inner
