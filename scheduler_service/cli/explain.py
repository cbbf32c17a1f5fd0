"""`kai explain`, `kai plan`, `kai snapshot`: why, and what next; for the running service or for a saved snapshot."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler_service.cli import amounts, output
from scheduler_service.cli.client import group_argument, key_of, service
from scheduler_service.cli.endings import Ends

if TYPE_CHECKING:
    from scheduler_service.simulate.commands import PolicyName
    from scheduler_service.wire.explain import ExplainView

existing_file = click.Path(exists=True, dir_okay=False, path_type=Path)
policy_option = click.option(
    "--policy",
    type=click.Choice(["conformance", "default"]),
    help="The rules to plan by; without it, those of the snapshot.",
)
snapshot_option = click.option(
    "--snapshot",
    "file",
    type=existing_file,
    help="A saved snapshot instead of the running service.",
)


@click.command()
@group_argument
@snapshot_option
@policy_option
@output.json_option
def explain(group: str, *, file: Path | None, policy: PolicyName | None, as_json: bool) -> None:
    """Say why a request waits: its position, what blocks it, what would help."""
    if file is not None:
        from scheduler_service.simulate import commands

        raise Ends(commands.explain_snapshot(group, file, policy=policy, as_json=as_json))
    with service() as client:
        view = client.explain(*key_of(client, group))
    output.print_json(view) if as_json else _print(view)


def _print(view: ExplainView) -> None:
    from rich.text import Text

    console = output.console()
    console.print(Text(view.headline))
    if view.position is not None:
        place = (
            f"Position {view.position} of {view.waiting_in_queue}, {view.overall} over all queues."
        )
        console.print(Text(place))
    table = output.table("", "", "what helps")
    for item in view.items:
        table.add_row(
            Text(item.title, style="bold"),
            Text(item.text),
            Text(item.action.label if item.action else ""),
        )
    if view.items:
        console.print(table)
    for action in view.would_help:
        line = f"  {action.label}" + (f": {action.eta_text}" if action.eta_text else "")
        console.print(Text(line))


@click.command()
@snapshot_option
@policy_option
@output.json_option
def plan(*, file: Path | None, policy: PolicyName | None, as_json: bool) -> None:
    """Show what the planner would do now, or for a saved snapshot."""
    from scheduler_service.simulate import commands

    with _snapshot_file(file) as found:
        raise Ends(commands.plan_snapshot(found, policy=policy, as_json=as_json))


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option(
    "--cycle",
    type=amounts.Whole(min=0),
    metavar="NUMBER",
    help="One of the last decisions with what it was made from, instead of what is now.",
)
def snapshot(file: Path | None, *, cycle: int | None) -> None:
    """Save the ledger, or one of the last decisions, as a file, or print it."""
    with service() as client:
        text = json.dumps(client.snapshot(cycle=cycle), indent=1)
    if file is None:
        click.echo(text)
        return
    file.write_text(text, "utf-8")
    again = f"kai plan --snapshot {file}" if cycle is None else f"kai replay {file}"
    click.echo(f"Saved in {file}. Plan it again: {again}.", err=True)


@contextmanager
def _snapshot_file(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    with service() as client:
        content = client.snapshot()
    with tempfile.TemporaryDirectory(prefix="kai-") as folder:
        file = Path(folder) / "snapshot.json"
        file.write_text(json.dumps(content), "utf-8")
        yield file
