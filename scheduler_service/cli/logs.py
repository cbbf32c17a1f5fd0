"""`kai logs [-f] REQUEST`: what a request printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scheduler_service.cli import amounts, output
from scheduler_service.cli.client import group_argument, key_of, service
from scheduler_service.cli.watching import pages, print_line, way_back

if TYPE_CHECKING:
    from kai_jupyter.client import KaiClient
    from scheduler_service.wire.pod_group import PodGroupView
    from scheduler_service.wire.runner import LogPage


@click.command()
@group_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until it ends.")
@click.option("--rank", type=amounts.Whole(min=0), help="Only this worker.")
@click.option("--tail", type=amounts.Whole(min=1), help="Only the last so many lines.")
@output.json_option
def logs(group: str, *, follow: bool, rank: int | None, tail: int | None, as_json: bool) -> None:
    """Show what a request printed."""
    with service() as client:
        key = key_of(client, group)
        view = client.group(*key)
        page = client.logs(*key, rank=rank, tail=tail)
        if as_json and not follow:
            output.print_json(page)
            return
        with way_back(view):
            _print_page(page, is_gang=view.workers > 1, as_json=as_json)
            if follow:
                _follow(client, view, rank, page, as_json=as_json)


def _follow(
    client: KaiClient, view: PodGroupView, rank: int | None, page: LogPage, *, as_json: bool
) -> None:
    dropped = page.dropped
    for later in pages(client, view, rank=rank, after=page.next):
        _print_page(later, is_gang=view.workers > 1, as_json=as_json, told=dropped)
        dropped = later.dropped


def _print_page(page: LogPage, *, is_gang: bool, as_json: bool, told: int = 0) -> None:
    """Print the lines, and how many could not be kept where that is not the number that was told before."""
    for line in page.lines:
        if as_json:
            output.print_json_line(line)
        else:
            print_line(line, is_gang=is_gang)
    if page.dropped > told and not as_json:
        click.echo(f"({page.dropped} lines could not be kept)", err=True)
