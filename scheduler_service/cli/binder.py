"""`kai binder`, `kai reserve`: what carries bind requests out, and what holds a GPU for those who share it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scheduler_service.cli.amounts import Whole

SHARING = "How a shared GPU is held: by a reservation pod, as KAI does; or by UUID where no device plug-in runs."
OF_PODS = "YAML that is laid over the spec of reservation pods."


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="How the cluster is reached; in a pod: by its service account. [KUBECONFIG]",
)
@click.option(
    "--sharing",
    type=click.Choice(["reservation", "registry"]),
    default="reservation",
    envvar="KAI_BINDER_SHARING",
    show_envvar=True,
    show_default=True,
    help=SHARING,
)
@click.option(
    "--workers",
    type=Whole(1, 1000),
    default=64,
    envvar="KAI_BINDER_WORKERS",
    show_envvar=True,
    show_default=True,
    help="How many requests are carried out at the same time.",
)
@click.option(
    "--reservation-image",
    default="",
    envvar="KAI_RESERVATION_IMAGE",
    show_envvar=True,
    help="Image of reservation pods: that of this program.",
)
@click.option(
    "--reservation-template",
    type=click.Path(path_type=Path),
    envvar="KAI_RESERVATION_TEMPLATE",
    show_envvar=True,
    help=OF_PODS,
)
@click.option(
    "--lease/--no-lease", default=True, help="Wait for the Lease, so that one replica works."
)
@click.option(
    "--lease-namespace",
    envvar="POD_NAMESPACE",
    show_envvar=True,
    default="",
    help="Where the Lease is; default: our own namespace.",
)
@click.option(
    "--listen",
    default="",
    envvar="KAI_BINDER_LISTEN",
    show_envvar=True,
    metavar="HOST:PORT",
    help="Where /healthz, /readyz and /metrics are served; default: nowhere.",
)
def binder(**flags: Any) -> None:
    """Carry out bind requests: reservations, volumes, claims, and the bind itself."""
    from scheduler_service.backends.kubernetes.binder.main import Flags, run

    run(Flags(**flags))


@click.command()
def reserve() -> None:
    """Hold the GPU of this reservation pod and tell its UUID."""
    import os

    from scheduler_service.backends.kubernetes.binder.reserve import run

    run(os.environ)
