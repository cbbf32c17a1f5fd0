"""The state file is damaged or gone while work runs: what its runner can prove goes on, the rest is told by name."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler_service.backends.local.recovery import HOLD_MS, SEALS_COUNT_MS
from scheduler_service.ports import Caller, LogAsk
from scheduler_service.wire.pod_group import Cancel
from scheduler_service.wire.runner import (
    ClaimRequest,
    HeldPod,
    LogChunk,
    LogLine,
    Proof,
    ProofAnswer,
    ProofRequest,
    Report,
    StartOrder,
)
from tests.fakes.bench_service import ANA, BEN, Stage
from tests.fakes.machine import own_process

HOLD_S = HOLD_MS / 1000 + 1


def proof_of(order: StartOrder) -> Proof:
    mine = own_process()
    return Proof(
        incarnation=order.incarnation,
        pod=f"{order.namespace}/{order.pod}",
        seal=order.seal,
        pid=mine.pid,
        start_ticks=mine.start_ticks,
    )


async def lose_books(stage: Stage, *, damaged: bool = True) -> None:
    """End the service, make its state file noise (or remove it) and open the service again."""
    await stage.service.stop()
    for beside in stage.folder.glob("kai.db*"):
        beside.unlink()
    if damaged:
        (stage.folder / "kai.db").write_bytes(b"this is no database" * 1000)
    await stage.restart()


async def prove(stage: Stage, *proofs: Proof, caller: Caller = ANA) -> ProofAnswer:
    answer = await stage.service.prove(caller, ProofRequest(runner="runner-1", pods=proofs))
    await stage.turn()
    return answer


async def notes(stage: Stage) -> str:
    return "\n".join((await stage.service.health()).notes)


async def gang(stage: Stage, **fields: object) -> tuple[StartOrder, ...]:
    await stage.ask(kind="gang", workers=2, gpu=1, name="train", **fields)
    return await stage.start()


@pytest.mark.parametrize("damaged", [True, False])
def test_a_running_gang_is_entered_again_and_goes_on(tmp_path: Path, damaged: bool) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        orders = await gang(stage)
        before = await stage.view(ANA, "train")
        line = LogLine(seq=0, at=1, rank=0, stream="stdout", text="step 1")
        await stage.service.append_logs(orders[0].incarnation, LogChunk(lines=(line,)))
        await lose_books(stage, damaged=damaged)

        mine = own_process()
        held = tuple(
            HeldPod(incarnation=o.incarnation, pid=mine.pid, start_ticks=mine.start_ticks)
            for o in orders
        )
        ask = ClaimRequest(runner="runner-1", host="here", held=held)
        unknown = (await stage.service.claim(ANA, ask)).unknown
        assert unknown == tuple(order.incarnation for order in orders)
        assert await prove(stage, *map(proof_of, orders)) == ProofAnswer()
        assert (await stage.service.claim(ANA, ask)).unknown == ()

        after = await stage.view(ANA, "train")
        assert (after.state, after.queue, after.kind, after.created_at, after.granted_at) == (
            "Running",
            before.queue,
            before.kind,
            before.created_at,
            before.granted_at,
        )
        assert [(p.incarnation, p.devices) for p in after.pods] == [
            (p.incarnation, p.devices) for p in before.pods
        ]
        assert after.timeline[-1].text == "Found again after the state file was lost"
        page = await stage.service.logs(ANA, "ana", "train", LogAsk())
        assert page.lines == (line,)
        told = await notes(stage)
        assert "1 running request was found again and goes on: ana/train." in told
        assert str(tmp_path / "kai.db") in told
        assert "ask again for what waited" in told

        await stage.service.cancel(ANA, "ana", "train", Cancel())
        stops = (await stage.service.orders(ANA, runner_name="runner-1", wait_s=0)).stops
        assert {stop.incarnation for stop in stops} == {o.incarnation for o in orders}
        for order in orders:
            await stage.end(order)
        assert (await stage.view(ANA, "train")).state == "Cancelled"

    asyncio.run(story())


def test_its_devices_are_given_to_nobody_else(tmp_path: Path) -> None:
    """Not before runners had the time to show what they hold, and not after."""

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        orders = await gang(stage)
        await lose_books(stage)
        assert (await stage.ask(BEN, gpu=1, name="new")).state == "Waiting"
        assert "Nothing new starts before" in await notes(stage)
        await prove(stage, *map(proof_of, orders))
        await stage.pass_s(HOLD_S)
        assert (await stage.view(BEN, "new")).state == "Waiting"
        assert "Nothing new starts before" not in await notes(stage)
        for order in orders:
            await stage.end(order)
        assert (await stage.view(BEN, "new")).state == "Starting"

    asyncio.run(story())


def test_what_waits_starts_when_nothing_is_found(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await lose_books(stage)
        assert (await stage.ask(gpu=1, name="new")).state == "Waiting"
        await stage.pass_s(HOLD_S)
        assert (await stage.view(ANA, "new")).state == "Starting"

    asyncio.run(story())


def test_a_device_that_was_given_away_meanwhile_is_not_counted_twice(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        orders = await gang(stage)
        await lose_books(stage)
        await stage.pass_s(HOLD_S)
        assert (await stage.ask(BEN, gpu=1, name="new")).state == "Starting"
        names = tuple(order.incarnation for order in orders)
        answer = await prove(stage, *map(proof_of, orders))
        assert answer == ProofAnswer(unknown=names, lost=names)
        told = await notes(stage)
        assert "2 pods that ran were ended" in told
        assert "ana/train-0, ana/train-1 (GPU 0 is given away already)" in told or (
            "has no memory left for it" in told
        )

    asyncio.run(story())


def broken(order: StartOrder) -> dict[str, tuple[Caller, Proof]]:
    whole = proof_of(order)
    mac, _, body = order.seal.partition(".")
    return {
        "an order of an older service": (ANA, replace(whole, seal="")),
        "another owner": (BEN, whole),
        "another amount": (ANA, replace(whole, seal=f"{mac}.{body.replace('train', 'trick')}")),
        "another key": (ANA, replace(whole, seal=f"{'0' * 64}.{body}")),
        "noise": (ANA, replace(whole, seal="\ud800é.{")),
        "another pod's seal": (ANA, replace(whole, incarnation="0" * 16)),
    }


@pytest.mark.parametrize("case", range(6))
def test_only_what_the_service_signed_is_believed(tmp_path: Path, case: int) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=1, name="train")
        (order,) = await stage.start()
        await lose_books(stage)
        caller, proof = list(broken(order).values())[case]
        answer = await prove(stage, proof, caller=caller)
        assert answer.unknown == answer.lost == (proof.incarnation,)
        assert list(stage.service.records) == []
        name = proof.incarnation if caller is BEN else "ana/train-0"
        told = await notes(stage)
        assert "1 pod that ran was ended because the books did not know it" in told
        assert name in told
        await stage.restart()
        assert name in await notes(stage)
        assert (await prove(stage, proof_of(order))).unknown == ()

    asyncio.run(story())


def test_a_seal_counts_only_for_books_that_were_lost_and_only_for_a_while(tmp_path: Path) -> None:
    """Else an old order would be a way around the queue."""

    async def story() -> None:
        stage = await Stage(tmp_path, retention_groups=0).begin()
        await stage.ask(gpu=1, name="old")
        (old,) = await stage.start()
        await stage.end(old)
        stage.clock.pass_s(10)
        stage.service.housekeep()
        assert (await prove(stage, proof_of(old))).lost == (old.incarnation,)
        assert list(stage.service.records) == []
        await lose_books(stage)
        stage.clock.pass_s(SEALS_COUNT_MS / 1000 + 1)
        assert (await prove(stage, proof_of(old))).lost == (old.incarnation,)
        await stage.ask(gpu=1, name="later")
        (later,) = await stage.start()
        await stage.end(later)
        assert (await prove(stage, proof_of(later))) == ProofAnswer(unknown=(later.incarnation,))

    asyncio.run(story())


def test_a_worker_that_is_not_shown_has_ended_and_begins_no_second_time(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        first, second = await gang(stage)
        await stage.end(first)
        await lose_books(stage)
        await prove(stage, proof_of(second))
        await stage.pass_s(HOLD_S)
        assert await stage.claim() == ()
        assert [pod.state for pod in (await stage.view(ANA, "train")).pods] == [
            "Succeeded",
            "Running",
        ]
        await stage.end(second)
        assert (await stage.view(ANA, "train")).state == "Succeeded"

    asyncio.run(story())


def test_a_worker_that_is_shown_later_takes_its_place(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        first, second = await gang(stage)
        await lose_books(stage)
        await prove(stage, proof_of(second))
        starting = replace(proof_of(first), pid=None, start_ticks=None)
        assert await prove(stage, starting) == ProofAnswer()
        view = await stage.view(ANA, "train")
        assert [pod.state for pod in view.pods] == ["Binding", "Running"]
        assert len(list(stage.service.records)) == 1
        assert await stage.claim(runner="another") == ()
        assert [order.incarnation for order in await stage.claim()] == [first.incarnation]

    asyncio.run(story())


def test_a_name_that_was_taken_meanwhile_is_changed_and_told(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=1, name="train")
        (order,) = await stage.start()
        stage.clock.pass_s(5)
        await lose_books(stage)
        await stage.ask(gpu=1, name="train")
        await prove(stage, proof_of(order))
        found = await stage.view(ANA, "train-2")
        assert found.state == "Running"
        assert "renamed to train-2: train was taken when it was found again" in found.notes

    asyncio.run(story())


def test_a_lease_is_found_again_and_not_ended_at_once(tmp_path: Path) -> None:
    """It may have been extended after it was sealed."""

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(kind="lease", gpu=0.5, name="mine", lease_s=60)
        (order,) = await stage.start()
        stage.clock.pass_s(3000)
        await lose_books(stage)
        await prove(stage, proof_of(order))
        await stage.pass_s(60)
        view = await stage.view(ANA, "mine")
        assert (view.state, view.kind) == ("Running", "lease")
        await stage.pass_s(3600)
        assert (await stage.view(ANA, "mine")).detail != view.detail

    asyncio.run(story())


def test_a_row_that_can_not_be_read_is_entered_again(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=1, name="train")
        (order,) = await stage.start()
        connection = stage.service._connection
        connection.execute("UPDATE groups SET body = '{}'")
        await stage.restart()
        assert (await stage.ask(BEN, gpu=1, name="new")).state == "Waiting"
        assert await prove(stage, proof_of(order)) == ProofAnswer()
        assert (await stage.view(ANA, "train")).state == "Running"
        await stage.restart()
        assert (await stage.view(ANA, "train")).state == "Running"

    asyncio.run(story())


def test_an_end_is_taken_of_what_was_found_again(tmp_path: Path) -> None:
    """It ended while no service was there: its runner proves it and then tells the end."""

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=1, name="train")
        (order,) = await stage.start()
        await lose_books(stage)
        await prove(stage, proof_of(order))
        report = Report(incarnation=order.incarnation, kind="ended", at=stage.clock(), exit_code=3)
        await stage.service.report(ANA, report)
        view = await stage.view(ANA, "train")
        assert (view.state, view.pods[0].exit_code) == ("Failed", 3)

    asyncio.run(story())
