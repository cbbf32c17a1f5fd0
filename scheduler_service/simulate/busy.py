"""Other people for a demo: who they are, what each asks for, and how long it takes. Made up, and told so.

The same seed gives the same people, wishes and pauses, in the same order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from scheduler_service.wire.pod_group import Kind, Origin, Submit, Work

GPUS = "8x80GiB"
SEED = 7
MINUTE_S = 60
GRACE_S = 2
SIGNED_BY_NOBODY = "demo"
"""Nothing of theirs is ever executed, so no signature is checked."""
QUEUES = """\
# Of the demo. You ask in `default`; the others are made up.
queues:
  default: {gpu: {quota: 2, limit: 2}, show_names: true}
  vision: {gpu: {quota: 3}, show_names: true, subjects: [SUBJECTS_VISION]}
  language: {gpu: {quota: 3}, show_names: true, subjects: [SUBJECTS_LANGUAGE]}
"""


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody asks for now and then. Times in minutes of theirs, each drawn from between two bounds."""

    name: str
    kind: Kind
    gpu: str
    run: tuple[int, int]
    pause: tuple[int, int]
    workers: int = 1
    notebook: str | None = None


@dataclass(frozen=True, slots=True)
class Habit:
    """One made-up person."""

    user: str
    queue: str
    wishes: tuple[Wish, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """The next thing that somebody does: wait so long, then ask for this, which runs so long."""

    pause_s: float
    ask: Submit
    run_s: float


PEOPLE = (
    Habit("maya", "vision", (Wish("segment", "batch", "1", (20, 45), (1, 6)),)),
    Habit("jonas", "vision", (Wish("resnet", "gang", "1", (25, 50), (4, 12), workers=3),)),
    Habit("priya", "vision", (Wish("labels", "lease", "0.5", (15, 60), (3, 10), notebook="labels.ipynb"),)),
    Habit("luca", "vision", (Wish("sweep", "batch", "0.5", (5, 15), (0, 2)),)),
    Habit("mei", "language", (Wish("finetune", "gang", "1", (30, 60), (5, 15), workers=4),)),
    Habit("sofia", "language", (Wish("tokens", "lease", "0.25", (20, 40), (2, 8), notebook="tokens.ipynb"),)),
    Habit("omar", "language", (Wish("evaluate", "batch", "1", (8, 20), (1, 4)),)),
    Habit("tomas", "language", (Wish("prompts", "batch", "0.5", (5, 25), (0, 3)),)),
)  # fmt: skip


def people(visitor: str) -> tuple[Habit, ...]:
    """Return the made-up people; nobody of them has the visitor's own name."""
    return tuple(habit for habit in PEOPLE if habit.user != visitor)


def queues_text(visitor: str) -> str:
    """Return the queue file of the demo."""
    text = QUEUES
    for queue in ("vision", "language"):
        users = [f'"user:{habit.user}"' for habit in people(visitor) if habit.queue == queue]
        text = text.replace(f"SUBJECTS_{queue.upper()}", ", ".join(users))
    return text


def turns(habit: Habit, *, scale: float, seed: int = SEED) -> Iterator[Turn]:
    """Yield what somebody does, one thing after the other, for ever; `scale` times as fast as people are."""
    dice = random.Random(f"{seed} {habit.user}")  # noqa: S311 - not for secrets
    is_first = True
    while True:
        wish = dice.choice(habit.wishes)
        pause_s = 0.0 if is_first else dice.uniform(*wish.pause) * MINUTE_S / scale
        run_s = dice.uniform(*wish.run) * MINUTE_S / scale
        if is_first:  # they are all there when the visitor comes, at different points of their work
            run_s *= dice.uniform(0.2, 1.0)
        is_first = False
        yield Turn(pause_s, _ask(habit, wish, run_s), run_s)


def _ask(habit: Habit, wish: Wish, run_s: float) -> Submit:
    return Submit(
        kind=wish.kind,
        name=wish.name,
        queue=habit.queue,
        gpu=wish.gpu,
        workers=wish.workers,
        preemptible=True,
        declared_run_s=max(1, round(run_s)),
        grace_s=GRACE_S,
        work=Work(command=("demo",)),
        signature=SIGNED_BY_NOBODY,
        origin=Origin(notebook=wish.notebook),
    )
