"""A process that somebody else started, with what `LocalProvisioner` asks of a `Popen`."""

from __future__ import annotations

import os
import signal

from kai_jupyter.kernel_records import lives
from scheduler_service.wire.pod_group import Process

UNKNOWN_EXIT = 1
"""Nobody but its parent learns how a process ended."""


class AdoptedProcess:
    """A kernel that outlived the server which started it."""

    stdin = stdout = stderr = None

    def __init__(self, process: Process) -> None:
        self._process = process
        self.pid = process.pid

    def poll(self) -> int | None:
        """Return None while it lives."""
        return None if lives(self._process) else UNKNOWN_EXIT

    def wait(self) -> int:
        """Return how it ended; it has, when this is called."""
        return UNKNOWN_EXIT

    def send_signal(self, number: int) -> None:
        """Send it a signal; nothing is sent to a process that only has its pid."""
        if lives(self._process):
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)
