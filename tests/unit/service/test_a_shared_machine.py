"""What the service does where several people share it, and where one person runs it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path

import pytest

from scheduler_service.model.reasons import NeverFits, NotEnoughOnNode
from scheduler_service.ports import NotAllowed
from scheduler_service.service.usage import DeviceUsage, ForeignUse
from scheduler_service.wire.pod_group import Process, Submit
from tests.fakes.bench_service import ANA, Stage
from tests.fakes.machine import own_process


def test_a_grant_that_no_runner_takes_is_withdrawn(tmp_path: Path) -> None:
    """When somebody asked, logged out, and the machine was restarted: their place is not kept for ever."""

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        began = stage.clock()
        await stage.ask(ANA, gpu=1, name="train")
        desk = stage.service.desk
        for wait_s, state in ((None, "Starting"), (301, "Starting"), (300, "Cancelled")):
            desk.unclaimed_s = wait_s
            stage.clock.now = began + 300_000
            desk.tick()
            assert (await stage.view(ANA, "train")).state == state
        ended = await stage.view(ANA, "train")
        assert "Log in to this machine and ask again." in ended.sentence

    asyncio.run(story())


def test_what_a_runner_took_is_not_withdrawn(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        stage.service.desk.unclaimed_s = 300
        await stage.ask(ANA, gpu=1, name="train")
        await stage.claim(ANA)
        stage.clock.pass_s(400)
        stage.service.desk.tick()
        assert (await stage.view(ANA, "train")).state == "Starting"

    asyncio.run(story())


def test_a_lease_is_held_by_a_process_of_its_owner(tmp_path: Path, monkeypatch) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        service = stage.service
        service.settings = dataclasses.replace(service.settings, shared=True)
        ask = Submit(kind="lease", gpu=0.5, process=own_process())
        monkeypatch.setattr("scheduler_service.service.writes.user_of", lambda _pid: "ben")
        with pytest.raises(NotAllowed, match=f"Process {os.getpid()} is not one of ana's"):
            await service.submit(ANA, ask, idempotency_key=None)
        monkeypatch.setattr("scheduler_service.service.writes.user_of", lambda _pid: "ana")
        view, _ = await service.submit(ANA, ask, idempotency_key=None)
        assert view.owner == "ana"
        assert isinstance(ask.process, Process)

    asyncio.run(story())


def test_use_without_a_lease_is_no_never(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        service = stage.service
        never = NeverFits("gpu", 2000, 1000)
        assert service.for_now(never) is never
        use = ForeignUse(0, 42, "ben", 100, stage.clock())
        service.usage.by_device = {"GPU-sim-0": DeviceUsage(100, 1, (use,), None)}
        now = service.for_now(never)
        assert isinstance(now, NotEnoughOnNode)
        assert str(now) == "Needs 2 GPUs on one node; node-0 has 1 GPU free."
        (line,) = service.foreign_lines()
        assert line.startswith("GPU 0 is used by ben without a lease (process 42, since ")
        assert line in (await service.health()).notes

    asyncio.run(story())
