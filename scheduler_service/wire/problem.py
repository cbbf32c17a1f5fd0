"""What a refused or failed request gets: RFC 9457 problem details whose `detail` is a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A refusal in words: what (`title`), why (`detail`), what to do next (`hint`), and the typed reason behind it."""

    type: str
    """``about:blank`` or ``urn:kai:problem:<code>``."""
    title: str
    status: int
    detail: str
    hint: str
    code: str
    """The machine's word, e.g. ``unknown_queue``; stable."""
    facts: dict[str, str | int | None] = field(default_factory=dict)
