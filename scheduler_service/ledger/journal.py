"""Undo by old values: append (container, index, what was there); rolling back puts it back.

Containers are arrays, lists, dicts, and tables that take back a whole row at once. In dicts
nothing is deleted while a checkpoint is open, so that their order is the same after a rollback.
~0.1 µs an entry.
"""

from __future__ import annotations

from typing import Any, Final

MISSING: Final = object()


class Journal:
    """The entries since the first open checkpoint, and the nodes touched since a plan began."""

    __slots__ = ("entries", "touched", "written")

    def __init__(self) -> None:
        self.entries: list[tuple[Any, Any, Any]] = []
        self.touched: list[int] = []
        self.written = 0

    def set(self, container: Any, index: Any, value: Any) -> None:
        """Put `value` at `index` of an array, a list or a dict that has this key."""
        self.entries.append((container, index, container[index]))
        container[index] = value

    def put(self, container: dict[Any, Any], key: Any, value: Any) -> None:
        """Put `value` at `key` of a dict that may not have it yet."""
        self.entries.append((container, key, container.get(key, MISSING)))
        container[key] = value

    def checkpoint(self) -> int:
        """Return a mark to roll back to."""
        return len(self.entries)

    def rollback(self, mark: int) -> None:
        """Put back everything written after `mark`, last first."""
        undone = self.entries[mark:]
        del self.entries[mark:]
        self.written += len(undone)
        for container, index, old in reversed(undone):
            if old is MISSING:
                del container[index]
            else:
                container[index] = old

    def forget(self) -> None:
        """Make everything written so far final."""
        self.entries.clear()
        self.touched.clear()
