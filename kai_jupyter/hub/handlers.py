"""What the pages ask of the hub itself. Only reads that are kept for seconds, with time-outs of two seconds."""

from __future__ import annotations

import json
from typing import Any

from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.scopes import needs_scope
from tornado import web

from kai_jupyter.errors import UsageError
from kai_jupyter.hub.forecasts import Kept, Picture
from kai_jupyter.hub.forms import STATIC, button_of
from kai_jupyter.hub.options import NAMES, Chosen
from kai_jupyter.hub.spawning import KaiSpawning

_pictures: Kept[Picture] = Kept()
NOT_FOUND, CONFLICT, BAD_REQUEST = 404, 409, 400


class _OfServer(APIHandler):
    def server_of(self, user_name: str, server_name: str) -> KaiSpawning:
        """Return the spawner of a server; 404 where there is none of ours."""
        user = self.find_user(user_name)
        if user is None:
            raise web.HTTPError(NOT_FOUND)
        if server_name and server_name not in user.spawners:
            raise web.HTTPError(NOT_FOUND)
        spawner = user.spawners[server_name]
        if not isinstance(spawner, KaiSpawning):
            raise web.HTTPError(NOT_FOUND)
        return spawner


class ChoicesHandler(_OfServer):
    """When each choice would start."""

    @needs_scope("servers")
    async def get(self, user_name: str, server_name: str = "") -> None:
        """Give the picture of the start page, for the queue and priority of the query."""
        spawner = self.server_of(user_name, "")
        asked = {name: self.get_argument(name, "") for name in ("queue", "priority", "gpu_memory")}
        share = "memory" if asked["gpu_memory"] else "cpu"
        chosen = Chosen(share=share, **{name: value for name, value in asked.items() if value})
        key = (spawner.user.name, chosen)
        shown = await _pictures.get(key, lambda: spawner.kai_picture(chosen))
        self.set_header("Cache-Control", "no-store")
        buttons = {row.id: button_of(row.id) for row in shown.rows}
        self.write(json.dumps({**shown.as_json(), "buttons": buttons, "server": server_name}))


class ChooseHandler(_OfServer):
    """Another choice for a server that waits."""

    @needs_scope("servers")
    async def post(self, user_name: str, server_name: str = "") -> None:
        """Go on with another choice; the place of the first is given back."""
        body: Any = self.get_json_body() or {}
        if not isinstance(body, dict):
            raise web.HTTPError(BAD_REQUEST, "Send an object with the choice.")
        chosen = {name: str(body[name]) for name in NAMES if body.get(name)}
        spawner = self.server_of(user_name, server_name)
        try:
            is_taken = spawner.kai_choose(chosen)
        except UsageError as error:
            raise web.HTTPError(BAD_REQUEST, str(error)) from None
        if not is_taken:
            raise web.HTTPError(CONFLICT, "This server does not wait for a GPU any more.")
        self.set_status(202)


class StaticHandler(web.StaticFileHandler):
    """Style and script of our pages; nothing comes from anywhere else."""


def handlers() -> list[tuple[Any, ...]]:
    """Return the hub's extra handlers."""
    paths = (r"/([^/]+)", r"/([^/]+)/([^/]*)")
    return [
        *((rf"/api/kai/choices{path}", ChoicesHandler) for path in paths),
        *((rf"/api/kai/choose{path}", ChooseHandler) for path in paths),
        (r"/kai/static/(.*)", StaticHandler, {"path": str(STATIC)}),
    ]
