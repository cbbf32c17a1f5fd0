"""A lease that a whole kernel starts with: it waits with its Jupyter server, and keeps its place while that is away."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from scheduler_service.wire.locate import start_ticks
from scheduler_service.wire.pod_group import Cancel, Kind, Move, Origin, Process
from tests.fakes.bench_service import ANA, ROOT, Stage
from tests.fakes.machine import own_process

KERNEL = Origin(notebook="train.ipynb", kernel_id="k-1")


class Away:
    """A process that lives until it is told to end."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(["sleep", "1000"])
        pid = self._process.pid
        self.process = Process(pid=pid, start_ticks=start_ticks(pid) or 0)

    def end(self) -> None:
        """End it, and wait until it is gone."""
        self._process.kill()
        self._process.wait()


async def full(tmp_path: Path) -> Stage:
    """Return a machine whose only GPU is held."""
    stage = await Stage(tmp_path, devices="1x24GiB").begin()
    await stage.ask(kind="lease", gpu=1, name="holds")
    await stage.start()
    return stage


def test_who_waits_with_a_kernel_may_start_it_on_the_cpu_instead(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await full(tmp_path)
        waits = await stage.ask(kind="kernel", gpu=1, process=own_process(), origin=KERNEL)
        labels = {action.id: action.label for action in waits.actions}
        assert labels["cancel"] == "Start on CPU instead"
        gone = await stage.service.cancel(ANA, "ana", "kernel", Cancel())
        assert (gone.state, gone.ended_by) == ("Cancelled", "owner")
        assert [action.submit for action in gone.actions if action.id == "ask_again"] == [None]

    asyncio.run(story())


def test_whoever_else_withdrew_it_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await full(tmp_path)
        await stage.ask(kind="kernel", gpu=1, process=own_process(), origin=KERNEL)
        await stage.service.cancel(ROOT, "ana", "kernel", Cancel())
        gone = await stage.view(ANA, "kernel")
        assert (gone.state, gone.ended_by) == ("Cancelled", "other")

    asyncio.run(story())


@pytest.mark.parametrize(("kind", "wait_s"), [("kernel", 600), ("lease", 60)])
def test_a_place_outlives_its_process_for_a_while(tmp_path: Path, kind: Kind, wait_s: int) -> None:
    async def story() -> None:
        stage = await full(tmp_path)
        server = Away()
        await stage.ask(kind=kind, gpu=1, name="waits", process=server.process, origin=KERNEL)
        server.end()
        await stage.pass_s(1)
        await stage.pass_s(wait_s - 1)
        assert (await stage.view(ANA, "waits")).state == "Waiting"
        await stage.pass_s(2)
        gone = await stage.view(ANA, "waits")
        assert (gone.state, gone.detail) == ("Cancelled", "Its kernel is gone.")

    asyncio.run(story())


def test_a_server_that_is_back_keeps_the_place(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await full(tmp_path)
        server = Away()
        await stage.ask(kind="kernel", gpu=1, name="waits", process=server.process, origin=KERNEL)
        server.end()
        await stage.pass_s(500)
        await stage.service.move(ANA, "ana", "waits", Move(process=own_process(), kernel_id="k-1"))
        await stage.pass_s(1000)
        waits = await stage.view(ANA, "waits")
        assert (waits.state, waits.position) == ("Waiting", 1)

    asyncio.run(story())


def test_what_is_granted_while_the_server_is_away_waits_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await full(tmp_path)
        server = Away()
        await stage.ask(kind="kernel", gpu=1, name="waits", process=server.process, origin=KERNEL)
        server.end()
        await stage.service.cancel(ANA, "ana", "holds", Cancel())
        await stage.turn()
        (order,) = await stage.claim()
        await stage.end(order, reason_code="process_ended")
        await stage.pass_s(50)
        await stage.service.move(ANA, "ana", "waits", Move(process=own_process(), kernel_id="k-1"))
        await stage.start()
        assert (await stage.view(ANA, "waits")).state == "Running"

    asyncio.run(story())


@pytest.mark.parametrize("is_granted", [True, False])
def test_a_notebook_that_moves_to_another_kernel_keeps_what_it_has(
    tmp_path: Path, is_granted: bool
) -> None:
    async def story() -> None:
        stage = await (Stage(tmp_path).begin() if is_granted else full(tmp_path))
        await stage.ask(kind="lease", gpu=1, name="mine", origin=KERNEL)
        if is_granted:
            await stage.start()
        server = Away()
        ask = Move(process=server.process, kernel_id="k-1", to_kernel_id="k-2")
        await stage.service.move(ANA, "ana", "mine", ask)
        if is_granted:
            await stage.start()
        moved = await stage.view(ANA, "mine")
        assert (moved.kind, moved.origin.kernel_id) == ("kernel", "k-2")
        assert moved.state == ("Running" if is_granted else "Waiting")
        server.end()

    asyncio.run(story())


def test_a_kernel_whose_gpu_is_taken_back_has_its_grace_to_save(tmp_path: Path) -> None:
    """Its place is free only when the process has ended: the next one waits that long."""

    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        kernel = Away()
        await stage.ask(
            kind="kernel", gpu=1, process=kernel.process, origin=KERNEL, preemptible=True
        )
        (order,) = await stage.start()
        await stage.ask(gpu=1, name="first", priority=120)
        told = await stage.view(ANA, "kernel")
        assert (told.state, told.word) == ("Stopping", "Taken back in 15 s")
        await stage.end(order, reason_code="released")
        await stage.pass_s(5)
        assert (await stage.view(ANA, "kernel")).state == "Stopping"
        kernel.end()
        await stage.pass_s(1)
        lost = await stage.view(ANA, "kernel")
        assert (lost.state, lost.ended_by) == ("Evicted", None)
        assert lost.headline.endswith("Variables are gone; files are safe.")
        assert (await stage.view(ANA, "first")).state == "Starting"

    asyncio.run(story())


def test_a_kernel_that_nobody_ends_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(kind="kernel", gpu=1, process=own_process(), lease_s=60, origin=KERNEL)
        await stage.start()
        await stage.pass_s(61)
        assert (await stage.view(ANA, "kernel")).state == "Stopping"
        await stage.pass_s(50)
        over = await stage.view(ANA, "kernel")
        assert (over.state, over.tone) == ("Succeeded", "stop")

    asyncio.run(story())
