"""One watch of the API server, read ahead in a thread so that what has arrived can be taken whole."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

Event = tuple[str, dict[str, Any]]


class Stream:
    """The events of a watch; a context manager that hangs up at its end.

    Raises OSError or HTTPException when the watch cannot be opened; `refused` has the answer of a
    server that said no.
    """

    def __init__(
        self, connection: http.client.HTTPSConnection, target: str, headers: Mapping[str, str]
    ) -> None:
        self._connection = connection
        connection.request("GET", target, headers=dict(headers))
        self._socket = connection.sock  # an answer without a length takes it away
        self._answer = connection.getresponse()
        self.refused: tuple[int, bytes] | None = None
        self._arrived: SimpleQueue[Event | None] = SimpleQueue()
        if self._answer.status != 200:
            self.refused = self._answer.status, self._answer.read()
        self._reader = Thread(target=self._read, name="watch", daemon=True)
        self._reader.start()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._answer.close()
        self._connection.close()

    def batches(self) -> Iterator[list[Event]]:
        """Yield what has arrived since the last time, at least one event; ends with the stream."""
        ended = False
        while not ended:
            batch = [self._arrived.get()]
            with suppress(Empty):
                while True:
                    batch.append(self._arrived.get_nowait())
            ended = None in batch
            if events := [event for event in batch if event is not None]:
                yield events

    def _read(self) -> None:
        with suppress(OSError, ValueError, http.client.HTTPException):
            for line in () if self.refused else self._answer:
                event = json.loads(line)
                self._arrived.put((event["type"], event["object"]))
        self._arrived.put(None)
