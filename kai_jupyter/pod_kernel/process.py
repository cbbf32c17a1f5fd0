"""A kernel in a pod as `LocalProvisioner` asks of a `Popen`: how it is comes from the host in the pod.

Rule: a host that does not answer is no kernel that ended. That the pod is gone is told by the service, through `lost`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

import zmq
import zmq.asyncio

from kai_jupyter.pod_kernel import protocol
from kai_jupyter.pod_kernel.protocol import Keys, Status

TURN_S = 1.0
LOOK_S = 0.1
MOST_UNSENT = 8
LOST_EXIT = 1


class PodProcess:
    """The kernel in one pod, over all its restarts."""

    stdin = stdout = stderr = None
    pid: None = None

    def __init__(self, address: str, keys: Keys, *, port: int = protocol.HOST_PORT) -> None:
        self.address = address
        self._port = port
        self._keys = keys
        self._session = protocol.session(keys)
        self._socket: zmq.asyncio.Socket | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._status: Status | None = None
        self.is_lost = False
        """Whether the pod is gone."""
        self._told = asyncio.Event()

    # -- what LocalProvisioner calls --------------------------------------------------------------------------------
    def poll(self) -> int | None:
        """Return None while it runs."""
        if self.is_lost:
            return LOST_EXIT
        return None if self._status is None else self._status.exit_code

    def wait(self) -> int:
        """Return how it ended; it has, when this is called."""
        return self.poll() or 0

    def send_signal(self, number: int) -> None:
        """Send a signal to the kernel in the pod."""
        self._say(protocol.SIGNAL, number=int(number))

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it; the pod stays."""
        self.send_signal(signal.SIGKILL)

    @property
    def generation(self) -> int:
        """Which of its processes this is, from 1; 0 while that is not known."""
        return 0 if self._status is None else self._status.generation

    # -- what the provisioner calls ---------------------------------------------------------------------------------
    async def attach(self) -> None:
        """Wait until the host in the pod answers; return when its kernel takes connections."""
        self._open()
        await self._until(lambda status: status is not None)
        await self._takes_connections()

    async def start(self) -> None:
        """Start the kernel that ended anew, in the same pod."""
        known = self.generation
        self._say(protocol.START)
        await self._until(lambda _: self.generation > known)
        await self._takes_connections()

    def lost(self) -> None:
        """Take note that the pod is gone."""
        self.is_lost = True
        self._told.set()

    def close(self) -> None:
        """Let go of the pod."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        if self._socket is not None:
            self._socket.close(linger=0)
            self._socket = None

    # -- inside -----------------------------------------------------------------------------------------------------
    def _open(self) -> None:
        if self._socket is not None:
            return
        socket = zmq.asyncio.Context.instance().socket(zmq.DEALER)
        socket.sndhwm = MOST_UNSENT
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        socket.curve_serverkey = self._keys.public
        socket.connect(f"tcp://{self.address}:{self._port}")
        self._socket = socket
        self._tasks = [asyncio.create_task(self._ask()), asyncio.create_task(self._listen(socket))]

    async def _ask(self) -> None:
        while True:
            self._say(protocol.STATUS)
            await asyncio.sleep(TURN_S)

    async def _listen(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            told = protocol.read(self._session, await socket.recv_multipart())
            if told is None or told[0] != protocol.STATUS:
                continue
            with contextlib.suppress(TypeError):
                self._status = Status(**told[1])
            self._told.set()

    def _say(self, kind: str, **content: object) -> None:
        socket = self._socket
        if socket is None:
            return
        parts = protocol.message(self._session, kind, **content)
        with contextlib.suppress(
            zmq.Again
        ):  # the host is away, and as much as may wait for it waits
            zmq.Socket.send_multipart(socket, parts, zmq.NOBLOCK)

    async def _until(self, is_met: Callable[[Status | None], bool]) -> None:
        while not is_met(self._status):
            self._told.clear()
            await self._told.wait()
            if self.is_lost:
                raise ConnectionError("The pod of this kernel is gone.")

    async def _takes_connections(self) -> None:
        """Wait until the kernel listens, or has ended."""
        while self.poll() is None:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(self.address, protocol.PORTS["hb_port"])
                writer.close()
                return
            await asyncio.sleep(LOOK_S)
