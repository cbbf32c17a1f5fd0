"""The bearer token: given once, or in a file that others rewrite now and then.

Rule: a file that is empty, half written or gone for a moment never breaks a request: what worked last is used on.
"""

from __future__ import annotations

from pathlib import Path


class TokenSource:
    """Gives the token of now. After a 401 `rejected` offers the other one that may still be good."""

    def __init__(self, token: str | None, file: Path | None) -> None:
        self._file = file
        self._token = token
        self._last_good = token
        self._seen: tuple[int, int, int] | None = None

    def current(self) -> str | None:
        """Return the token to send now; the file is read again when it changed."""
        if self._file is None:
            return self._token
        try:
            stat = self._file.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._seen:
                self._take(self._file.read_text("ascii"))
                self._seen = seen
        except (OSError, UnicodeDecodeError):
            return self._token
        return self._token

    def _take(self, text: str) -> None:
        token = text.strip()
        was_signed = self._token is not None and self._token.count(".") == 2  # noqa: PLR2004
        if not token or (was_signed and token.count(".") != 2):  # noqa: PLR2004
            return
        self._token = token

    def accepted(self, token: str | None) -> None:
        """Note that the API knew this token."""
        self._last_good = token

    def rejected(self, token: str | None) -> str | None:
        """Return another token worth a try after a 401, or None; it is the current one from then on."""
        self._seen = None
        fresh = self.current()
        if fresh == token and self._last_good is not None:
            self._token = self._last_good
        return self._token if self._token != token else None
