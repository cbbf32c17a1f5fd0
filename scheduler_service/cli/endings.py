"""How a command ends: exit codes, and which error is which."""

from __future__ import annotations

import os
from dataclasses import dataclass

OK = 0
FAILED = 1
USAGE = 2
DECLINED = 3
UNKNOWN = 4
UNREACHABLE = 5
INTERRUPTED = 130
IN_A_CLUSTER = frozenset({"aiohttp", "cryptography"})
FOR_A_CLUSTER = "What runs in a cluster needs more than the base install: pip install 'kai-jupyter[kubernetes]'."


@dataclass(frozen=True, slots=True)
class Ending:
    """An exit code and the sentence that goes with it."""

    code: int
    sentence: str = ""


class Ends(Exception):
    """Raised by a command that is done: `ending` says how."""

    def __init__(self, code: int, sentence: str = "") -> None:
        self.ending = Ending(code, sentence)
        super().__init__(sentence)


def ending_of(error: BaseException) -> Ending | None:
    """Return how a command ends that raised `error`; None for a bug, whose traceback is wanted."""
    if isinstance(error, Ends):
        return error.ending
    if isinstance(error, KeyboardInterrupt):
        return Ending(INTERRUPTED)
    if isinstance(error, ModuleNotFoundError) and error.name in IN_A_CLUSTER:
        return Ending(USAGE, f"{error.name} is not installed. {FOR_A_CLUSTER}")
    if isinstance(error, BrokenPipeError):
        _forget_stdout()
        return Ending(OK)
    return _of_ours(error)


def _of_ours(error: BaseException) -> Ending | None:
    from kai_jupyter.errors import KaiJupyterError, KaiRequestError
    from scheduler_service.errors import ConfigurationError, KaiError

    if isinstance(error, KaiRequestError):
        is_unknown = error.problem.status == 404  # noqa: PLR2004 - the HTTP code
        return Ending(UNKNOWN if is_unknown else DECLINED, str(error))
    if isinstance(error, KaiJupyterError):
        return Ending(UNREACHABLE, str(error))
    if isinstance(error, ConfigurationError):
        return Ending(USAGE, str(error))
    return Ending(FAILED, str(error)) if isinstance(error, KaiError) else None


def _forget_stdout() -> None:
    """Keep the interpreter from complaining at exit about a reader (`| head`) that went away."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
