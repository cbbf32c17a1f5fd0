"""`kai conformance`, `kai replay`, `kai simulate`: the planner against files, without any service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scheduler_service.cli import output
from scheduler_service.cli.amounts import DURATION, WHOLE, Whole
from scheduler_service.cli.endings import Ends
from scheduler_service.cli.explain import existing_file

if TYPE_CHECKING:
    from scheduler_service.simulate.commands import PolicyName


@click.command()
@click.argument(
    "places",
    metavar="DIR...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "--run", multiple=True, metavar="ACTION[,…]", help="Only scenarios that run these actions."
)
@click.option(
    "--tags", multiple=True, metavar="TAG[,…]", help="Only scenarios with one of these tags."
)
@click.option(
    "--without-tags", multiple=True, metavar="TAG[,…]", help="No scenarios with one of these tags."
)
@click.option(
    "--kinds", multiple=True, metavar="KIND[,…]", help="Only fair-share tables of these kinds."
)
@click.option(
    "--policy",
    type=click.Choice(["conformance", "default"]),
    default="conformance",
    show_default=True,
    help="The rules to plan by.",
)
@output.json_option
def conformance(
    places: tuple[Path, ...], *, policy: PolicyName, as_json: bool, **filters: tuple[str, ...]
) -> None:
    """Run scenarios and fair-share tables against the planner; exit 0 only if all pass."""
    from scheduler_service.simulate import commands
    from scheduler_service.simulate.conformance import Selection

    words = {name: commands.words_of(texts) for name, texts in filters.items()}
    raise Ends(
        commands.conformance(places, selection=Selection(**words), policy=policy, as_json=as_json)
    )


@click.command()
@click.argument("file", type=existing_file)
@output.json_option
def replay(file: Path, *, as_json: bool) -> None:
    """Plan a capture again and compare with what was decided then."""
    from scheduler_service.simulate import commands

    raise Ends(commands.replay(file, as_json=as_json))


@click.command()
@click.argument("file", type=existing_file)
@click.option(
    "--nodes",
    metavar="NODESxGPUS|FILE",
    help="The nodes of a trace, like 88x8 (default: 8x8), or a list of nodes as CSV.",
)
@click.option("--gpus", type=Whole(min=1), help="One pool of so many GPUs instead.")
@click.option(
    "--by-queue",
    is_flag=True,
    help="Queues of the trace share the GPUs evenly; without it all work is in one queue.",
)
@click.option("--seed", type=WHOLE, default=42, show_default=True, help="Order of a placement run.")
@click.option(
    "--until",
    "until_s",
    type=DURATION,
    metavar="TIME",
    help="Stop after so long of the trace's time, like 90m or 7d.",
)
@click.option("--limit", type=Whole(min=1), help="Only the first so many of a trace.")
@click.option(
    "--policy",
    type=click.Choice(["conformance", "default"]),
    default="default",
    show_default=True,
    help="The rules to plan by.",
)
@click.option(
    "--placement",
    type=click.Choice(["pack", "spread", "least_fragmentation"]),
    help="Where pods go, instead of what the policy says.",
)
@click.option(
    "--learn", is_flag=True, help="A placement run knows nothing of its mix of requests beforehand."
)
@click.option(
    "--chart",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw GPUs held, groups waiting and evictions into this SVG (or PNG) file.",
)
@output.json_option
def simulate(file: Path, *, chart: Path | None, as_json: bool, **wishes: Any) -> None:
    """Run a scenario, or a trace of work, under a virtual clock.

    A trace is YAML with pod groups that arrive and run for a time, a table (CSV, also gzipped) of
    submit_s, run_s, gpus, or a list of openb or Philly as it was published.
    """
    from scheduler_service.simulate.simulate_command import Wishes
    from scheduler_service.simulate.simulate_command import simulate as run

    raise Ends(run(file, Wishes(**wishes), chart_file=chart, as_json=as_json))
