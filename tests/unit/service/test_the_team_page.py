"""What a lead's page says: sums that agree, who needs them, and nothing of queues they do not lead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from scheduler_service.agent.nvml import Devices, GpuState
from scheduler_service.api.tables import csv_text
from scheduler_service.ports import Caller, NotAllowed
from scheduler_service.service import team
from scheduler_service.wire.team import LeadAsk, TeamView
from tests.fakes.bench_service import ANA, BEN, ROOT, Stage

LEAD = Caller("mira", scopes=frozenset({"read", "request", "lead:team-a"}))
TWO = """
queues:
  team-a: {gpu: {quota: 2}}
  team-b: {gpu: {quota: 2, limit: 3}}
"""


def lived(
    folder: Path, story: Callable[[Stage], Awaitable[None]], queues: str = TWO, gpus: int = 4
) -> None:
    async def run() -> None:
        (folder / "queues.yaml").write_text(queues)
        await story(await Stage(folder, devices=f"{gpus}x24GiB").begin())

    asyncio.run(run())


def test_who_leads_nothing_has_no_page(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        with pytest.raises(NotAllowed):
            await stage.service.team(ANA)

    lived(tmp_path, story)


def test_a_lead_reads_names_of_their_queue_and_sums_of_the_others(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask(ANA, kind="lease", gpu=2, queue="team-a", name="mine")
        await stage.ask(ANA, kind="gang", workers=2, gpu=1, queue="team-a", name="later")
        await stage.ask(BEN, kind="lease", gpu=1, queue="team-b", name="secret")
        page = await stage.service.team(LEAD)
        assert page.led == ("team-a",)
        assert page.title == "Queue team-a"
        assert [(row.who, row.queue) for row in page.people] == [("ana", "team-a")]
        assert "secret" not in repr(page)
        assert "ben" not in repr(page)
        rows = {row.name: row for row in page.queues}
        assert (rows["team-a"].leads, rows["team-b"].leads) == (True, False)
        assert (rows["team-b"].allocated, rows["team-b"].limit) == (1000, 3000)
        assert rows["team-a"].limit is None
        everything = await stage.service.team(ROOT)
        assert everything.title == "All queues"
        assert {row.who for row in everything.people} == {"ana", "ben"}

    lived(tmp_path, story)


def test_the_numbers_and_the_lists_agree(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        for name, gpu in (("one", 1), ("two", 0.5), ("three", 1)):
            await stage.ask(ANA, kind="lease", gpu=gpu, queue="team-a", name=name)
        page = await stage.service.team(LEAD)
        numbers = {number.id: number for number in page.numbers}
        held = sum(row.holds for row in page.people)
        assert numbers["allocated"].value == "1.5" == f"{held / 1000:g}"
        assert numbers["allocated"].unit == "of 2 GPUs of quota"
        assert (numbers["waiting"].value, numbers["waiting"].unit) == ("1", "request, 1 GPU")
        (row,) = page.waiting
        assert (row.who, row.position, row.asks, row.first, row.last) == (
            "ana",
            1,
            1000,
            True,
            True,
        )
        assert "quota of team-a is 2 GPUs" in row.reason
        assert sum(r.holds for r in page.leases) == held

    lived(tmp_path, story)


def test_what_is_not_measured_is_said_to_be_unknown(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask(ANA, kind="lease", gpu=1, queue="team-a")
        page = await stage.service.team(LEAD)
        idle = next(number for number in page.numbers if number.id == "idle")
        assert (idle.value, idle.unit) == ("\u2013", "not measured here")
        assert page.people[0].idle_percent is None
        assert page.people[0].busy_percent is None

    lived(tmp_path, story)


def test_idle_leases_need_the_lead(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask(ANA, kind="lease", gpu=1, queue="team-a", name="forgotten")
        devices = stage.service.devices

        def state(busy: int) -> Devices:
            states = tuple(
                GpuState(
                    uuid=d.id,
                    index=d.index,
                    name="",
                    memory_mib=24576,
                    is_mig=False,
                    used_mib=1,
                    utilisation_percent=busy,
                    processes=(),
                )
                for d in devices.values()
            )
            return Devices(driver="", devices=states)

        stage.service.usage.look(state(90), stage.clock())
        await stage.pass_s(1000)
        stage.service.usage.look(state(0), stage.clock())
        await stage.ask(BEN, gpu=1, queue="team-a", name="small", preemptible=False)
        await stage.ask(BEN, gpu=1, queue="team-a", name="waits", preemptible=False)
        page = await stage.service.team(LEAD)
        (need,) = [need for need in page.needs if need.kind == "idle"]
        assert need.title == "1 lease has been idle for more than 15 min in team-a."
        assert need.text == "It holds 1 GPU; 1 waiting asks for no more."
        assert need.groups == ("ana/forgotten",)
        assert page.leases[0].idle_ms == 1_000_000
        ana = next(row for row in page.people if row.who == "ana")
        assert (ana.idle_percent, ana.busy_percent) == (100, 0)

    lived(tmp_path, story)


def test_who_waits_longer_than_was_said_needs_the_lead(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask(ANA, kind="lease", gpu=2, queue="team-a", lease_s=600, name="here")
        await stage.ask(BEN, kind="lease", gpu=1, queue="team-a", name="hopes")
        await stage.service.team(LEAD)
        await stage.service.extend(ANA, "ana", "here", _extend(7200))
        await stage.pass_s(1200)
        page = await stage.service.team(LEAD)
        (late,) = [need for need in page.needs if need.kind == "late"]
        assert late.word == "Late"
        assert late.title.startswith("ben has waited 20 min for hopes; we said ")
        assert page.waiting[0].late

    lived(tmp_path, story)


def _extend(by_s: int) -> object:
    from scheduler_service.wire.pod_group import Extend

    return Extend(by_s=by_s)


STARVED = """
queues:
  team-a: {gpu: {quota: 16}}
  batch: {gpu: {quota: 0}}
  archive: {gpu: {quota: 12}}
