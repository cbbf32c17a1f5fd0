"""Read server-sent events from lines of text. Pure: lines in, events out."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `id` is the revision to resume from."""

    data: str
    id: str = ""
    event: str = "message"


@dataclass(slots=True)
class EventReader:
    """Collect lines until an event is whole."""

    _data: list[str] = field(default_factory=list)
    _id: str = ""
    _event: str = "message"

    def feed(self, line: str) -> ServerSentEvent | None:
        """Return the event that `line` (without its end) completes, if it does."""
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        elif name == "event":
            self._event = value
        return None

    def _complete(self) -> ServerSentEvent | None:
        data, self._data = self._data, []
        event, self._event = self._event, "message"
        return ServerSentEvent("\n".join(data), self._id, event) if data else None
