"""The WebSocket `kai/stream`: how things stand, then what changes, for one page."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado import web, websocket

from kai_jupyter.handlers import AUTH_RESOURCE
from kai_jupyter.relay import Message, Subscription, now_ms

if TYPE_CHECKING:
    from kai_jupyter.extension import KaiExtensionApp

BEAT_S = 20.0


class StreamHandler(ExtensionHandlerMixin, JupyterHandler, websocket.WebSocketHandler):
    """One page that listens."""

    auth_resource = AUTH_RESOURCE
    _page: Subscription | None = None
    _writer: asyncio.Task[None] | None = None

    @property
    def kai(self) -> KaiExtensionApp:
        """The extension of this server."""
        extension: KaiExtensionApp = self.settings["kai_extension"]
        return extension

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Open the socket for those who may look."""
        user = self.current_user
        if not await ensure_async(self.authorizer.is_authorized(self, user, "read", AUTH_RESOURCE)):
            raise web.HTTPError(403)
        opened = super().get(*args, **kwargs)
        if opened is not None:
            await opened

    def open(self, *_args: str, **_kwargs: str) -> None:
        """Begin to send."""
        self.set_nodelay(True)
        self._page = self.kai.relay.subscribe()
        self._writer = asyncio.create_task(self._write(self._page))

    async def _write(self, page: Subscription) -> None:
        with contextlib.suppress(websocket.WebSocketClosedError):
            while True:
                await self.write_message(json.dumps(await self._next(page)))

    async def _next(self, page: Subscription) -> Message:
        try:
            return await asyncio.wait_for(page.next(), BEAT_S)
        except TimeoutError:
            return {"kind": "beat", "now": now_ms()}

    def on_message(self, message: str | bytes) -> None:
        """Obey the page: pause while hidden, resume, retry. Anything else is ignored."""
        try:
            kind = json.loads(message).get("kind")
        except (ValueError, AttributeError):
            return
        if self._page is None:
            return
        if kind == "pause":
            self._page.pause()
        elif kind == "resume":
            self._page.resume()
        elif kind == "retry":
            self.kai.relay.retry()

    def on_close(self) -> None:
        """Let go of the page."""
        if self._page is not None:
            self.kai.relay.unsubscribe(self._page)
        if self._writer is not None:
            self._writer.cancel()
