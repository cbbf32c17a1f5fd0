"""Follow groups from a kernel: one stream in a daemon thread, as long as something that is watched is alive."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kai_jupyter.client import KaiClient
from kai_jupyter.errors import KaiJupyterError
from scheduler_service.wire.pod_group import TERMINAL_STATES, PodGroupView

FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 15.0

Seen = Callable[[PodGroupView], None]


class Watcher:
    """Calls `seen` for each change of each group of the caller, and `lost` while the service does not answer.

    Both are called from the watcher's thread.
    """

    def __init__(
        self, client: Callable[[], KaiClient], seen: Seen, lost: Callable[[str], None]
    ) -> None:
        self._client = client
        self._seen = seen
        self._lost = lost
        self._wanted: set[str] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    def follow(self, view: PodGroupView) -> None:
        """Follow a group until it has ended."""
        if view.state in TERMINAL_STATES:
            return
        with self._lock:
            self._wanted.add(f"{view.namespace}/{view.name}")
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="kai-watch", daemon=True)
                self._thread.start()
        self._wake.set()

    def _is_done(self) -> bool:
        with self._lock:
            if self._wanted:
                return False
            self._thread = None
            return True

    def _take(self, view: PodGroupView) -> None:
        if view.state in TERMINAL_STATES:
            with self._lock:
                self._wanted.discard(f"{view.namespace}/{view.name}")
        self._seen(view)

    def _run(self) -> None:
        wait_s = FIRST_RETRY_S
        rev: int | None = None
        while not self._is_done():
            try:
                for event in self._client().events(since=rev):
                    rev, wait_s = event.rev, FIRST_RETRY_S
                    for view in event.groups:
                        self._take(view)
                    if self._is_done():
                        return
            except KaiJupyterError as error:
                self._lost(str(error))
            self._wake.clear()
            self._wake.wait(wait_s)
            wait_s = min(LONGEST_RETRY_S, wait_s * 2)
