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
    from scheduler_service.wire.runner import LogLine, LogPage

BEFORE_OUTPUT: frozenset[GroupState] = frozenset({"Waiting", "Starting", "Suspended"})
AWAY_TRIES = 30
AWAY_PAUSE_S = 1.0
PAGE_WAIT_S = 15.0
PLAN_LOOKS = 20
PLAN_PAUSE_S = 0.05


def watch(client: KaiClient, view: PodGroupView, *, quiet: bool) -> PodGroupView:
    """Return the request once it has ended; meanwhile show how it stands and, unless `quiet`, what it prints."""
    with way_back(view):
        view = _wait_for_start(client, view)
        if not quiet:
            for page in pages(client, view):
                for line in page.lines:
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
    away = _Away(view)
    while True:
        try:
            for event in client.events():
                away.is_back()
                for seen in event.groups:
                    if (seen.namespace, seen.name) == (
                        view.namespace,
                        view.name,
                    ) and seen.rev > last:
                        last = seen.rev
                        yield seen
        except _unreachable():
            away.pause()
        else:
            time.sleep(AWAY_PAUSE_S)


def pages(
    client: KaiClient, view: PodGroupView, *, rank: int | None = None, after: int = 0
) -> Iterator[LogPage]:
    """Yield what the request prints until it has ended, no line twice; a service that restarts is waited for."""
    away = _Away(view)
    while True:
        try:
            page = client.logs(
                view.namespace, view.name, rank=rank, after=after, wait_s=PAGE_WAIT_S
            )
        except _unreachable():
            away.pause()
            continue
        away.is_back()
        yield page
        after = page.next
        if page.ended and not page.lines:
            return


def _until_ended(client: KaiClient, view: PodGroupView) -> PodGroupView:
    for seen in changes(client, view):
        view = seen
        if seen.state in TERMINAL_STATES:
            break
    return view


class _Away:
    """How often in a row the service did not answer."""

    def __init__(self, view: PodGroupView) -> None:
        self._name = view.name
        self._tries = 0

    def is_back(self) -> None:
        """Count from the start again."""
        self._tries = 0

    def pause(self) -> None:
        """Return when it is time to try again; raises `Ends` once that is no use."""
        self._tries += 1
        if self._tries > AWAY_TRIES:
            raise Ends(
                UNREACHABLE,
                f"The service is away. '{self._name}' is kept and goes on when it is back: kai serve.",
            )
        time.sleep(AWAY_PAUSE_S)


def _unreachable() -> type[Exception]:
    from kai_jupyter.errors import ServiceUnreachable

    return ServiceUnreachable
