"""The notebook server that a hub starts for a person: its process holds the share, and no runner is needed for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from scheduler_service.wire.pod_group import Cancel, Move, Origin, PodGroupView
from tests.fakes.bench_service import ANA, ROOT, Stage
from tests.fakes.machine import own_process
from tests.unit.service.test_a_kernel import Away, full

SERVER = Origin(kernel_id="server:")


async def asked(stage: Stage, process: object = None, **fields: object) -> PodGroupView:
    held_by = process or own_process()
    fields = {"gpu": 1, "name": "server", **fields}
    return await stage.ask(kind="server", process=held_by, origin=SERVER, **fields)


def test_it_runs_as_soon_as_it_is_granted(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        assert (await asked(stage)).state == "Running"
        assert await stage.claim() == ()
        orders = await stage.service.orders(ANA, runner_name="runner-1", wait_s=0)
        assert not orders.claim

    asyncio.run(story())


def test_it_is_handed_from_the_hub_to_the_server_it_started(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await asked(stage)
        server = Away()
        ask = Move(process=server.process, kernel_id="server:")
        view = await stage.service.move(ANA, "ana", "server", ask)
        await stage.turn()
        assert view.state == "Running"
        await stage.pass_s(1)
        assert (await stage.view(ANA, "server")).state == "Running"
        server.end()
        await stage.pass_s(1)
        ended = await stage.view(ANA, "server")
        assert ended.headline == "The server ended; its GPU waits for the restart."
        again = await stage.service.move(
            ANA, "ana", "server", Move(process=own_process(), kernel_id="server:")
        )
        assert (again.state, again.word) == ("Running", "Granted")

    asyncio.run(story())


def test_one_that_is_not_started_again_gives_its_gpu_back(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        server = Away()
        await asked(stage, server.process)
        server.end()
        await stage.pass_s(1)
        await stage.pass_s(61)
        assert (await stage.view(ANA, "server")).state == "Succeeded"
        assert (await asked(stage, name="next")).state == "Running"

    asyncio.run(story())


def test_its_place_waits_for_a_hub_that_is_restarted(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await full(tmp_path)
        hub = Away()
        await asked(stage, hub.process)
        hub.end()
        await stage.pass_s(1)
        await stage.pass_s(500)
        await stage.service.move(
            ANA, "ana", "server", Move(process=own_process(), kernel_id="server:")
        )
        await stage.pass_s(1000)
        assert (await stage.view(ANA, "server")).state == "Waiting"

    asyncio.run(story())


def test_a_hub_that_stays_away_gives_the_place_back(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await full(tmp_path)
        hub = Away()
        await asked(stage, hub.process)
        hub.end()
        await stage.pass_s(1)
        await stage.pass_s(601)
        gone = await stage.view(ANA, "server")
        assert (gone.state, gone.detail) == ("Cancelled", "Its hub is gone.")

    asyncio.run(story())


def test_who_loses_it_has_time_to_save_and_its_gpu_is_free_when_it_ended(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        server = Away()
        await asked(stage, server.process)
        await stage.service.cancel(ROOT, "ana", "server", Cancel(grace_s=5))
        await asked(stage, name="next")
        await stage.pass_s(3)
        assert (await stage.view(ANA, "server")).state == "Stopping"
        assert (await stage.view(ANA, "next")).state == "Waiting"
        server.end()
        await stage.pass_s(1)
        assert (await stage.view(ANA, "server")).state == "Cancelled"
        assert (await stage.view(ANA, "next")).state == "Running"

    asyncio.run(story())


def test_its_owner_frees_the_gpu_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await asked(stage)
        await stage.service.cancel(ANA, "ana", "server", Cancel())
        assert (await asked(stage, name="next")).state == "Running"

    asyncio.run(story())


def test_what_its_owner_can_do_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await full(tmp_path)
        waits = await asked(stage)
        assert [action.id for action in waits.actions][:2] == ["why", "cancel"]
        await stage.service.cancel(ROOT, "ana", "holds", Cancel(grace_s=0))
        await stage.pass_s(1)
        runs = await stage.view(ANA, "server")
        assert [(action.id, action.label) for action in runs.actions] == [("release", "Release")]
        await stage.service.cancel(ANA, "ana", "server", Cancel())
        assert (await stage.view(ANA, "server")).actions == ()

    asyncio.run(story())


def test_it_is_still_held_after_the_service_was_restarted(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await asked(stage)
        await stage.restart()
        await stage.pass_s(2)
        assert (await stage.view(ANA, "server")).state == "Running"

    asyncio.run(story())
