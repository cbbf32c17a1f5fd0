"""What can go wrong between a notebook and the service, each as sentences for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler_service.wire.problem import Problem


class KaiJupyterError(Exception):
    """The root of what this package raises. Its text is meant to be read: what, why, what to do next."""

    def _render_traceback_(self) -> list[str]:
        """Show IPython the sentence alone: the frames of our own code help nobody."""
        return [str(self)]


class KaiRequestError(KaiJupyterError):
    """The service declined a request; `problem` holds the typed reason."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(sentence_of(problem))


class ServiceUnreachable(KaiJupyterError):
    """The service does not answer, or could not be started."""


class WaitInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a wait; the text says what became of what was waited for."""

    def _render_traceback_(self) -> list[str]:
        """Show IPython the sentence alone."""
        return [str(self)]


class UsageError(KaiJupyterError):
    """A magic or a function was called in a way that cannot be understood."""


class CaptureError(KaiJupyterError):
    """The cell or function cannot be sent to workers as it is."""


class GangFailed(KaiJupyterError):
    """A worker failed; the text has the first failure with its line of the cell."""


class CellFailed(KaiJupyterError):
    """A cell or function failed in the companion; the text has the failure with its line."""


class CellLost(KaiJupyterError):
    """The companion, or its Python, ended while a cell ran; the text says what is gone."""


class NotGranted(KaiJupyterError):
    """The request ended before it held a device."""


def sentence_of(problem: Problem) -> str:
    """Return a problem's parts as one text, no part twice: what another part says too is left to that part."""
    parts = [part.strip() for part in (problem.title, problem.detail, problem.hint)]
    told: list[str] = []
    for index, text in enumerate(parts):
        others = [*told, *parts[index + 1 :]]
        if text and not any(text.rstrip(".") in other for other in others):
            told.append(text if text.endswith((".", "!", "?", "`")) else f"{text}.")
    return " ".join(told)
