"""The server extension: finds or starts the service in the background and lets pages speak to it.

Rule: starting a Jupyter server never waits for the service, and stopping one never stops it.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, ClassVar

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Integer, Unicode

from kai_jupyter._version import __version__
from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.errors import KaiJupyterError
from kai_jupyter.finding import Endpoint
from kai_jupyter.handlers import handlers
from kai_jupyter.kernel_host import (
    KernelHost,
    leave_waiting,
    serve,
    shut_down_at_once,
    spare_waiting,
)
from kai_jupyter.kernel_move import KernelMove
from kai_jupyter.kernel_return import KernelReturn
from kai_jupyter.kernels import KernelLeases
from kai_jupyter.relay import Group, Relay
from kai_jupyter.stream import StreamHandler
from scheduler_service.wire.codec import encode

EVENT_SCHEMA = "https://schema.kai.dev/jupyter/pod-group/v1"
SCHEMA_FILE = Path(__file__).parent / "event_schemas" / "pod_group.yaml"
RUNNER_LOOK_S = 30.0
"""Between two looks whether this person's runner is there."""


class KaiExtensionApp(ExtensionApp):
    """GPU shares, queue and gangs for the pages of this server."""

    name = "kai_jupyter"
    app_name = "KAI GPUs"
    extension_url = "/lab"
    load_other_extensions = True
    handlers: ClassVar[list[Any]] = []  # type: ignore[misc]

    service_url = Unicode(
        "",
        help=(
            "Address of the scheduler service. "
            "Empty: KAI_SERVICE_URL, this machine's socket, a running service, or a new one."
        ),
    ).tag(config=True)
    token_file = Unicode(
        "", help="File with the token for `service_url`. Never the token itself."
    ).tag(config=True)
    start_service = Bool(
        default_value=True,
        help="Start the embedded service when there is none. It outlives this server.",
    ).tag(config=True)
    pending_kernels = Bool(
        default_value=True,
        help="Let kernels wait in the queue: cells run meanwhile are kept and run when the GPU comes.",
    ).tag(config=True)

    encrypt_kernels = Bool(
        default_value=True,
        help="Encrypt the messages between this server and the kernels that can, unless the operator decided.",
    ).tag(config=True)

    keep_kernels_s = Integer(
        600,
        help=(
            "A GPU kernel goes on for so long after this server was killed, for the next one to take up. "
            "0: it ends with the server, as other kernels do."
        ),
    ).tag(config=True)

    client: AsyncKaiClient
    returns: KernelReturn
    moves: KernelMove
    relay: Relay
    kernels: KernelLeases

    @property
    def _server(self) -> Any:
        return self.serverapp

    def initialize_settings(self) -> None:
        """Make what handlers need."""
        self._tasks: list[asyncio.Task[None]] = []
        self.client = AsyncKaiClient(self._endpoint(), start=self.start_service)
        self.kernels = KernelLeases(self._server.kernel_manager, self.client, self.log)
        self.relay = Relay(self.client, on_transition=self._tell)
        self.settings["kai_extension"] = self
        self._server.event_logger.register_event_schema(SCHEMA_FILE)
        host = KernelHost(self.client, self.relay)
        serve(self._server.kernel_manager, host)
        self.moves = KernelMove(self._server, host, self.kernels)
        self.returns = KernelReturn(self._server, host, self.log, keep_s=self.keep_kernels_s)
        shut_down_at_once(self._server.kernel_manager)
        spare_waiting(self._server.kernel_manager)
        self._let_kernels_wait()
        self._encrypt_kernels()

    def _endpoint(self) -> Endpoint | None:
        if not self.service_url:
            return None
        token = Path(self.token_file).read_text("utf-8").strip() if self.token_file else ""
        return Endpoint(url=self.service_url.rstrip("/"), token=token)

    def _let_kernels_wait(self) -> None:
        """Switch pending kernels on, unless the operator decided; a JSON file in a `.d` folder cannot set traits."""
        manager = self._server.kernel_manager
        decided = "use_pending_kernels" in self._server.config.get(type(manager).__name__, {})
        if self.pending_kernels and not decided and manager.has_trait("use_pending_kernels"):
            manager.use_pending_kernels = True

    def _encrypt_kernels(self) -> None:
        """Let kernels speak CurveZMQ where they can; TCP on a machine with other people is not private."""
        config = self._server.kernel_manager.config
        if self.encrypt_kernels and "transport_encryption" not in config.get("KernelManager", {}):
            config.KernelManager.transport_encryption = "auto"

    def initialize_handlers(self) -> None:
        """Name the routes."""
        self.handlers.extend(handlers(StreamHandler))

    def _tell(self, group: Group, previous: str | None) -> None:
        """Put a change of state on the server's event bus."""
        self.kernels.see(group)
        if previous is None:
            return
        origin = group.get("origin") or {}
        self._server.event_logger.emit(
            schema_id=EVENT_SCHEMA,
            data={
                **{
                    name: group[name]
                    for name in ("namespace", "name", "kind", "queue", "state", "word", "sentence")
                },
                "previous_state": previous,
                "notebook": origin.get("notebook"),
                "kernel_id": origin.get("kernel_id"),
            },
        )

    async def health(self) -> dict[str, Any]:
        """Return how the chain stands: this extension, the stream, the service."""
        service = None
        text = self.relay.trouble
        if self.relay.is_connected:
            try:
                service = encode(await self.client.health())
            except KaiJupyterError as error:
                text = str(error)
        endpoint = self.client.endpoint
        return {
            "extension": __version__,
            "connected": self.relay.is_connected,
            "since": self.relay.known.heard_at,
            "text": text,
            "service": service,
            "pending_kernels": bool(
                getattr(self._server.kernel_manager, "use_pending_kernels", False)
            ),
            "url": None if endpoint is None else endpoint.socket or endpoint.url,
        }

    async def _start_jupyter_server_extension(self, _serverapp: Any) -> None:
        self._tasks = [
            asyncio.create_task(self.relay.run()),
            asyncio.create_task(self.kernels.run()),
            asyncio.create_task(self.returns.run()),
            asyncio.create_task(self._keep_runner()),
        ]

    async def _keep_runner(self) -> None:
        """Keep this person's runner alive, where the service is the machine's shared one."""
        while True:
            with contextlib.suppress(KaiJupyterError):  # the page is told by the stream
                await self.client.ensure_runner()
            await asyncio.sleep(RUNNER_LOOK_S)

    async def stop_extension(self) -> None:
        """Stop listening. The service and what it runs go on; kernels that wait keep their places."""
        await self.returns.note()
        leave_waiting(self._server.kernel_manager)
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.client.close()
