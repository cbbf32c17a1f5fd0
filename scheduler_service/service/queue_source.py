"""The queues in force: read again when the file changes; a malformed new file leaves the old ones standing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scheduler_service.errors import ConfigurationError
from scheduler_service.ledger import events
from scheduler_service.service.overlaid import with_loans
from scheduler_service.settings.queue_file import QueueConfig, load_queues
from scheduler_service.store.overlays import Overlay


class QueueSource:
    """Watches one queue file. `note` is the sentence to tell while its newest version can not be used."""

    def __init__(self, file: Path, whole_gpus: int) -> None:
        self._file = file
        self._whole_gpus = whole_gpus
        self._stamp = self._look()
        self._of_file: QueueConfig = load_queues(file, whole_gpus)
        self._overlays: tuple[Overlay, ...] = ()
        self.config: QueueConfig = self._of_file
        """The queues in force: the file's, with what they lend each other."""
        self.note: str | None = None

    def _look(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def first_events(self) -> list[events.Event]:
        """Return the events that bring the queues into an empty ledger."""
        return [events.QueueAdded(queue) for queue in self.config.queues]

    def poll(self) -> list[events.Event] | None:
        """Return what changed if the file was written since the last look; None if not, or if it can not be used."""
        stamp = self._look()
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        if stamp is None:  # many editors write a file by taking the old one away first
            self.note = f"The old queues stay in force: {self._file} is gone. Put it back, or start the service anew."
            return None
        try:
            fresh = load_queues(self._file, self._whole_gpus)
        except ConfigurationError as error:
            self.note = f"The old queues stay in force. {error}"
            return None
        self.note = None
        self._of_file = fresh
        return self._in_force()

    def lay_over(self, overlays: tuple[Overlay, ...]) -> list[events.Event]:
        """Put the overlays in force, in place of those before; return what that changes."""
        self._overlays = overlays
        return self._in_force()

    def trial(self, overlays: tuple[Overlay, ...]) -> QueueConfig:
        """Return the queues as they would be with these overlays."""
        return with_loans(self._of_file, overlays)

    def _in_force(self) -> list[events.Event]:
        before, self.config = self.config, self.trial(self._overlays)
        return list(_difference(before, self.config))


def _difference(before: QueueConfig, after: QueueConfig) -> Iterator[events.Event]:
    old = {queue.name: queue for queue in before.queues}
    new = {queue.name: queue for queue in after.queues}
    for name, queue in new.items():
        if name not in old:
            yield events.QueueAdded(queue)
        elif old[name] != queue:
            yield events.QueueChanged(queue)
    for name in old:
        if name not in new:
            yield events.QueueRemoved(name)
