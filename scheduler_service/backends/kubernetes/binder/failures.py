"""Why a bind could not be made: errors whose text is the sentence that the pod's condition shows."""

from __future__ import annotations

from scheduler_service.errors import BackendError


class BindFailed(BackendError):
    """This try failed: it is counted, told, and made again if the request allows it."""


class Stale(Exception):
    """What was decided on has changed meanwhile: look again. It is no failed try."""
