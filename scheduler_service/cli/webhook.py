"""`kai webhook`: what may enter the cluster."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Any

import click

from scheduler_service.backends.kubernetes import names
from scheduler_service.cli.amounts import Whole

PORT = Whole(0, 2**16 - 1)


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="How the cluster is reached; in a pod: by its service account. [KUBECONFIG]",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    envvar="KAI_WEBHOOK_HOST",
    help="Address to listen on.",
)
@click.option(
    "--port",
    type=PORT,
    default=9443,
    show_default=True,
    envvar="KAI_WEBHOOK_PORT",
    help="Port of the reviews, with TLS; 0 = a free one.",
)
@click.option(
    "--health-port",
    type=PORT,
    default=8080,
    show_default=True,
    envvar="KAI_WEBHOOK_HEALTH_PORT",
    help="Port of /healthz, /readyz and /metrics; 0 = a free one.",
)
@click.option(
    "--namespace",
    default=names.NAMESPACE,
    show_default=True,
    envvar="POD_NAMESPACE",
    help="Where our own accounts and the Secret of the certificate are.",
)
@click.option(
    "--service",
    default="admission",
    show_default=True,
    envvar="KAI_WEBHOOK_SERVICE",
    help="The Service by which the API server finds this webhook.",
)
@click.option(
    "--name",
    "more_names",
    multiple=True,
    help="Another host name or address that the certificate is good for. Repeatable.",
)
@click.option(
    "--configuration",
    default="kai-admission",
    show_default=True,
    envvar="KAI_WEBHOOK_CONFIGURATION",
    help="Name of the mutating and of the validating webhook configuration.",
)
@click.option(
    "--scheduler-name",
    default=names.SCHEDULER_NAME,
    show_default=True,
    envvar="KAI_SCHEDULER_NAME",
    help="Whose pods are judged.",
)
@click.option(
    "--trusted",
    multiple=True,
    envvar="KAI_WEBHOOK_TRUSTED",
    help="A user whose pods belong to what others wrote, like an operator's service account. Repeatable.",
)
@click.option(
    "--gpu-sharing/--no-gpu-sharing",
    default=True,
    show_default=True,
    envvar="KAI_WEBHOOK_GPU_SHARING",
    help="Whether shares of GPUs may be asked for; kai-config may say otherwise.",
)
@click.option(
    "--strict-queues/--no-strict-queues",
    default=False,
    show_default=True,
    envvar="KAI_WEBHOOK_STRICT_QUEUES",
    help="Refuse a queue without its parent and the deletion of one with queues below it.",
)
def webhook(**flags: Any) -> None:
    """Judge pods, workloads, queues and pod groups before they are stored."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("kai").setLevel(logging.INFO)
    asyncio.run(_run(**flags))


async def _run(kubeconfig: Path | None, **flags: Any) -> None:
    from scheduler_service.backends.kubernetes.admission.options import Options
    from scheduler_service.backends.kubernetes.admission.process import Place, Webhook
    from scheduler_service.backends.kubernetes.client import Access, KubeClient, Retries

    options = Options(
        scheduler_name=flags["scheduler_name"],
        namespace=flags["namespace"],
        gpu_sharing=flags["gpu_sharing"],
        strict_queues=flags["strict_queues"],
        trusted=frozenset(flags["trusted"]),
    )
    place = Place(
        host=flags["host"],
        port=flags["port"],
        health_port=flags["health_port"],
        service=flags["service"],
        more_names=flags["more_names"],
        mutating=flags["configuration"],
        validating=flags["configuration"],
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # A review is answered within seconds or not at all: no patience with the API here.
    patience = Retries(tries=3, first_s=0.1, longest_s=1.0)
    async with KubeClient(Access.load(kubeconfig), retries=patience, timeout_s=5.0) as client:
        await Webhook(client, options, place).run(stop, _announce)


def _announce(port: int, health_port: int) -> None:
    """Say where reviews are answered; whoever started us with port 0 reads it."""
    click.echo(f"listening on {port}, health on {health_port}")
