"""Amounts on the command line: durations, and the options that say how much is asked for (the service judges them)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from scheduler_service.settings.numbers import Unfit, whole
from scheduler_service.wire.pod_group import WORKLOADS

if TYPE_CHECKING:
    from scheduler_service.wire.pod_group import Kind

F = TypeVar("F", bound=Callable[..., object])

_SECONDS_BY_UNIT = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|)")
MAX_DURATION_S = 10 * 365 * 86400


class Duration(click.ParamType[int]):
    """A duration like 90s, 30m, 2h or 1d, in seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return whole seconds."""
        if isinstance(value, int):
            return value
        match = _DURATION.fullmatch(str(value).strip())
        seconds = round(float(match[1]) * _SECONDS_BY_UNIT[match[2]]) if match else -1
        if not 0 <= seconds <= MAX_DURATION_S:
            self.fail(f"'{value}' is not a duration. Write it like 90s, 30m, 2h or 1d.", param, ctx)
        return seconds


DURATION = Duration()


class Whole(click.IntRange):
    """A whole number in its bounds, if it has any."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number."""
        least, most = (None if end is None else int(end) for end in (self.min, self.max))
        try:
            return whole(str(value), least, most)
        except Unfit as error:
            self.fail(str(error), param, ctx)


WHOLE = Whole()

_OPTIONS = (
    click.option("--gpu", help="GPUs of each worker: 0.5, 1, 2. Fractions below 1 share a GPU."),
    click.option("--gpu-memory", help="Or its GPU memory: 8GiB."),
    click.option(
        "--devices", type=WHOLE, default=1, help="Take the part from so many different GPUs."
    ),
    click.option("--cpu", help="Cores of each worker: 2 or 500m. Without it: not limited."),
    click.option("--memory", help="Memory of each worker: 4GiB."),
    click.option("-n", "--workers", type=WHOLE, default=1, help="Workers, which start together."),
    click.option("--queue", help="The queue to ask in."),
    click.option("--priority", type=WHOLE, help="Higher goes first inside the queue."),
    click.option(
        "--preemptible/--not-preemptible",
        default=None,
        help="Whether it may be taken back for others.",
    ),
)


_IN_A_CLUSTER = (
    click.option(
        "--as",
        "workload",
        type=click.Choice([*WORKLOADS], case_sensitive=False),
        help="In a cluster: what is made of it; job = a pod, or a Job for several workers.",
    ),
    click.option("--profile", help="In a cluster: a named choice of its keeper."),
    click.option("--image", help="In a cluster: the image of the pods."),
    click.option("--folder", help="In a cluster: the volume claim that is the pods' home."),
    click.option("--namespace", help="In a cluster: where the pods are made."),
)


def cluster_options(command: F) -> F:
    """Add the options that choose what is made in a cluster."""
    for option in reversed(_IN_A_CLUSTER):
        command = option(command)
    return command


def kind_of_work(workers: int) -> Kind:
    """Return what a command is asked for as; its usual priority goes with it."""
    return "gang" if workers > 1 else "batch"


def request_options(command: F) -> F:
    """Add the options that say how much is asked for."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
