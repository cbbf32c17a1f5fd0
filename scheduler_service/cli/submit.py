"""`kai submit --gpu 0.5 -n 4 -- COMMAND`: run a command on a share, signed with the person's own key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scheduler_service.cli import amounts, output, watching
from scheduler_service.cli.client import service
from scheduler_service.cli.endings import USAGE, Ends
from scheduler_service.wire.pod_group import PodGroupView, Submit, Work
from scheduler_service.wire.signing import KeyFileExposed, sign_work
from scheduler_service.words.notes import key_taken

if TYPE_CHECKING:
    from kai_jupyter.client import KaiClient


@click.command()
@amounts.request_options
@amounts.cluster_options
@click.option("--name", help="Its name; made up where it is missing.")
@click.option(
    "--min-members",
    type=amounts.WHOLE,
    help="Start as soon as so many workers fit; without it: all.",
)
@click.option(
    "--run-time",
    "declared_run_s",
    type=amounts.DURATION,
    help="About how long it runs; others see better times.",
)
@click.option("--for", "lease_s", type=amounts.DURATION, help="End it so long after it started.")
@click.option(
    "--max-wait",
    "max_wait_s",
    type=amounts.DURATION,
    help="Withdraw it if it has not started by then.",
)
@click.option(
    "--grace",
    "grace_s",
    type=amounts.DURATION,
    default=15,
    show_default=True,
    help="Seconds between SIGTERM and SIGKILL.",
)
@click.option(
    "--workdir",
    type=click.Path(file_okay=False),
    help="Where it runs; without it: here, in a cluster the pod's home.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Give it a variable, or pass one on.",
)
@click.option("-d", "--detach", is_flag=True, help="Return at once.")
@click.option(
    "--key", "idempotency_key", help="The same key again returns the first request again."
)
@output.json_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def submit(
    command: tuple[str, ...],
    *,
    detach: bool,
    idempotency_key: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Run COMMAND on a share of a GPU, or on several workers that start together.

    Follows it to its end. Ctrl-C leaves it queued or running and says how to come back.
    """
    env = _environment(asked.pop("variables"))
    _signature(
        Work(command=command)
    )  # a key that can not be used is told before anything is started
    with service(start=True) as client:
        ask = _request(client, command, env, asked)
        view = client.submit(ask, idempotency_key=idempotency_key)
        _tell_if_not_made(view)
        if detach:
            _tell(watching.planned(client, view), as_json=as_json)
            return
    with service() as client:
        view = watching.watch(client, view, quiet=as_json)
    _tell(view, as_json=as_json)
    raise Ends(watching.ending_code(view))


def _request(
    client: KaiClient, command: tuple[str, ...], env: dict[str, str], asked: dict[str, Any]
) -> Submit:
    """Return the signed request. In a cluster this folder is none of the pods', unless it was named."""
    from kai_jupyter.surroundings import CLUSTER, chosen, cluster_ask

    cluster, rest = chosen(asked)
    folder = rest.pop("workdir")
    if client.health().backend == CLUSTER:
        cluster = cluster_ask(cluster)
    else:
        folder = str(Path(folder or Path.cwd()).absolute())
    work = Work(command=command, workdir=folder, env=env)
    kind = amounts.kind_of_work(rest["workers"])
    return Submit(kind=kind, work=work, signature=_signature(work), cluster=cluster, **rest)


def _tell(view: PodGroupView, *, as_json: bool) -> None:
    if as_json:
        output.print_json(view)
    else:
        click.echo(f"{view.name}: {output.whole_sentence(view)}", err=True)


def _tell_if_not_made(view: PodGroupView) -> None:
    told = key_taken(view.name)
    if told in view.notes:
        click.echo(told, err=True)


def _environment(variables: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for variable in variables:
        name, is_given, value = variable.partition("=")
        if not name:
            raise Ends(
                USAGE,
                f"'{variable}' names no variable. Write --env NAME=VALUE, or --env NAME to pass one on.",
            )
        if not is_given and name not in os.environ:
            raise Ends(
                USAGE, f"There is no variable '{name}' here to pass on. Write --env {name}=VALUE."
            )
        found[name] = value if is_given else os.environ[name]
    return found


def _signature(work: Work) -> str:
    from kai_jupyter.errors import ServiceUnreachable
    from kai_jupyter.finding import signing_key

    try:
        return sign_work(signing_key(), work)
    except (KeyFileExposed, ServiceUnreachable) as error:
        raise Ends(USAGE, str(error)) from None