policy:
  actions: [allocate]
"""


def test_l100_who_is_starved_who_borrows_and_what_lies_idle_in_one_sentence_each(
    tmp_path: Path,
) -> None:
    async def story(stage: Stage) -> None:
        for number in range(3):
            await stage.ask(BEN, gpu=1, queue="archive", name=f"ar-{number}", priority=120)
        for number in range(18):
            await stage.ask(BEN, gpu=1, queue="batch", name=f"ba-{number}")
        for number in range(4):
            await stage.ask(ANA, gpu=1, queue="team-a", name=f"ta-{number}")
        await stage.start(BEN)
        await stage.start(ANA)
        await stage.ask(ANA, kind="gang", workers=6, gpu=1, queue="team-a", name="gang")
        page = await stage.service.team(ROOT)
        said = {row.name: row.sentence for row in page.queues}
        held = {row.name: row.allocated for row in page.queues}
        assert held == {"team-a": 4000, "batch": 18_000, "archive": 3000}
        assert said == {
            "team-a": "Kept from 6 of its quota. 1 waits.",
            "batch": "Borrows 18 above its quota.",
            "archive": "9 of its quota free.",
        }
        assert {row.name: row.borrowed for row in page.queues}["batch"] == 18_000

    lived(tmp_path, story, queues=STARVED, gpus=25)


def test_the_last_day_is_kept_over_a_restart_and_forgotten_after_a_day(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask(ANA, kind="lease", gpu=1, queue="team-a")
        for _ in range(4):
            await stage.pass_s(20 * 60)
        await stage.restart()
        page = await stage.service.team(LEAD)
        assert page.use.allocated[-1] == 1000
        assert len(page.use.at) == len(page.use.requested) == len(set(page.use.at)) >= 4
        allocated = page.numbers[0]
        assert (allocated.trend, allocated.trend_text) == ("level", "same as an hour ago")
        await stage.pass_s(30 * 3600)
        assert len(stage.service.use.samples) == 1

    lived(tmp_path, story)


def test_a_stream_sends_the_page_again_only_when_it_reads_differently(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        pages = stage.service.team_events(LEAD)
        first = await anext(pages)
        following = asyncio.ensure_future(anext(pages))
        await stage.ask(ANA, kind="lease", gpu=1, queue="team-a", name="new")
        second = await following
        assert first.leases == ()
        assert isinstance(second, TeamView)
        assert second.numbers != first.numbers or second.people != first.people
        await pages.aclose()  # type: ignore[attr-defined]

    lived(tmp_path, story)


def test_lists_come_as_csv_and_no_name_becomes_a_formula(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask(ANA, kind="lease", gpu=2, queue="team-a", name="one")
        await stage.ask(ANA, kind="lease", gpu=1, queue="team-a", name="two")
        ask = LeadAsk(kind="drain", queue="team-a", reason="=HYPERLINK(1)")
        await stage.service.change(LEAD, ask)
        page = await stage.service.team(LEAD)
        waiting = csv_text(page, "waiting").splitlines()
        assert waiting[0].startswith("position,who,queue,name,asks_gpus,")
        assert waiting[1].startswith("1,ana,team-a,two,1.0,")
        assert ",'=HYPERLINK(1)," in csv_text(page, "changes")
        queues = csv_text(page, "queues").splitlines()
        assert queues[1].split(",")[6] == ""  # no limit is no number, and never 0
        for table in ("people", "leases", "use"):
            assert csv_text(page, table).count("\n") >= 1

    lived(tmp_path, story)


def test_l099_no_limit_is_no_series_and_the_sums_agree_at_each_level(tmp_path: Path) -> None:
    tree = """
