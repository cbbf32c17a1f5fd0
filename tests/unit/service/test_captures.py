"""What was decided can be decided again from a file; what was used lately is known after a restart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from scheduler_service.ports import NotAllowed, NotFound
from scheduler_service.simulate import commands
from tests.fakes.bench_service import ANA, BEN, ROOT, Stage

QUEUES = """
queues:
  a: {gpu: 1}
  b: {gpu: 1}
policy: {user_fairness: true, usage_weight_milli: 1000, usage_half_life_ms: 3600000, back_off_ms: 5500}
"""


def closed_stage(folder: Path) -> Stage:
    folder.mkdir()
    (folder / "queues.yaml").write_text(QUEUES)
    return Stage(folder)


async def busy_stage(folder: Path) -> Stage:
    """Return a service in which people started, waited, were taken from and came back."""
    stage = await closed_stage(folder).begin()
    await stage.ask(ANA, gpu=1, name="one", queue="a")
    await stage.ask(ANA, gpu=1, name="two", queue="a", priority=40)
    await stage.start(ANA)
    await stage.pass_s(1000)
    await stage.ask(BEN, gpu=0.5, name="mine", queue="b")
    await stage.ask(BEN, gpu=2, name="large", queue="b")
    await stage.pass_s(7.001)
    await stage.ask(ANA, gpu=0.25, name="three", queue="a", min_members=2, workers=2, kind="gang")
    return stage


def test_every_kept_cycle_is_decided_again_to_the_byte(tmp_path: Path, capsys) -> None:
    async def story() -> list[dict[str, object]]:
        stage = await busy_stage(tmp_path / "state")
        cycles = await stage.service.cycles(ROOT, last=50)
        return [await stage.service.snapshot(ROOT, cycle=cycle.number) for cycle in cycles]

    captures = asyncio.run(story())
    assert len(captures) > 4
    file = tmp_path / "capture.json"
    for content in captures:
        file.write_text(json.dumps(content))
        assert commands.replay(file) == 0, capsys.readouterr().out
    evicted = [content for content in captures if '"evict"' in json.dumps(content["plan"])]
    assert evicted
    assert any(content.get("usage") and content.get("owner_usage") for content in captures)


def test_a_change_of_an_input_changes_the_decision(tmp_path: Path) -> None:
    """A replay that never fails would prove nothing."""

    async def story() -> list[dict[str, object]]:
        stage = await busy_stage(tmp_path / "state")
        cycles = await stage.service.cycles(ROOT, last=50)
        return [await stage.service.snapshot(ROOT, cycle=cycle.number) for cycle in cycles]

    file = tmp_path / "capture.json"
    starts = next(c for c in asyncio.run(story()) if '"bind"' in json.dumps(c["plan"]))
    starts["nodes"] = {
        name: {**node, "gpus": 0, "devices": []} for name, node in starts["nodes"].items()
    }
    file.write_text(json.dumps(starts))
    assert commands.replay(file) == 1


def test_captures_are_for_admins_and_only_of_cycles_that_are_kept(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        with pytest.raises(NotAllowed):
            await stage.service.snapshot(ANA, cycle=1)
        with pytest.raises(NotFound) as unknown:
            await stage.service.snapshot(ROOT, cycle=12_345)
        assert "Cycle 12345 is not kept" in unknown.value.problem.detail

    asyncio.run(story())


def test_a_restart_remembers_who_used_how_much(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await busy_stage(tmp_path / "state")
        await stage.pass_s(60)
        before = stage.service.loop.ledger.snapshot(0)
        stage.service.housekeep()
        await stage.restart()
        after = stage.service.loop.ledger.snapshot(0)
        assert before.usage["a"].milli_gpu > 500
        assert (after.usage, after.owner_usage) == (before.usage, before.owner_usage)
        (tmp_path / "state" / "usage.json").write_text("{")
        await stage.restart()
        assert stage.service.loop.ledger.usage == {}

    asyncio.run(story())
