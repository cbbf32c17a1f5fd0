"""`kai webhook` as a process: follows the facts, keeps its certificate fresh, answers until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from scheduler_service.backends.kubernetes.admission.certificates import (
    Authorities,
    Serving,
    serving_certificate,
)
from scheduler_service.backends.kubernetes.admission.keeping import (
    DEVICES_HOOK,
    Registration,
    SecretStore,
)
from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.server import Reviews, health_application
from scheduler_service.backends.kubernetes.admission.world import World
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import KubeError
from scheduler_service.errors import ConfigurationError

log = logging.getLogger("kai.webhook")

LOOK_AGAIN_S = 60.0
RETRY_S = 2.0
AsyncWork = Coroutine[Any, Any, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the webhook listens and under which names it is known."""

    host: str = "127.0.0.1"
    port: int = 9443
    health_port: int = 8080
    service: str = "admission"
    more_names: tuple[str, ...] = ()
    secret: str = "kai-admission-authority"  # noqa: S105 - a name
    mutating: str = "kai-admission"
    validating: str = "kai-admission"

    def host_names(self, namespace: str) -> tuple[str, ...]:
        """Return all names and addresses that the certificate must be good for."""
        base = f"{self.service}.{namespace}"
        return (f"{base}.svc", f"{base}.svc.cluster.local", base, self.service, *self.more_names)


class Webhook:
    """The process. `run` serves until `stop` is set; `on_listening` is told the ports when reviews are answered."""

    def __init__(
        self,
        client: KubeClient,
        options: Options,
        place: Place,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._options = options
        self._place = place
        self._clock = clock
        self._world = World(client, options)
        self._store = SecretStore(client, options.namespace, place.secret)
        self._registration = Registration(
            client, mutating=place.mutating, validating=place.validating
        )
        self._reviews = Reviews(self._world)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._serving: Serving | None = None
        self._signer = b""
        self._is_trusted = False

    async def run(
        self, stop: asyncio.Event, on_listening: Callable[[int, int], None] = lambda *_: None
    ) -> None:
        """Serve until told to end."""
        health = health_application(self._reviews, self._is_ready)
        async with (
            _background(self._world.run()) as world,
            _listening(health, self._place.host, self._place.health_port) as health_port,
        ):
            await _until_any(stop.wait(), self._until_able(), world)
            if stop.is_set():
                return
            app = self._reviews.application()
            async with (
                _background(self._keep()) as keep,
                _listening(app, self._place.host, self._place.port, self._context) as port,
            ):
                on_listening(port, health_port)
                log.info("answering on port %d", port)
                await _until_any(stop.wait(), world, keep)

    def _is_ready(self) -> bool:
        return self._world.is_ready and self._is_trusted

    async def _until_able(self) -> None:
        """Return when the queues are known and there is a certificate."""
        while True:
            if await self._refresh():
                break
            await asyncio.sleep(RETRY_S)
        await self._world.wait_ready()

    async def _keep(self) -> None:
        while True:
            pause = LOOK_AGAIN_S if self._is_trusted else RETRY_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause * (0.8 + random.random() * 0.4)):  # noqa: S311 - jitter
                    await self._world.config_changed.wait()
            self._world.config_changed.clear()
            await self._refresh()

    async def _refresh(self) -> bool:
        """Bring authority, certificate and configurations up to date; return whether there is a certificate."""
        now = self._clock()
        try:
            authorities = await self._store.advance(now)
            self._renew(authorities, now)
            self._is_trusted = await self._registration.keep(authorities.bundle(), self._asked())
        except KubeError as error:
            log.warning("The certificate could not be looked after: %s", error)
        return self._serving is not None

    def _asked(self) -> dict[str, bool]:
        """Return which webhooks are needed by what the cluster's owner says; nothing before that is known."""
        if not self._world.is_ready:
            return {}
        return {DEVICES_HOOK: self._world.options.block_visible_devices}

    def _renew(self, authorities: Authorities, now: datetime) -> None:
        signer = authorities.current
        known = self._serving
        if known is not None and now < known.renew_at and self._signer == signer.certificate:
            return
        names = self._place.host_names(self._options.namespace)
        self._serving = serving_certificate(signer, names, now)
        self._signer = signer.certificate
        _load(self._context, self._serving)
        log.info("serving with a new certificate, renewed at %s", self._serving.renew_at)


def _load(context: ssl.SSLContext, serving: Serving) -> None:
    """Load the certificate; OpenSSL reads files alone, so it goes through files of ours for a moment."""
    with tempfile.TemporaryDirectory(prefix="kai-tls-") as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(serving.certificate)
        key.touch(mode=0o600)
        key.write_bytes(serving.key)
        context.load_cert_chain(certificate, key)


async def _until_any(*parts: AsyncWork | asyncio.Task[object]) -> None:
    """Wait for the first that ends; what it raises is raised, so that nobody works on with a part that died."""
    tasks = [
        part if isinstance(part, asyncio.Task) else asyncio.ensure_future(part) for part in parts
    ]
    ours = [task for task, part in zip(tasks, parts, strict=True) if task is not part]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in ours:
            task.cancel()
        await asyncio.gather(*ours, return_exceptions=True)


@contextlib.asynccontextmanager
async def _background(work: AsyncWork) -> AsyncIterator[asyncio.Task[object]]:
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def _listening(
    app: web.Application, host: str, port: int, context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=context, reuse_address=True)
        try:
            await site.start()
        except OSError as error:
            raise ConfigurationError(
                f"Port {port} of {host} can not be listened on.",
                why=f"{error.strerror}.",
                hint="Choose another port.",
            ) from None
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
