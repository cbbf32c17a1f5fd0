"""`python -m kai_jupyter.pod_kernel CONNECTION_FILE [--keep-s N] -- COMMAND …`: the host of a kernel in its pod.

It starts the kernel, starts it anew when the Jupyter server says so (a restart keeps the pod and its GPU), passes
signals on, and tells how the kernel is. Where no server asks for `--keep-s`, it ends: nobody would give the GPU back.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import zmq
import zmq.asyncio

from kai_jupyter.pod_kernel import protocol
from kai_jupyter.pod_kernel.protocol import Keys, Status

CONNECTION_FILE = "{connection_file}"
GRACE_S = 10.0
"""For the kernel to end, within the grace of its pod."""
LOOK_S = 1.0


class KernelHost:
    """One kernel and its processes, one after another."""

    def __init__(self, command: list[str], keys: Keys, *, keep_s: float) -> None:
        self._command = command
        self._keys = keys
        self._keep_s = keep_s
        self._session = protocol.session(keys)
        self._generation = 0
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._listener: bytes | None = None
        self._heard_at = time.monotonic()
        self._leaving = asyncio.Event()

    @property
    def status(self) -> Status:
        """How the kernel is now."""
        code = 1 if self._process is None else self._process.returncode
        return Status(self._generation, code)

    async def run(self, address: str, port: int) -> None:
        """Start the kernel and serve until told to leave, or forgotten."""
        door = self._open(address, port)
        try:
            await self._start(door)
            serving = asyncio.create_task(self._serve(door))
            while not self._leaving.is_set() and not self._is_forgotten:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._leaving.wait(), LOOK_S)
            serving.cancel()
            await self._end()
        finally:
            door.close(linger=0)

    def leave(self) -> None:
        """End the kernel and stop serving."""
        self._leaving.set()

    @property
    def _is_forgotten(self) -> bool:
        return time.monotonic() - self._heard_at > self._keep_s

    def _open(self, address: str, port: int) -> zmq.asyncio.Socket:
        door = zmq.asyncio.Context.instance().socket(zmq.ROUTER)
        door.curve_server = True
        door.curve_publickey, door.curve_secretkey = self._keys.public, self._keys.secret
        door.bind(f"tcp://{address}:{port}")
        return door

    async def _serve(self, door: zmq.asyncio.Socket) -> None:
        while True:
            listener, *parts = await door.recv_multipart()
            told = protocol.read(self._session, parts)
            if told is None:
                continue
            self._listener, self._heard_at = listener, time.monotonic()
            kind, content = told
            if kind == protocol.START and self.status.exit_code is not None:
                await self._start(door)
            elif kind == protocol.SIGNAL:
                self._signal(int(content.get("number", 0)))
            await self._tell(door)

    async def _tell(self, door: zmq.asyncio.Socket) -> None:
        if self._listener is not None:
            told = protocol.status_message(self._session, self.status)
            await door.send_multipart([self._listener, *told])

    async def _start(self, door: zmq.asyncio.Socket) -> None:
        self._generation += 1
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            self._process = None
            print(f"The kernel could not be started: {error}", file=sys.stderr, flush=True)  # noqa: T201 - the pod's log
            return
        self._waiting = asyncio.create_task(self._tell_end(self._process, door))

    async def _tell_end(
        self, process: asyncio.subprocess.Process, door: zmq.asyncio.Socket
    ) -> None:
        """Tell the server at once that the kernel ended: it would only ask a second later."""
        await process.wait()
        await self._tell(door)

    def _signal(self, number: int) -> None:
        process = self._process
        if process is not None and process.returncode is None and number > 0:
            with contextlib.suppress(ProcessLookupError, ValueError, OSError):
                os.killpg(process.pid, number)

    async def _end(self) -> None:
        """Let the kernel end by itself, then by force."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), GRACE_S)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await process.wait()


def command_of(argv: list[str], file: Path) -> list[str]:
    """Return the kernel's command: its connection file put in; a plain `python` is the one that runs this."""
    found = [part.replace(CONNECTION_FILE, str(file)) for part in argv]
    return [sys.executable, *found[1:]] if found[0] in {"python", "python3"} else found


async def serve(host: KernelHost, address: str, port: int) -> None:
    """Host the kernel until SIGTERM."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, host.leave)
    await host.run(address, port)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="pod_kernel", description=__doc__)
    parser.add_argument("connection_file")
    parser.add_argument("--keep-s", type=float, default=600.0)
    parser.add_argument("--address", default="0.0.0.0", help="where to listen")  # noqa: S104 - the pod's own network
    parser.add_argument("--port", type=int, default=protocol.HOST_PORT)
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    file = Path(asked.connection_file)
    file.chmod(0o600)
    keys = protocol.keys_of(file.read_bytes())
    host = KernelHost(command_of(asked.command, file), keys, keep_s=asked.keep_s)
    asyncio.run(serve(host, asked.address, asked.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
