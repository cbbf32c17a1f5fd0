"""`kai serve --shared`: one service for everybody on a machine, under an account that can do nothing else.

It listens on a Unix socket, where the kernel says who calls. It starts no process of anybody's: each person's runner
does, as that person.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING

import click

from scheduler_service.api.app import create_app
from scheduler_service.api.machine_socket import HOSTS, PeerProtocol, listen_at
from scheduler_service.api.peers import SIGN_IN, PeerAuthenticator
from scheduler_service.api.server import serve
from scheduler_service.cli.output import version
from scheduler_service.cli.serving import refuse_missing
from scheduler_service.errors import ConfigurationError

if TYPE_CHECKING:
    from scheduler_service.settings.table import Settings

log = logging.getLogger("kai.serve")
ROOT = 0


def refuse_unfit(settings: Settings) -> None:
    """Raise `ConfigurationError` where the shared service would hold more power, or less, than it needs."""
    if os.geteuid() == ROOT:
        raise ConfigurationError(
            "The shared service does not run as root.",
            why="It needs no rights: each person's processes are started by that person's own runner.",
            hint="Let the unit deploy/systemd/kai.service start it under the account 'kai', or use 'sudo -u kai'.",
        )
    if settings.embedded or settings.backend != "local":
        other = "--embedded" if settings.embedded else f"--backend {settings.backend}"
        raise ConfigurationError(
            f"--shared and {other} exclude each other.",
            why="A shared service is for everybody on this machine and stays.",
            hint="Leave one of them out.",
        )


async def run(settings: Settings) -> None:
    """Serve until a signal."""
    from scheduler_service.service import Service

    refuse_missing(settings.queues)
    listening = listen_at(settings.socket)
    service = await Service.open(settings, version=version())
    await service.start()
    try:
        peers = PeerAuthenticator(
            queues=lambda: service.queue_source.config, admin_group=settings.admin_group
        )
        app = create_app(
            service,
            [peers],
            hosts=HOSTS,
            payload_limit_bytes=settings.payload_limit_mib << 20,
            result_limit_bytes=settings.result_limit_mib << 20,
            version=version(),
        )
        app.state.sign_in = SIGN_IN
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(
            app,
            listening,
            stop=stop,
            on_listening=lambda: _announce(settings),
            protocol=PeerProtocol,
        )
    finally:
        await service.stop()
    log.info("ended")


def _announce(settings: Settings) -> None:
    click.echo(
        f"kai {version()} listens at {settings.socket} for everybody on this machine, state in {settings.state_dir}."
    )
