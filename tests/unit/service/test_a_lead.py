"""What a queue's lead may change, whom it concerns, what they read, and how each change ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from scheduler_service.ports import Caller, NotAllowed, NotFound, RefusedRequest
from scheduler_service.wire.events import Notice
from scheduler_service.wire.pod_group import Cancel
from scheduler_service.wire.team import ChangeView, LeadAsk, Undo
from tests.fakes.bench_service import ANA, BEN, ROOT, Stage

QUEUES = """
queues:
  research: {gpu: {quota: 4}}
  team-a: {parent: research, gpu: {quota: 2}}
  team-b: {parent: research, gpu: {quota: 2}}
  archive: {gpu: {quota: 2, limit: 2}}
"""
LEAD = Caller("mira", scopes=frozenset({"read", "request", "lead:team-a"}))
HEAD = Caller("uma", scopes=frozenset({"read", "request", "lead:research"}))
HOUR = 3_600_000


async def stage_of(folder: Path, devices: str = "4x24GiB") -> Stage:
    (folder / "queues.yaml").write_text(QUEUES)
    return await Stage(folder, devices=devices).begin()


def lived(folder: Path, story: Callable[[Stage], Awaitable[None]], **more: str) -> None:
    async def run() -> None:
        await story(await stage_of(folder, **more))

    asyncio.run(run())


async def change(stage: Stage, caller: Caller = LEAD, **fields: object) -> ChangeView:
    asked = {"queue": "team-a", "reason": "Deadline of the report", **fields}
    made = await stage.service.change(caller, LeadAsk(**asked))  # type: ignore[arg-type]
    await stage.turn()
    return made


async def refused(stage: Stage, caller: Caller = LEAD, **fields: object) -> RefusedRequest:
    with pytest.raises(RefusedRequest) as caught:
        await change(stage, caller, **fields)
    return caught.value


def told(stage: Stage, owner: str) -> list[Notice]:
    since = stage.service.changes.since(stage.service.changes._first)
    assert since is not None
    return [i.notice for i in since.notices if i.group_key.startswith(f"{owner}/")]


# -- rights and sense ------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["priority", "cap", "release", "ask", "lend", "drain"])
def test_only_who_leads_the_queue_may_change_it(tmp_path: Path, kind: str) -> None:
    async def story(stage: Stage) -> None:
        view = await stage.ask(BEN, kind="lease", gpu=1, queue="team-b")
        more = {"group": f"ben/{view.name}", "person": "ben", "gpu": 1, "to": "team-a"}
        ask = LeadAsk(kind=kind, queue="team-b", reason="because", place="first", **more)  # type: ignore[arg-type]
        for door in (stage.service.change, stage.service.what_if):
            for caller in (LEAD, BEN):
                with pytest.raises(NotAllowed):
                    await door(caller, ask)
        assert stage.service.audit.lines(last=9)[0].action == "submit"

    lived(tmp_path, story)


def test_who_leads_a_queue_leads_those_below_it_and_a_group_elsewhere_is_not_theirs(
    tmp_path: Path,
) -> None:
    async def story(stage: Stage) -> None:
        mine = await stage.ask(ANA, kind="lease", gpu=1, queue="team-a")
        other = await stage.ask(BEN, kind="lease", gpu=1, queue="archive")
        await change(stage, HEAD, kind="ask", queue="team-a", group=f"ana/{mine.name}")
        with pytest.raises(NotFound):
            await change(stage, HEAD, kind="ask", queue="research", group=f"ben/{other.name}")

    lived(tmp_path, story)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"kind": "drain", "reason": "  "}, "reason_needed"),
        ({"kind": "drain", "queue": "team-z"}, "unknown_queue"),
        ({"kind": "drain", "until": 5}, "bad_time"),
        ({"kind": "cap", "gpu": 1}, "unknown_person"),
        ({"kind": "cap", "person": "ana", "gpu": "lots"}, "bad_gpu_amount"),
        ({"kind": "lend", "gpu": 1, "to": "team-b"}, "bad_time"),
        ({"kind": "lend", "gpu": 3, "to": "team-b", "until": -1}, "bad_loan"),
        ({"kind": "lend", "gpu": 1, "to": "archive", "until": -1}, "bad_loan"),
        ({"kind": "lend", "gpu": 1, "to": "research", "until": -1}, "bad_loan"),
        ({"kind": "lend", "gpu": 1, "to": "nowhere", "until": -1}, "unknown_queue"),
        ({"kind": "release", "group": "ana/nothing"}, "not_found"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_kept(
    tmp_path: Path, fields: dict[str, object], code: str
) -> None:
    async def story(stage: Stage) -> None:
        if fields.get("until") == -1:
            fields["until"] = stage.clock() + HOUR
        assert (await refused(stage, **fields)).problem.code == code
        assert list(stage.service.overlays) == []

    lived(tmp_path, story)


# -- lend ----------------------------------------------------------------------------------------
def quota(stage: Stage, name: str) -> int | None:
    return next(q.gpu.quota for q in stage.service.queue_source.config.queues if q.name == name)


def test_what_is_lent_moves_the_quota_until_its_time_is_over_also_over_a_restart(
    tmp_path: Path,
) -> None:
    async def story(stage: Stage) -> None:
        made = await change(stage, kind="lend", gpu=1.5, to="team-b", until=stage.clock() + HOUR)
        assert made.in_force
        assert made.text.startswith("team-a lends 1.5 GPUs to team-b until ")
        assert [quota(stage, n) for n in ("team-a", "team-b", "research")] == [500, 3500, 4000]
        await stage.restart()
        assert quota(stage, "team-b") == 3500
        assert (stage.folder / "queues.yaml").read_text() == QUEUES
        await stage.pass_s(3601)
        assert [quota(stage, n) for n in ("team-a", "team-b")] == [2000, 2000]
        await stage.restart()
        assert quota(stage, "team-a") == 2000

    lived(tmp_path, story)


def test_a_loan_to_another_tree_goes_up_to_both_tops(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        (stage.folder / "queues.yaml").write_text(QUEUES.replace(", limit: 2", ""))
        await stage.pass_s(1)
        await change(stage, ROOT, kind="lend", gpu=1, to="archive", until=stage.clock() + HOUR)
        names = ("team-a", "research", "archive")
        assert [quota(stage, name) for name in names] == [1000, 3000, 3000]

    lived(tmp_path, story)


def test_a_loan_is_seen_in_the_sentence_of_both_queues(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        await change(stage, kind="lend", gpu=1, to="team-b", until=stage.clock() + HOUR)
        views = {view.name: view for view in await stage.service.queues(ANA)}
        assert "lends 1 GPU to team-b until" in views["team-a"].sentence
        assert "is lent 1 GPU by team-a until" in views["team-b"].sentence
        assert views["team-b"].quota.milli_gpu == 3000

    lived(tmp_path, story)


def test_before_lending_the_planner_says_who_gains_and_who_pays_and_nothing_is_changed(
    tmp_path: Path,
) -> None:
    async def story(stage: Stage) -> None:
        for number in range(4):
            await stage.ask(
                ANA, gpu=1, queue="archive" if number > 1 else "team-a", name=f"a{number}"
            )
        await stage.start(ANA)
        await stage.ask(BEN, kind="lease", gpu=1, queue="team-b", preemptible=False, name="b0")
        await stage.ask(BEN, kind="lease", gpu=1, queue="team-b", preemptible=False, name="b1")
        await stage.ask(BEN, kind="lease", gpu=1, queue="team-b", preemptible=False, name="b2")
        assert (await stage.view(BEN, "b2")).state == "Waiting"
        before = stage.service.loop.ledger.snapshot(0)
        ask = LeadAsk(
            kind="lend", queue="team-a", to="team-b", gpu=1, until=stage.clock() + HOUR, reason="x"
        )
        seen = await stage.service.what_if(LEAD, ask)
        assert stage.service.loop.ledger.snapshot(0) == before
        rows = {row.queue: row for row in seen.queues}
        assert set(rows) == {"team-a", "team-b", "archive"}
        assert rows["team-b"].after_milli - rows["team-b"].before_milli == 1000
        assert rows["team-b"].delta_text == "+1"
        assert rows["team-a"].delta_text == "\u22121"
        assert seen.gains == ("a colleague (team-b, 1 GPU) starts now",)
        assert [line.partition(" (")[0] for line in seen.pays] == ["ana"]
        assert seen.headline == "1 request that waits starts now; team-a gives back 1 GPU."
        assert "start" in seen.headline
        assert "team-a asks for more than 1 GPU" in seen.risk
        assert list(stage.service.overlays) == []

    lived(tmp_path, story, devices="6x24GiB")


# -- cap and drain -------------------------------------------------------------------------------
def test_a_capped_person_gets_no_more_than_that_while_others_go_on(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        await change(stage, kind="cap", person="ana", gpu=1)
        for name in ("one", "two"):
            await stage.ask(ANA, kind="lease", gpu=0.75, queue="team-a", name=name)
        await stage.ask(BEN, kind="lease", gpu=0.5, queue="team-a", name="ben-one")
        states = {r.name: r.granted_at is not None for r in stage.service.records}
        assert states == {"one": True, "two": False, "ben-one": True}
        two = await stage.view(ANA, "two")
        assert two.reason is not None
        assert two.reason.code == "held_back"
        assert "mira: ana holds at most 1 GPU in team-a. Deadline of the report." in two.sentence
        assert any("Deadline of the report" in note for note in two.notes)
        await stage.restart()
        assert (await stage.view(ANA, "two")).state == "Waiting"

    lived(tmp_path, story)


def test_the_next_one_starts_when_a_capped_person_gives_something_back(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        await change(stage, kind="cap", person="ana", gpu=1)
        await stage.ask(ANA, gpu=1, queue="team-a", name="one")
        (order,) = await stage.start(ANA)
        await stage.ask(ANA, gpu=1, queue="team-a", name="two")
        assert (await stage.view(ANA, "two")).state == "Waiting"
        await stage.end(order)
        assert (await stage.view(ANA, "two")).state == "Starting"

    lived(tmp_path, story)


def test_a_gang_is_capped_as_a_whole(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        await change(stage, kind="cap", person="ana", gpu=2)
        gang = await stage.ask(ANA, kind="gang", workers=3, gpu=1, queue="team-a", name="three")
        pair = await stage.ask(ANA, kind="gang", workers=2, gpu=1, queue="team-a", name="pair")
        assert (gang.state, pair.state) == ("Waiting", "Starting")

    lived(tmp_path, story)


def test_a_drained_queue_lets_run_what_runs_and_starts_nothing_until_it_is_undone(
    tmp_path: Path,
) -> None:
    async def story(stage: Stage) -> None:
        runs = await stage.ask(ANA, kind="lease", gpu=1, queue="team-a", name="runs")
        made = await change(stage, kind="drain")
        waits = await stage.ask(ANA, kind="lease", gpu=1, queue="team-a", name="waits")
        beside = await stage.ask(BEN, kind="lease", gpu=1, queue="team-b")
        assert [runs.state, waits.state, beside.state] == ["Starting", "Waiting", "Starting"]
        assert waits.eta is not None
        assert waits.eta.text == "no time known"
        back = await stage.service.undo(LEAD, made.id, Undo(reason="The node is back"))
        await stage.turn()
        assert not back.in_force
        assert (await stage.view(ANA, "waits")).state == "Starting"
        assert stage.service.audit.lines(last=1)[0].action == "lead.undo"

    lived(tmp_path, story)


# -- one request -----------------------------------------------------------------------------------
def test_a_request_is_moved_in_its_queue_and_back_and_its_owner_reads_why(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        for name in ("filler", "first", "second"):
            await stage.ask(BEN, kind="lease", gpu=1, queue="team-a", name=name)
        first = await stage.view(BEN, "second")
        assert first.position == 2
        made = await change(stage, kind="priority", group="ben/second", place="first")
        moved = await stage.view(BEN, "second")
        assert moved.position == 1
        assert any("Deadline of the report" in note for note in moved.notes)
        assert any("Deadline of the report" in entry.text for entry in moved.timeline)
        (notice,) = [n for n in told(stage, "ben") if n.kind == "lead"]
        assert "mira: Puts second first in team-a. Deadline of the report." in notice.text
        await stage.service.undo(LEAD, made.id, Undo())
        await stage.turn()
        back = await stage.view(BEN, "second")
        assert (back.position, back.priority, back.notes) == (2, 100, first.notes)

    lived(tmp_path, story, devices="1x24GiB")


def test_a_lease_is_released_with_a_message_and_can_be_asked_for_before(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask(ANA, kind="lease", gpu=0.5, queue="team-a", name="idle")
        await change(stage, kind="ask", group="ana/idle", reason="Do you need it?")
        again = await refused(stage, kind="ask", group="ana/idle")
        assert again.problem.code == "nothing_to_change"
        assert (await stage.view(ANA, "idle")).state == "Starting"
        made = await change(stage, kind="release", group="ana/idle", reason="It did nothing today")
        assert not made.may_undo
        view = await stage.view(ANA, "idle")
        assert view.state in {"Stopping", "Cancelled"}
        texts = [n.text for n in told(stage, "ana") if n.kind == "lead"]
        assert any("Asks you to release 0.5 GPU. Do you need it?" in text for text in texts)
        assert any("Releases 0.5 GPU. It did nothing today." in text for text in texts)
        line = stage.service.audit.lines(last=1)[0]
        assert (line.user, line.action, line.object) == ("mira", "lead.release", "ana/idle")
        assert line.facts["reason"] == "It did nothing today"

    lived(tmp_path, story)


def test_a_change_is_undone_by_a_lead_of_its_queue_only_and_once(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        made = await change(stage, kind="drain")
        for stranger in (BEN, Caller("kim", scopes=frozenset({"read", "lead:team-b"}))):
            with pytest.raises(NotFound):
                await stage.service.undo(stranger, made.id, Undo())
        first = await stage.service.undo(ROOT, made.id, Undo(reason="done"))
        again = await stage.service.undo(LEAD, made.id, Undo(reason="twice"))
        assert again.ended_at == first.ended_at
        assert again.ended_why == first.ended_why == "done"

    lived(tmp_path, story)


def test_a_change_of_a_request_that_is_over_ends_by_itself(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        for name in ("filler", "other", "short"):
            await stage.ask(BEN, kind="lease", gpu=1, queue="team-a", name=name)
        await change(stage, kind="priority", group="ben/short", place="first")
        await stage.service.cancel(BEN, "ben", "short", Cancel())
        await stage.pass_s(1)
        assert stage.service.overlays.in_force() == ()

    lived(tmp_path, story, devices="1x24GiB")


def test_who_is_put_first_is_first_also_before_one_that_waited_long(
    tmp_path: Path,
) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask(ANA, gpu=1, queue="team-a", name="runs", preemptible=False)
        await stage.start(ANA)
        await stage.ask(BEN, gpu=1, queue="team-a", name="old")
        await stage.pass_s(3 * 3600)
        await stage.ask(BEN, gpu=1, queue="team-a", name="new")
        assert (await stage.view(BEN, "new")).position == 2
        ask = LeadAsk(kind="priority", queue="team-a", group="ben/new", place="first", reason="x")
        seen = await stage.service.what_if(LEAD, ask)
        made = await change(stage, kind="priority", group="ben/new", place="first")
        assert (await stage.view(BEN, "new")).position == 1
        assert seen.headline == "Nothing changes at once."
        await stage.restart()
        assert (await stage.view(BEN, "new")).position == 1
        await stage.service.undo(LEAD, made.id, Undo())
        await stage.turn()
        assert (await stage.view(BEN, "new")).position == 2
        last = await change(stage, kind="priority", group="ben/old", place="last")
        assert last.text == "Puts old last in team-a"
        assert (await stage.view(BEN, "old")).position == 2

    lived(tmp_path, story, devices="1x24GiB")


def test_the_planner_says_beforehand_whom_it_stops_when_one_is_put_first(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask(ANA, gpu=1, queue="team-a", name="runs", priority=50)
        await stage.start(ANA)
        await stage.ask(BEN, gpu=1, queue="team-a", name="old")
        await stage.pass_s(3 * 3600)  # it has aged; nobody is stopped for that
        await stage.ask(BEN, gpu=1, queue="team-a", name="new")
        ask = LeadAsk(kind="priority", queue="team-a", group="ben/new", place="first", reason="x")
        seen = await stage.service.what_if(LEAD, ask)
        assert [line.partition(" (")[0] for line in seen.pays] == ["ana"]
        assert (await stage.view(ANA, "runs")).state == "Running"

    lived(tmp_path, story, devices="1x24GiB")
