"""The paths under `kai/`: a proxy of the service's API for pages, each handler authenticated and authorised.

Rule: no word is made here. The service's problem+json passes through, with `message` added for JupyterLab.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado import web

from kai_jupyter import calls
from kai_jupyter.errors import KaiRequestError, ServiceUnreachable, sentence_of
from kai_jupyter.relay import now_ms
from kai_jupyter.transport import problem_of
from scheduler_service.wire.codec import encode
from scheduler_service.wire.problem import Problem

if TYPE_CHECKING:
    import httpx

    from kai_jupyter.extension import KaiExtensionApp

AUTH_RESOURCE = "kai"
GROUP = r"pod-groups/(?P<namespace>[^/]+)/(?P<name>[^/]+)"
READS = ("pod-groups", "queues", "nodes", "cycles", "forecast", "me", "snapshot")
GROUP_READS = ("logs", "explain")
GROUP_WRITES = ("extend", "cancel", "move")
_PASSED_HEADERS = ("ETag", "Retry-After")
_LONG_POLL_S = 60.0
LONGEST_NOTICE = 500
IDEMPOTENCY_HEADER = "Idempotency-Key"


class KaiHandler(ExtensionHandlerMixin, APIHandler):
    """What all handlers share: the extension, its client, and how problems are written."""

    auth_resource = AUTH_RESOURCE

    @property
    def kai(self) -> KaiExtensionApp:
        """The extension of this server."""
        extension: KaiExtensionApp = self.settings["kai_extension"]
        return extension

    def prepare_write(self) -> None:
        """Refuse writes of guests in somebody's shared server."""
        owner = os.environ.get("JUPYTERHUB_USER")
        if owner and self.current_user.username != owner:
            raise web.HTTPError(
                403, reason="Only the person whose server this is may change requests"
            )

    async def relay_request(self, method: str, path: str, *, body: bytes | None = None) -> None:
        """Pass a request on to the service and its answer back."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if key := self.request.headers.get(IDEMPOTENCY_HEADER):
            headers[IDEMPOTENCY_HEADER] = key
        arguments = self.request.query_arguments
        params = [(name, item.decode()) for name, items in arguments.items() for item in items]
        try:
            answer = await self.kai.client.raw(
                method, path, params=params, content=body, headers=headers, timeout=_LONG_POLL_S
            )
        except (ServiceUnreachable, KaiRequestError) as error:
            self.finish_problem(away(error))
            return
        self._finish_answer(answer)

    def _finish_answer(self, answer: httpx.Response) -> None:
        if not answer.is_success:
            kind = answer.headers.get("content-type", "")
            self.finish_problem(problem_of(answer.status_code, kind, answer.content))
            return
        self.set_status(answer.status_code)
        for name in _PASSED_HEADERS:
            if name in answer.headers:
                self.set_header(name, answer.headers[name])
        kind = answer.headers.get("content-type", "application/json")
        self.finish(answer.content, set_content_type=kind)

    def finish_problem(self, problem: Problem) -> None:
        """Answer with a problem in words."""
        self.set_status(problem.status)
        told = {**encode(problem), "message": sentence_of(problem)}
        self.finish(json.dumps(told), set_content_type="application/problem+json")


def away(error: Exception) -> Problem:
    """Return the problem that says the service can not be reached (502)."""
    if isinstance(error, KaiRequestError):
        return error.problem
    return Problem(
        type="urn:kai:problem:service_unreachable",
        title="The queue does not answer.",
        status=502,
        detail=str(error),
        hint="",
        code="service_unreachable",
    )


class ReadHandler(KaiHandler):
    """`GET kai/<path>`."""

    def initialize(self, name: str, path: str = "") -> None:
        """Take the path of the service's API that this handler stands for."""
        super().initialize(name)
        self._path = path

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Pass the answer of the service on."""
        await self.relay_request("GET", f"{calls.API}/{self._path}")


class GroupsHandler(KaiHandler):
    """`GET` and `POST kai/pod-groups`."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List the groups."""
        await self.relay_request("GET", f"{calls.API}/pod-groups")

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Submit a group; a lease for a kernel of this server gets the kernel's process."""
        self.prepare_write()
        try:
            await self.kai.client.ensure_runner()
        except ServiceUnreachable as error:
            self.finish_problem(away(error))
            return
        body = self._completed(self.request.body)
        await self.relay_request("POST", f"{calls.API}/pod-groups", body=body)

    def _completed(self, body: bytes) -> bytes:
        try:
            ask: Any = json.loads(body)
        except ValueError:
            return body  # the service says what is wrong with it
        if not isinstance(ask, dict):
            return body
        return json.dumps(self.kai.kernels.with_process(ask)).encode()


