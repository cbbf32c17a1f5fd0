"""Every error of ours, split by who must act. Reasons for waiting are values, not errors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


class KaiError(Exception):
    """The root: a broken promise or a broken wire, told as what, why and what to do next."""

    def __init__(self, what: str, *, why: str = "", hint: str = "") -> None:
        self.what = what
        self.why = why
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        """Return the parts that are known, joined to one text."""
        return " ".join(part for part in (self.what, self.why, self.hint) if part)


class ConfigurationError(KaiError):
    """The operator must act: a setting, a queue file or a manifest is wrong."""


class RequestError(KaiError):
    """The caller must act: this request can not be served as it is.

    `status` is HTTP's, `code` the stable word for programs, `facts` the numbers and names behind the sentence.
    """

    def __init__(
        self,
        what: str,
        *,
        why: str = "",
        hint: str = "",
        status: int = 422,
        code: str = "bad_request",
        facts: Mapping[str, str | int | None] = MappingProxyType({}),
    ) -> None:
        self.status = status
        self.code = code
        self.facts = facts
        super().__init__(what, why=why, hint=hint)


class BackendError(KaiError):
    """The cluster or the machine must be looked at: carrying a decision out failed."""


class BugError(KaiError):
    """We must act: one of our own promises is broken."""
