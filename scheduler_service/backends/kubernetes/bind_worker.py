"""A process that only writes: it takes calls from a socket, makes many at a time, and answers how each went.

A planner that computes cuts its own process's HTTP to a fraction; beside it the calls keep their pace. Rule: nothing
secret is in its arguments: how to reach the API comes over the socket. It ends when the socket closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from scheduler_service.backends.kubernetes.access import Access
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import KubeError, Unavailable, error_of
from scheduler_service.backends.kubernetes.lull import Lull

AT_ONCE = 64
MODULE = "scheduler_service.backends.kubernetes.bind_worker"
Method = Literal["POST", "PATCH", "DELETE"]


class Call(msgspec.Struct, frozen=True, gc=False):
    """One write: method, path, JSON body. Patches are merge patches."""

    number: int
    method: Method
    path: str
    body: msgspec.Raw
    want_body: bool = False


class Outcome(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a call went: status 0 = it worked, 1 = its fate is not known, else HTTP's."""

    number: int
    status: int = 0
    error: str = ""
    body: msgspec.Raw = msgspec.Raw(b"null")


class Hello(msgspec.Struct, frozen=True, gc=False):
    """What is sent first: how the API is reached."""

    server: str
    token: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    ca_data: str | None = None
    client_cert: bytes | None = None
    client_key: bytes | None = None
    insecure: bool = False

    @classmethod
    def of(cls, access: Access) -> Hello:
        """Return the access as it travels."""
        cert, key = access.client_cert, access.client_key
        return cls(
            access.server,
            access.token,
            None if access.token_file is None else str(access.token_file),
            None if access.ca_file is None else str(access.ca_file),
            access.ca_data,
            cert.read_bytes() if isinstance(cert, Path) else cert,
            key.read_bytes() if isinstance(key, Path) else key,
            access.insecure,
        )

    def access(self) -> Access:
        """Return the access again."""
        return Access(
            self.server,
            self.token,
            None if self.token_file is None else Path(self.token_file),
            None if self.ca_file is None else Path(self.ca_file),
            self.ca_data,
            self.client_cert,
            self.client_key,
            self.insecure,
        )


_encode = msgspec.json.Encoder().encode
_decode_call = msgspec.json.Decoder(Call).decode
_decode_outcome = msgspec.json.Decoder(Outcome).decode
UNKNOWN_FATE = 1


async def make(client: KubeClient, call: Call) -> Outcome:
    """Make one call and return how it went."""
    body = bytes(call.body)
    try:
        if call.method == "POST":
            answer = await client.post(call.path, body)
        elif call.method == "PATCH":
            answer = await client.patch(call.path, body)
        else:
            answer = await client.delete(call.path, body)
    except KubeError as error:
        fate = error.status or UNKNOWN_FATE
        told = {"reason": error.reason, "message": error.message}
        return Outcome(call.number, fate, _encode(told).decode())
    return Outcome(call.number, body=msgspec.Raw(answer if call.want_body else b"null"))


# -- the process ---------------------------------------------------------------------------------------------


def frame(value: Any) -> bytes:
    """Return a value as it travels: its length in four bytes, then JSON (an answer of the API may hold newlines)."""
    body = _encode(value)
    return len(body).to_bytes(4, "big") + body


async def frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield what was sent, until the other side closes."""
    while True:
        try:
            size = int.from_bytes(await reader.readexactly(4), "big")
            yield await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return


class Outbox:
    """Sends frames to a stream: what is put in during one turn of the event loop goes out in one call."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._frames: list[bytes] = []

    def put(self, body: bytes) -> None:
        """Send a frame by the end of this turn."""
        if not self._frames:
            asyncio.get_running_loop().call_soon(self.flush)
        self._frames.append(body)

    def flush(self) -> None:
        """Send what is there now."""
        frames_, self._frames = self._frames, []
        if frames_:
            self._writer.write(b"".join(frames_))


async def work(descriptor: int) -> None:
    """Answer calls until the socket closes."""
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=descriptor))
    incoming = frames(reader)
    hello = msgspec.json.decode(await anext(incoming), type=Hello)
    room = asyncio.Semaphore(AT_ONCE)
    live: set[asyncio.Task[None]] = set()
    outbox = Outbox(writer)

    async def one(call: Call) -> None:
        try:
            outbox.put(frame(await make(client, call)))
        finally:
            room.release()

    async with KubeClient(hello.access(), connections=AT_ONCE) as client:
        async for body in incoming:
            await room.acquire()
            task = asyncio.create_task(one(_decode_call(body)))
            live.add(task)
            task.add_done_callback(live.discard)
        await asyncio.gather(*live, return_exceptions=True)
    with contextlib.suppress(ConnectionError):
        outbox.flush()
        writer.close()
        await writer.wait_closed()


