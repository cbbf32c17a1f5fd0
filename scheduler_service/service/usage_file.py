"""Usage lately, kept over a restart: one small file, written whole; a file that can not be read is begun anew."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec

from scheduler_service.errors import BackendError
from scheduler_service.ledger.usage import UsageBook


class UsageFile:
    """Remembers the usage book of a ledger."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._written: UsageBook | None = None

    def read(self) -> UsageBook | None:
        """Return what was noted before; None if nothing was, or nothing that can be read."""
        try:
            content = json.loads(self._file.read_text("utf-8"))
            return msgspec.convert(content, UsageBook)
        except (OSError, ValueError, msgspec.ValidationError):
            return None

    def write(self, book: UsageBook) -> None:
        """Write the book, if anything was noted since the last time. Raises `BackendError`."""
        if book.at_ms is None or book is self._written:
            return
        fresh = self._file.with_suffix(".new")
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as to:
                to.write(json.dumps(msgspec.to_builtins(book)))
            fresh.replace(self._file)
        except OSError as error:
            raise BackendError(
                f"{self._file} can not be written.",
                why=f"{error.strerror}.",
                hint="Make room; until then a restart forgets who used how much lately.",
            ) from error
        self._written = book
