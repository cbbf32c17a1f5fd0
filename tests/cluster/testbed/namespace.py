"""One network namespace for everything that a test cluster starts.

Linux gives a namespace to a thread, so the tests' own thread enters it for the length of a test
and leaves it afterwards: tests of other folders in the same run keep the machine's network.
Threads and processes that are started inside stay inside. Needs root; without it there is none,
and the cluster lives on the machine's own loopback.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
SIOCSIFADDR = 0x8916
SIOCSIFNETMASK = 0x891C
IFF_UP_AND_RUNNING = 0x41

_libc = ctypes.CDLL(None, use_errno=True)


class NetworkNamespace:
    """A namespace with a loopback that is up; `entered()` puts the calling thread into it."""

    def __init__(self) -> None:
        before = _own_namespace()
        _call("unshare", CLONE_NEWNET)
        self._inside = _own_namespace()
        try:
            _bring_up("lo")
        finally:
            _call("setns", before, CLONE_NEWNET)
            os.close(before)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Keep the calling thread, and what it starts, inside for the length of the block."""
        before = _own_namespace()
        _call("setns", self._inside, CLONE_NEWNET)
        try:
            yield
        finally:
            _call("setns", before, CLONE_NEWNET)
            os.close(before)

    def add_address(self, address: str, *, alias: int) -> None:
        """Give the loopback one more address; `alias` is its number, each used once."""
        with self.entered():
            name = f"lo:{alias}"
            _set(name, SIOCSIFADDR, _address(address))
            _set(name, SIOCSIFNETMASK, _address("255.255.255.255"))

    def close(self) -> None:
        """Let go of the namespace; it ends with the last process in it."""
        with suppress(OSError):
            os.close(self._inside)


def possible() -> bool:
    """Tell whether this process may make a network namespace: a thread of its own tries, and takes it with it."""
    if os.geteuid() != 0 or not hasattr(_libc, "unshare"):
        return False
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(_libc.unshare, CLONE_NEWNET).result() == 0


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback that nobody listened on a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _own_namespace() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _call(name: str, *arguments: int) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _bring_up(interface: str) -> None:
    _set(interface, SIOCSIFFLAGS, struct.pack("H14x", IFF_UP_AND_RUNNING))


def _set(interface: str, request: int, value: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        fcntl.ioctl(link, request, struct.pack("16s16s8x", interface.encode(), value))


def _address(text: str) -> bytes:
    return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))