queues:
  top: {gpu: {quota: 4}}
  team-a: {parent: top, gpu: {quota: 2}}
  team-b: {parent: top, gpu: {quota: 2, limit: 3}}
"""

    async def story(stage: Stage) -> None:
        for owner, queue in ((ANA, "team-a"), (BEN, "team-b")):
            for number in range(3):
                await stage.ask(owner, gpu=1, queue=queue, name=f"{queue}-{number}")
        lines = stage.service.metrics_text().decode().splitlines()
        found = {}
        for line in lines:
            if line.startswith("kai_queue_gpus{"):
                labels, value = line.rsplit(" ", 1)
                parts = labels.split('"')
                found[parts[1], parts[3]] = float(value)
        assert [key for key in found if key[1] == "limit"] == [("team-b", "limit")]
        for what in ("allocated", "requested"):
            assert found["top", what] == found["team-a", what] + found["team-b", what]
        assert found["top", "allocated"] <= 4
        page = await stage.service.team(ROOT)
        for row in page.queues:
            assert row.allocated / 1000 == found[row.name, "allocated"]

    lived(tmp_path, story, queues=tree)


def test_l094_many_changes_at_once_become_a_few_pages_and_the_last_is_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team, "TEAM_PAUSE_S", 0.05)

    async def story(stage: Stage) -> None:
        pages = stage.service.team_events(LEAD)
        seen = [await anext(pages)]

        async def read() -> None:
            async for page in pages:
                seen.append(page)  # noqa: PERF401 - it is looked at meanwhile

        reading = asyncio.ensure_future(read())
        await stage.ask(ANA, kind="lease", gpu=2, queue="team-a", name="all")
        for number in range(200):
            record = stage.service.records.find("ana/all")
            assert record is not None
            stage.service.records.put(replace(record, priority=number))
            stage.service.changes.part("queues")
            await asyncio.sleep(0)
        await stage.ask(BEN, kind="lease", gpu=1, queue="team-a", name="last")
        while not any(row.name == "last" for row in seen[-1].waiting):  # noqa: ASYNC110 - observed, not told
            await asyncio.sleep(0.01)
        assert len(seen) < 100
        reading.cancel()

    lived(tmp_path, story)
