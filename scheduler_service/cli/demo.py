"""`kai serve --demo busy`: the settings of the demo, where the person chose none, and the people beside the service."""

from __future__ import annotations

import dataclasses
import getpass
from typing import TYPE_CHECKING

from scheduler_service.errors import ConfigurationError
from scheduler_service.settings.queue_file import FILE_NAME
from scheduler_service.simulate import busy

if TYPE_CHECKING:
    from scheduler_service.settings.table import Settings

QUEUES_NAME = "demo-queues.yaml"


def refuse_misplaced(settings: Settings) -> None:
    """Raise `ConfigurationError` for a demo among people who work."""
    if settings.demo and (settings.shared or settings.backend != "local"):
        raise ConfigurationError(
            "The demo is for one person on one machine.",
            why="Its other people are made up, and its GPUs simulated.",
            hint="Leave --demo out, or --shared and --backend.",
        )


def with_demo(settings: Settings) -> Settings:
    """Return the settings with the demo's GPUs and queues, where the person named none of their own."""
    if not settings.demo:
        return settings
    queues = settings.queues
    if queues is None and not (settings.state_dir / FILE_NAME).exists():
        queues = settings.state_dir / QUEUES_NAME
        queues.write_text(busy.queues_text(getpass.getuser()), "utf-8")
    return dataclasses.replace(
        settings, queues=queues, simulate_gpus=settings.simulate_gpus or busy.GPUS
    )
