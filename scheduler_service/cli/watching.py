"""Waits with a view: a line that follows the request, then its output; Ctrl-C ends the looking only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import click

from scheduler_service.cli import output
from scheduler_service.cli.endings import FAILED, INTERRUPTED, OK, UNREACHABLE, Ends
from scheduler_service.wire.pod_group import TERMINAL_STATES

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.status import Status

    from kai_jupyter.client import KaiClient
    from scheduler_service.wire.pod_group import GroupState, PodGroupView
    from scheduler_service.wire.runner import LogLine

BEFORE_OUTPUT: frozenset[GroupState] = frozenset({"Waiting", "Starting", "Suspended"})
AWAY_TRIES = 30
AWAY_PAUSE_S = 1.0
PLAN_LOOKS = 20
PLAN_PAUSE_S = 0.05


def watch(client: KaiClient, view: PodGroupView, *, quiet: bool) -> PodGroupView:
    """Return the request once it has ended; meanwhile show how it stands and, unless `quiet`, what it prints."""
    with way_back(view):
        view = _wait_for_start(client, view)
        if not quiet:
            for line in _lines(client, view):
                print_line(line, is_gang=view.workers > 1)
        return _until_ended(client, view)


def planned(client: KaiClient, view: PodGroupView) -> PodGroupView:
    """Return the request once the first plan has looked at it, or as it is after a moment."""
    for _ in range(PLAN_LOOKS):
        if view.state != "Waiting" or view.position is not None:
            break
        time.sleep(PLAN_PAUSE_S)
        view = client.group(view.namespace, view.name)
    return view


def ending_code(view: PodGroupView) -> int:
    """Return the exit code that tells how a request ended."""
    return OK if view.state == "Succeeded" else FAILED


@contextmanager
def way_back(view: PodGroupView) -> Iterator[None]:
    """Turn Ctrl-C into a sentence: the request goes on, and this is how to return to it."""
    try:
        yield
    except KeyboardInterrupt:
        name = view.name
        raise Ends(
            INTERRUPTED,
            f"\n'{name}' goes on without this terminal. How it stands: kai status {name}. "
            f"Its output: kai logs -f {name}. To end it: kai cancel {name}.",
        ) from None


def print_line(line: LogLine, *, is_gang: bool) -> None:
    """Print a line of output where the worker printed it, with the rank in a gang."""
    prefix = f"[{line.rank}] " if is_gang else ""
    click.echo(prefix + line.text, err=line.stream == "stderr")


def _wait_for_start(client: KaiClient, view: PodGroupView) -> PodGroupView:
    with _progress() as status:
        for seen in changes(client, view):
            view = seen
            if seen.state not in BEFORE_OUTPUT:
                break
            _show(status, seen)
    return view


def _progress() -> AbstractContextManager[Status | None]:
    console = output.console(stderr=True)
    return console.status("Asking", spinner="dots") if console.is_terminal else nullcontext()


def _show(status: Status | None, view: PodGroupView) -> None:
    from rich.text import Text

    line = f"{view.name}: {output.whole_sentence(view)}"
    if status is None:
        click.echo(line, err=True)
    else:
        status.update(Text(line, style=output.STYLE_BY_TONE[view.tone]))


def changes(client: KaiClient, view: PodGroupView) -> Iterator[PodGroupView]:
    """Yield the request now and whenever it changes; a service that restarts is waited for."""
    last = -1
    away = 0
    while True:
        try:
            for event in client.events():
                away = 0
                for seen in event.groups:
                    if (seen.namespace, seen.name) == (
                        view.namespace,
                        view.name,
                    ) and seen.rev > last:
                        last = seen.rev
                        yield seen
        except _unreachable():
            away += 1
        if away > AWAY_TRIES:
            raise Ends(
                UNREACHABLE,
                f"The service is away. '{view.name}' is kept and goes on when it is back: kai serve.",
            )
        time.sleep(AWAY_PAUSE_S)


def _lines(client: KaiClient, view: PodGroupView) -> Iterator[LogLine]:
    after = 0
    away = 0
    while away <= AWAY_TRIES:
        try:
            page = client.logs(view.namespace, view.name, after=after, wait_s=15)
        except _unreachable():
            away += 1
            time.sleep(AWAY_PAUSE_S)
            continue
        away = 0
        yield from page.lines
        after = page.next
        if page.ended and not page.lines:
            return


def _until_ended(client: KaiClient, view: PodGroupView) -> PodGroupView:
    for seen in changes(client, view):
        view = seen
        if seen.state in TERMINAL_STATES:
            break
    return view


def _unreachable() -> type[Exception]:
    from kai_jupyter.errors import ServiceUnreachable

    return ServiceUnreachable
