"""What commands print: tables for people, JSON for programs, times and amounts in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from scheduler_service.wire.codec import encode

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from scheduler_service.wire.cluster import Amounts
    from scheduler_service.wire.pod_group import PodGroupView, Tone

STYLE_BY_TONE: dict[Tone, str] = {
    "mute": "dim",
    "wait": "yellow",
    "run": "blue",
    "ok": "green",
    "stop": "red",
}
WIDE = 160
"""Columns when nobody looks (a pipe): no line is cut that a program may want to find whole."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def version() -> str:
    """Return the version of this distribution."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("kai-jupyter")
    except PackageNotFoundError:
        return "0+unknown"


def console(*, stderr: bool = False) -> Console:
    """Return where tables and progress go."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else WIDE
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


def print_json(value: object) -> None:
    """Print a wire value, or a list of them, as JSON."""
    click.echo(json.dumps(_plain(value), indent=2, ensure_ascii=False))


def _plain(value: object) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return encode(value)


def table(*columns: str) -> Table:
    """Return an empty table with these columns; "#name" is a number."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE, pad_edge=False, show_edge=False)
    for column in columns:
        is_number = column.startswith("#")
        made.add_column(
            column.removeprefix("#"),
            justify="right" if is_number else "left",
            overflow="fold",
            no_wrap=is_number,
        )
    return made


def group_table(groups: Sequence[PodGroupView]) -> Table:
    """Return requests as a table, in the service's words."""
    from rich.text import Text

    made = table("request", "what", "queue", "state", "", "#age")
    for view in groups:
        made.add_row(
            Text(f"{view.namespace}/{view.name}" if not view.mine else view.name),
            Text(what(view)),
            Text(view.queue),
            Text(view.word, style=STYLE_BY_TONE[view.tone]),
            Text(" ".join(part for part in (view.headline, view.detail) if part)),
            Text(age(view.created_at, view.ended_at)),
        )
    return made


def whole_sentence(view: PodGroupView) -> str:
    """Return the request's sentence; a reason that is cut to fit a card stands here in full."""
    cut = view.detail.removesuffix("…")
    if cut == view.detail:
        return view.sentence
    reasons = (pod.reason.text for pod in view.pods if pod.reason is not None)
    whole = next((text for text in reasons if text.startswith(cut)), None)
    return view.sentence if whole is None else f"{view.headline} {whole}"


def what(view: PodGroupView) -> str:
    """Return what a request asks for: "0.5 GPU", or for a gang with the number of workers before it."""
    return view.request.text if view.workers == 1 else f"{view.workers} \u00d7 {view.request.text}"


def age(start: int, end: int | None) -> str:
    """Return how long something lasts or lasted, from ms since the epoch."""
    import time

    return duration(((end if end is not None else int(time.time() * 1000)) - start) // 1000)


def duration(seconds: int) -> str:
    """Return a duration in its largest unit: "40 s", "12 min", "3 h", "5 d"."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{max(0, seconds)} s"


def gpus(amounts: Amounts) -> str:
    """Return the GPUs of `amounts`: "7.5", "∞" where there is no end."""
    return "∞" if amounts.milli_gpu is None else f"{amounts.milli_gpu / 1000:g}"


def print_json_line(value: object) -> None:
    """Print a wire value as one line of JSON."""
    click.echo(json.dumps(_plain(value), ensure_ascii=False))
