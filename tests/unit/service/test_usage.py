"""What devices do: shown as it is, idle told only where it is measured and long enough."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from scheduler_service.agent.nvml import Devices, GpuProcess, GpuState, Trouble
from scheduler_service.service.usage import Usage
from tests.fakes.bench_service import ANA, Stage


def state(busy: int | None, *, used: int | None = 100) -> GpuState:
    return GpuState(
        uuid="GPU-sim-0",
        index=0,
        name="x",
        memory_mib=24576,
        used_mib=used,
        utilisation_percent=busy,
        is_mig=False,
        processes=(GpuProcess(os.getpid(), 100),),
    )


def test_a_lease_whose_device_does_nothing_is_idle(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="lease", gpu=0.5)
        await stage.start()
        usage = stage.service.usage
        usage.look(Devices("", (state(40),)), stage.clock())
        stage.clock.pass_s(840)
        usage.look(Devices("", (state(0),)), stage.clock())
        assert (await stage.view(ANA, "lease")).word == "Granted"
        stage.clock.pass_s(60)
        usage.look(Devices("", (state(0),)), stage.clock())
        idle = await stage.view(ANA, "lease")
        assert (idle.word, idle.tone, idle.icon) == ("Idle 15 min", "wait", "moon")
        usage.look(Devices("", (state(1),)), stage.clock())
        assert (await stage.view(ANA, "lease")).word == "Granted"
        (node,) = await stage.service.nodes(ANA)
        assert (node.devices[0].busy_percent, node.devices[0].used_mib) == (1, 100)
        assert node.devices[0].foreign_pids == ()

    asyncio.run(story())


def test_nothing_is_claimed_of_devices_that_do_not_tell(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="lease", gpu=0.5)
        await stage.start()
        stage.service.usage.look(Devices("", (state(None),)), stage.clock())
        stage.clock.pass_s(9000)
        assert (await stage.view(ANA, "lease")).word == "Granted"

    asyncio.run(story())


def test_trouble_forgets_what_was_known() -> None:
    usage = Usage()
    assert usage.look(Devices("", (state(5),)), 1)
    assert not usage.look(Devices("", (state(5),)), 1)
    assert usage.look(Trouble("failed", "gone"), 2)
    assert usage.by_device == {}
