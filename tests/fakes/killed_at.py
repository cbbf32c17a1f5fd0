"""Lets a process kill itself, as `kill -9` would, at one step of its work: for processes made for that alone."""

import functools
import importlib
import inspect
import itertools
import os
import signal
from collections.abc import Callable
from typing import Any


def arm(step: str, number: str, moment: str) -> None:
    """Make the NUMBER-th call of STEP (`module:function`, `module:Class.method`) deadly, "before" or "after" it."""
    module, _, path = step.partition(":")
    *holders, name = path.split(".")
    place: Any = importlib.import_module(f"scheduler_service.{module}")
    for holder in holders:
        place = getattr(place, holder)
    setattr(place, name, _killed_at(getattr(place, name), int(number), moment))


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _killed_at(call: Callable[..., Any], number: int, moment: str) -> Callable[..., Any]:
    uses = itertools.count(1)

    @functools.wraps(call)
    def plain(*args: Any, **names: Any) -> Any:
        is_the_one = next(uses) == number
        if is_the_one and moment == "before":
            _end()
        answer = call(*args, **names)
        if is_the_one:
            _end()
        return answer

    @functools.wraps(call)
    async def waiting(*args: Any, **names: Any) -> Any:
        is_the_one = next(uses) == number
        if is_the_one and moment == "before":
            _end()
        answer = await call(*args, **names)
        if is_the_one:
            _end()
        return answer

    return waiting if inspect.iscoroutinefunction(call) else plain
