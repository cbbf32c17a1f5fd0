"""The HTTP side of admission: reviews over TLS, health and metrics beside it without."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from scheduler_service.backends.kubernetes.admission.review import Answer, Request, read, written
from scheduler_service.backends.kubernetes.admission.rules import RULES, judge, wants
from scheduler_service.backends.kubernetes.admission.world import World
from scheduler_service.backends.kubernetes.errors import KubeError
from scheduler_service.errors import RequestError

log = logging.getLogger("kai.webhook")

LARGEST_REVIEW = 16 * 2**20
"""An object has at most 3 MiB or so, and an update carries two."""
TOKEN_BYTES = 4

Handler = Callable[[web.Request], Awaitable[web.Response]]


class Reviews:
    """Answers reviews. What can not be judged is no answer: then the failure policy of the configuration holds."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.registry = CollectorRegistry()
        self._answers = Counter(
            "kai_admission_reviews",
            "Requests to admission, by what they were about and how they ended.",
            ("rule", "outcome"),
            registry=self.registry,
        )

    def application(self) -> web.Application:
        """Return the application with one route a rule."""
        app = web.Application(client_max_size=LARGEST_REVIEW)
        app.add_routes([web.post(path, self._handler(path)) for path in RULES])
        return app

    def _handler(self, path: str) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            return await self._review(path, await request.read())

        return handle

    async def _review(self, path: str, body: bytes) -> web.Response:
        try:
            request = read(body)
            answer = await self.answer(path, request)
        except RequestError as error:
            return self._without_answer(path, 400, str(error))
        except KubeError as error:
            log.warning("%s can not be judged: %s", path, error)
            return self._without_answer(
                path, 503, f"What must be known for it could not be read: {error}"
            )
        self._answers.labels(path, "allowed" if answer.is_allowed else "refused").inc()
        if not answer.is_allowed:
            log.info(
                "refused: %s %s %s/%s of %s: %s",
                request.operation,
                request.kind,
                request.namespace,
                request.name,
                request.user,
                " ".join(answer.refusals),
            )
        return web.Response(body=written(request, answer), content_type="application/json")

    async def answer(self, path: str, request: Request) -> Answer:
        """Return the answer to one request."""
        options = self._world.options
        facts = await self._world.gather(wants(path, request, options), request.namespace)
        token = secrets.token_hex(TOKEN_BYTES)[:7]
        return judge(path, request, facts, options, token=token)

    def _without_answer(self, path: str, status: int, text: str) -> web.Response:
        self._answers.labels(path, "no answer").inc()
        return web.Response(status=status, text=text)


def health_application(reviews: Reviews, is_ready: Callable[[], bool]) -> web.Application:
    """Return what kubelet and Prometheus ask: alive, ready, numbers."""

    async def alive(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_request: web.Request) -> web.Response:
        if is_ready():
            return web.Response(text="ok")
        return web.Response(status=503, text="The queues or the certificate are not there yet.")

    async def metrics(_request: web.Request) -> web.Response:
        body = generate_latest(reviews.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    app = web.Application()
    app.add_routes(
        [web.get("/healthz", alive), web.get("/readyz", ready), web.get("/metrics", metrics)]
    )
    return app