class GroupHandler(KaiHandler):
    """`GET kai/pod-groups/{namespace}/{name}`, alone or with what hangs below it."""

    @web.authenticated
    @authorized
    async def get(self, namespace: str, name: str, tail: str = "") -> None:
        """Look at one group, its logs or its reasons."""
        if tail and tail not in GROUP_READS:
            raise web.HTTPError(405)
        await self.relay_request("GET", calls.group_path(namespace, name, *filter(None, [tail])))

    @web.authenticated
    @authorized
    async def post(self, namespace: str, name: str, tail: str = "") -> None:
        """Extend, cancel or move one group."""
        if tail not in GROUP_WRITES:
            raise web.HTTPError(405)
        self.prepare_write()
        body = self.request.body or b"{}"
        await self.relay_request("POST", calls.group_path(namespace, name, tail), body=body)


class KernelMoveHandler(KaiHandler):
    """`POST kai/kernels/{kernel_id}/move`: start a GPU kernel for the notebook of this one."""

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        """Start it with what the kernel holds; the page then puts it in the place of the old one."""
        self.prepare_write()
        if kernel_id not in self.kernel_manager:
            raise web.HTTPError(404, reason="There is no such kernel any more")
        name = (self.get_json_body() or {}).get("kernel_name")
        if not isinstance(name, str) or name not in self.kernel_spec_manager.find_kernel_specs():
            raise web.HTTPError(400, reason="Name a kernel that is installed here")
        try:
            started = await self.kai.moves.start(kernel_id, name)
        except (ServiceUnreachable, KaiRequestError) as error:
            self.finish_problem(away(error))
            return
        self.finish(json.dumps({"kernel_id": started}))


class NoticesHandler(KaiHandler):
    """`POST kai/notices`: a hub's culler warns the person whose server this is."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Tell every page of this server; only its own person and services of the hub may."""
        model = getattr(self.current_user, "hub_user", None) or {}
        if model.get("kind") != "service":
            self.prepare_write()
        text = (self.get_json_body() or {}).get("text")
        if not isinstance(text, str) or not 0 < len(text) <= LONGEST_NOTICE:
            raise web.HTTPError(400, reason=f"Send a text of at most {LONGEST_NOTICE} characters")
        notice = {"at": now_ms(), "kind": "idle", "namespace": "", "name": "", "text": text}
        self.kai.relay.tell({**notice, "facts": {}})
        self.set_status(204)


class HealthHandler(KaiHandler):
    """`GET kai/health`: whether this server hears the service."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Tell how the chain stands, without secrets."""
        self.finish(json.dumps(await self.kai.health()))


def handlers(stream_handler: type[Any]) -> list[tuple[Any, ...]]:
    """Return the routes, all under `kai/`."""
    tails = "|".join((*GROUP_READS, *GROUP_WRITES))
    reads: list[tuple[Any, ...]] = [
        (rf"/kai/{name}", ReadHandler, {"path": name}) for name in READS if name != "pod-groups"
    ]
    return [
        *reads,
        (r"/kai/pod-groups", GroupsHandler),
        (rf"/kai/{GROUP}", GroupHandler),
        (rf"/kai/{GROUP}/(?P<tail>{tails})", GroupHandler),
        (r"/kai/health", HealthHandler),
        (r"/kai/notices", NoticesHandler),
        (r"/kai/kernels/(?P<kernel_id>[\w-]+)/move", KernelMoveHandler),
        (r"/kai/stream", stream_handler),
    ]
