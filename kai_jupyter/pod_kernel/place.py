"""A kernel's place in a cluster: the keys minted for it, what its pod is to run, its connection once it is there.

Rule: the keys travel as a payload that the kernel's own pod alone can fetch. Nothing of them is in an object of the
cluster, in a variable or in a page.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.finding import signing_key
from kai_jupyter.pod_kernel import protocol
from kai_jupyter.pod_kernel.process import PodProcess
from kai_jupyter.pod_kernel.protocol import Keys
from scheduler_service.wire.pod_group import PodGroupView, Work
from scheduler_service.wire.signing import sign_work

MODULE = "kai_jupyter.pod_kernel"
PAYLOAD = "{payload}"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - in the pod's own network
LOCAL = "127.0.0.1"


@dataclass
class PodPlace:
    """The pod of one kernel. `kernel` is its Jupyter kernel manager, whose connection this sets."""

    kernel: Any
    keep_s: int
    folder: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    signed: tuple[Work, str] | None = None
    process: PodProcess | None = None
    keys: Keys | None = None

    async def work(self, client: AsyncKaiClient) -> tuple[Work, str]:
        """Return what the pod is to run, signed; the keys rest with the service until the pod fetches them."""
        if self.signed is None:
            keys = self.keys = self.keys or Keys.mint(self.kernel.session.key)
            content = protocol.connection_file(
                keys, ip=EVERYWHERE, kernel_name=str(self.kernel.kernel_name)
            )
            stored = await client.upload_payload(content)
            self._write(content)
            work = Work(
                command=(
                    *("python", "-m", MODULE, PAYLOAD),
                    *("--keep-s", str(self.keep_s), "--"),
                    *self._kernel_command(),
                ),
                payload_sha256=stored.sha256,
                workdir=self.folder or None,
                env=self.environment,
            )
            self.signed = (work, sign_work(signing_key(), work))
        return self.signed

    def take_up(self, connection_file: str) -> bool:
        """Take the keys of a kernel that a server before this one asked for; False where they are lost."""
        try:
            content = Path(connection_file).read_bytes()
            self.keys = protocol.keys_of(content)
        except (OSError, ValueError, KeyError):
            return False
        self.kernel.connection_file = connection_file
        self._write(content)
        return True

    async def enter(self, view: PodGroupView) -> dict[str, Any]:
        """Wait for the kernel in the pod that was granted; return its connection.

        Raises `ConnectionError` where the pod is gone before it answered.
        """
        address = next((pod.address for pod in view.pods if pod.address), None)
        if address is None or self.keys is None:
            raise ConnectionError("The pod of this kernel has no address.")
        if self.process is None or self.process.address != address or self.process.is_lost:
            self.leave()
            self.process = PodProcess(address, self.keys)
        await self.process.attach()
        if self.process.poll() is not None:
            await self.process.start()
        return self._connected(address, self.keys)

    def leave(self) -> None:
        """Let go of the pod."""
        if self.process is not None:
            self.process.close()
            self.process = None

    def give_up(self) -> None:
        """Forget the keys and the address: the kernel starts here after all, or another pod is asked for."""
        self.leave()
        self.signed = self.keys = None
        kernel = self.kernel
        kernel.curve_publickey = kernel.curve_secretkey = None
        kernel.ip = LOCAL
        for name in protocol.PORT_NAMES:
            setattr(kernel, name, 0)
        kernel._connection_file_written = False  # noqa: SLF001 - Jupyter writes its own then
        with contextlib.suppress(OSError):
            Path(kernel.connection_file).unlink()

    def _kernel_command(self) -> list[str]:
        """Return the kernelspec's own command: where Python is in the pod is the image's business."""
        first, *rest = self.kernel.kernel_spec.argv
        is_python = Path(first).name.startswith("python")
        return ["python" if is_python else first, *rest]

    def _connected(self, address: str, keys: Keys) -> dict[str, Any]:
        kernel = self.kernel
        kernel.ip = address
        kernel.curve_publickey, kernel.curve_secretkey = keys.public, keys.secret
        kernel.session.key = keys.key
        for name, port in protocol.PORTS.items():
            setattr(kernel, name, port)
        name = str(kernel.kernel_name)
        self._write(protocol.connection_file(keys, ip=address, kernel_name=name))
        info: dict[str, Any] = kernel.get_connection_info()
        return info

    def _write(self, content: bytes) -> None:
        """Write the connection file for its owner only: a server that comes after this one reads the keys there."""
        path = Path(self.kernel.connection_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            path.unlink()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        self.kernel._connection_file_written = True  # noqa: SLF001 - as if Jupyter had: it goes with the kernel
