"""How commands reach the service: the client, and which request a word on the command line means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from scheduler_service.cli.endings import USAGE, Ends

if TYPE_CHECKING:
    from kai_jupyter.client import KaiClient

group_argument = click.argument("group", metavar="REQUEST")


@contextmanager
def service(*, start: bool = False) -> Iterator[KaiClient]:
    """Yield the client of the running service; with `start`, the embedded one is started where there is none."""
    from kai_jupyter.client import KaiClient

    with KaiClient(start=start) as client:
        yield client


def key_of(client: KaiClient, group: str) -> tuple[str, str]:
    """Return namespace and name of what the person wrote: "train" is one of theirs, "ana/train" anybody's."""
    namespace, slash, name = group.rpartition("/")
    if not name or (slash and not namespace) or "/" in namespace:
        raise Ends(
            USAGE, f"'{group}' names no request. Write NAME for one of yours, or OWNER/NAME."
        )
    return namespace or _own_namespace(client, name), name


def _own_namespace(client: KaiClient, name: str) -> str:
    """Return where a request of the caller's is: under their name on one machine, where they made it in a cluster."""
    from kai_jupyter.surroundings import CLUSTER

    if client.health().backend == CLUSTER:
        for view in client.groups(mine=True).items:
            if view.name == name:
                return view.namespace
    return client.me().user
