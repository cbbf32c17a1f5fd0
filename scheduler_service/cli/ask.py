"""`kai forecast`, `kai cancel`, `kai extend`: ask before asking, and change what was asked."""

from __future__ import annotations

from typing import Any

import click

from scheduler_service.cli import amounts, output
from scheduler_service.cli.client import group_argument, key_of, service
from scheduler_service.cli.endings import DECLINED, USAGE, Ends


@click.command()
@amounts.request_options
@click.option(
    "--lease",
    "is_lease",
    is_flag=True,
    help="For a notebook that asks with %gpu; without it: for a command of kai submit.",
)
@output.json_option
def forecast(*, is_lease: bool, as_json: bool, **asked: Any) -> None:
    """Say when a request would start if you made it now.

    The answer is for `kai submit` with the same options, or with --lease for `%gpu` in a notebook, which goes first.
    """
    workers = asked["workers"]
    if is_lease and workers > 1:
        raise Ends(
            USAGE, f"A notebook asks for one worker, not {workers}. Leave out --lease or -n."
        )
    kind = "lease" if is_lease else amounts.kind_of_work(workers)
    with service(start=True) as client:
        view = client.forecast(kind=kind, **asked)
    if as_json:
        output.print_json(view)
    else:
        click.echo(view.text)
    if view.verdict == "never":
        raise Ends(DECLINED)


@click.command()
@click.argument("groups", metavar="REQUEST...", nargs=-1, required=True)
@click.option(
    "--grace", "grace_s", type=amounts.DURATION, help="Time between SIGTERM and SIGKILL, like 15s."
)
@click.option("--reason", default="", help="Kept in the history.")
@output.json_option
def cancel(groups: tuple[str, ...], *, grace_s: int | None, reason: str, as_json: bool) -> None:
    """End or withdraw requests."""
    with service() as client:
        views = [
            client.cancel(*key_of(client, group), grace_s=grace_s, reason=reason)
            for group in groups
        ]
    if as_json:
        output.print_json(views)
        return
    for view in views:
        click.echo(f"{view.name}: {view.sentence}")


@click.command()
@group_argument
@click.option(
    "--by",
    "by_s",
    type=amounts.DURATION,
    help="How much longer, like 30m; without it: until you release it.",
)
@output.json_option
def extend(group: str, *, by_s: int | None, as_json: bool) -> None:
    """Lengthen a lease."""
    with service() as client:
        view = client.extend(*key_of(client, group), by_s=by_s)
    if as_json:
        output.print_json(view)
    else:
        click.echo(f"{view.name}: {view.sentence}")