# -- its owner -------------------------------------------------------------------------------------------------


class Writes:
    """Makes writes through the worker process, or (without one) through a client of this process.

    What pods wait for keeps `lull` from being quiet; `later` writes what none waits for.
    """

    def __init__(self, client: KubeClient, *, apart: bool = True) -> None:
        self.lull = Lull()
        self._client = client
        self._apart = apart
        self._waiting: dict[int, asyncio.Future[Outcome]] = {}
        self._number = 0
        self._writer: asyncio.StreamWriter | None = None
        self._outbox: Outbox | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._room = asyncio.Semaphore(AT_ONCE)

    @property
    def pid(self) -> int | None:
        """The worker's process id, where there is one."""
        return None if self._process is None else self._process.pid

    async def post(self, path: str, body: Any, *, want_body: bool = False) -> bytes:
        """Create; errors as the client raises them."""
        return await self._write("POST", path, body, want_body=want_body)

    async def patch(self, path: str, body: Any, *, want_body: bool = False) -> bytes:
        """Merge; errors as the client raises them."""
        return await self._write("PATCH", path, body, want_body=want_body)

    async def delete(self, path: str, body: Any = None) -> bytes:
        """Delete; errors as the client raises them."""
        return await self._write("DELETE", path, body)

    async def later(self, method: Method, path: str, body: Any) -> None:
        """Write what no pod waits for; whoever has much of it waits for the lull before."""
        await self._called(method, path, body)

    async def _write(
        self, method: Method, path: str, body: Any, *, want_body: bool = False
    ) -> bytes:
        with self.lull.busy():
            return await self._called(method, path, body, want_body=want_body)

    async def _called(
        self, method: Method, path: str, body: Any, *, want_body: bool = False
    ) -> bytes:
        self._number += 1
        call = Call(self._number, method, path, msgspec.Raw(_encode(body)), want_body)
        outcome = await (self._by_worker(call) if self._apart else self._here(call))
        if outcome.status == UNKNOWN_FATE:
            raise Unavailable(0, "Unknown", "Whether the write was done is not known.")
        if outcome.status:
            raise error_of(outcome.status, outcome.error.encode())
        return bytes(outcome.body)

    async def _here(self, call: Call) -> Outcome:
        async with self._room:
            return await make(self._client, call)

    async def _by_worker(self, call: Call) -> Outcome:
        outbox = self._outbox or await self._start()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[call.number] = future
        outbox.put(frame(call))
        return await future

    async def _start(self) -> Outbox:
        async with self._starting:
            if self._outbox is not None:
                return self._outbox
            ours, theirs = socket.socketpair()
            with theirs:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", MODULE, str(theirs.fileno()), pass_fds=[theirs.fileno()]
                )
            reader, writer = await asyncio.open_unix_connection(sock=ours)
            writer.write(frame(Hello.of(self._client.access)))
            self._reading = asyncio.create_task(self._read(reader))
            self._writer, self._outbox = writer, Outbox(writer)
            return self._outbox

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            async for body in frames(reader):
                outcome = _decode_outcome(body)
                future = self._waiting.pop(outcome.number, None)
                if future is not None and not future.done():
                    future.set_result(outcome)
        finally:
            self._lost()

    def _lost(self) -> None:
        """Answer all that was under way with "not known"; the next write starts a new worker."""
        writer, self._writer, self._outbox = self._writer, None, None
        if writer is not None:
            writer.close()
        waiting, self._waiting = self._waiting, {}
        for number, future in waiting.items():
            if not future.done():
                future.set_result(Outcome(number, UNKNOWN_FATE))

    async def close(self) -> None:
        """End the worker after what is under way."""
        writer = self._writer
        if self._outbox is not None:
            self._outbox.flush()
        if writer is not None and writer.can_write_eof():
            with contextlib.suppress(ConnectionError):
                writer.write_eof()
        if self._process is not None:
            await self._process.wait()
        if self._reading is not None:
            await self._reading
        if writer is not None:
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def main() -> None:
    """Run the worker: `python -m … FD`."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(work(int(sys.argv[1])))


if __name__ == "__main__":
    main()
