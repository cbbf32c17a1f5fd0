"""`kai serve`: one service a state directory. It says where it listens, ends cleanly, and finds the one that runs."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any

import click

from scheduler_service.cli.demo import refuse_misplaced
from scheduler_service.settings.table import Settings, lines, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.decorators import FC


def _setting_options(command: FC) -> FC:
    """Add one option a setting; the table of settings is the only list there is."""
    for line in reversed(list(lines())):
        is_switch = line.default in {"True", "False"}
        names = f"{line.flag}/--no-{line.flag.removeprefix('--')}" if is_switch else line.flag
        default = f" [{line.variable}; default: {line.default or 'none'}]"
        option: Callable[[FC], FC] = click.option(
            names, line.name, default=None, help=line.help + default
        )
        command = option(command)
    return command


@click.command()
@_setting_options
def serve(**flags: Any) -> None:
    """Run the scheduler service of this machine, or (--backend kubernetes) of a cluster.

    Every option can also be a variable (in brackets) or a line of kai.yaml in the state directory.
    """
    settings = load(flags)
    refuse_misplaced(settings)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("kai").setLevel(logging.INFO)
    if settings.backend == "kubernetes":
        from scheduler_service.cli import serve_cluster

        asyncio.run(serve_cluster.run(settings))
        return
    from scheduler_service.cli import serve_shared, serving

    if settings.shared:
        serve_shared.refuse_unfit(settings)
    with serving.only_one(settings.state_dir) as running:
        if running is not None:
            click.echo(running)
            return
        asyncio.run((serve_shared if settings.shared else serving).run(settings))


__all__ = ["Settings", "serve"]
