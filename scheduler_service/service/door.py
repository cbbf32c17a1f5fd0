"""The door itself: all sides of the service in one object that keeps `ports.SchedulerPort`."""

from __future__ import annotations

import asyncio
from importlib import metadata
from typing import Self

from scheduler_service.agent.nvml import Nvml
from scheduler_service.backends.local import gpus
from scheduler_service.backends.local.foreign import ForeignRule, Holders
from scheduler_service.planning.cycle import plan
from scheduler_service.service.core import Parts
from scheduler_service.service.leading import Leading
from scheduler_service.service.no_companions import NoCompanions
from scheduler_service.service.outlook import Outlook
from scheduler_service.service.reads import Reads
from scheduler_service.service.runner_side import RunnerSide
from scheduler_service.service.running import Running
from scheduler_service.service.writes import Writes
from scheduler_service.settings.table import Settings

NAME = "kai-jupyter"


class Service(Outlook, Leading, Reads, Writes, RunnerSide, NoCompanions, Running):
    """Implements `ports.SchedulerPort`. Every method authorises its caller itself."""

    @classmethod
    async def open(cls, settings: Settings, *, version: str = "") -> Self:
        """Return the service of this machine, not yet started. A damaged state file is told in its health."""
        return await asyncio.to_thread(cls._open, settings, version or metadata.version(NAME))

    @classmethod
    def _open(cls, settings: Settings, version: str) -> Self:
        nvml = Nvml()

        def read(holders: Holders) -> gpus.Machine:
            rule = ForeignRule(settings.shared, holders)
            return gpus.local_node(nvml=nvml, simulate=settings.simulate_gpus, rule=rule)

        return cls(
            Parts(
                settings=settings,
                read_machine=read,
                read_devices=nvml.read,
                planner=plan,
                version=version,
            )
        )
