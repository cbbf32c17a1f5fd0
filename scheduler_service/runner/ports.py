"""Loopback ports for a gang, held from the moment they are chosen until just before its processes start."""

from __future__ import annotations

import re
import socket
from types import TracebackType

from scheduler_service.runner.environment import LOOPBACK, GangPorts

_CLASH = re.compile(r"address already in use|EADDRINUSE|binding port \d+ failed", re.IGNORECASE)


class PortReservation:
    """Holds a port for the rendezvous and one for each rank (none without workers); leaving `with` lets them go."""

    def __init__(self, workers: int | None) -> None:
        self._sockets: list[socket.socket] = []
        self.ports: GangPorts | None = None
        if workers is not None:
            numbers = [self._take() for _ in range(workers + 1)]
            self.ports = GangPorts(numbers[0], tuple(numbers[1:]))

    def release(self) -> None:
        """Let the ports go, for the gang to take."""
        while self._sockets:
            self._sockets.pop().close()

    def __enter__(self) -> PortReservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _take(self) -> int:
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._sockets.append(held)
        held.bind((LOOPBACK, 0))
        return int(held.getsockname()[1])


def tells_of_clash(text: str) -> bool:
    """Whether a line of output says that a port was taken by someone else."""
    return _CLASH.search(text) is not None
