"""The disk has no room left: a sentence for each request, nothing half done, and it goes on when there is room."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler_service.ports import RefusedRequest
from scheduler_service.wire.pod_group import Work
from scheduler_service.wire.runner import Report
from tests.fakes.bench_service import ANA, Stage


def fill(stage: Stage) -> None:
    """Let the database grow no more: SQLite then answers as on a full disk."""
    connection = stage.service._connection
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")


def free(stage: Stage) -> None:
    stage.service._connection.execute("PRAGMA max_page_count=1000000")


def test_a_request_is_refused_and_made_later_with_the_same_key(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=0.5, name="before")
        fill(stage)
        big = Work(command=("true",), env={"LONG": "x" * 100_000})
        problem = await stage.refusal(gpu=0.5, key="k", work=big)
        assert problem.status == 507
        assert problem.code == "disk_full"
        assert "Free some space" in problem.hint
        free(stage)
        kept = await stage.ask(gpu=0.5, key="k", work=big)
        assert (kept.state, len(stage.service.records)) == ("Starting", 2)

    asyncio.run(story())


def test_a_report_that_can_not_be_kept_is_to_be_sent_again(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        await stage.ask(gpu=0.5, name="train")
        (order,) = await stage.start()
        fill(stage)
        long = Report(
            incarnation=order.incarnation,
            kind="ended",
            at=stage.clock(),
            exit_code=1,
            reason_text="x" * 100_000,
        )
        with pytest.raises(RefusedRequest) as refused:
            await stage.service.report(ANA, long)
        assert refused.value.problem.status == 507
        assert (await stage.view(ANA, "train")).state == "Running"
        free(stage)
        await stage.service.report(ANA, long)
        assert (await stage.view(ANA, "train")).state == "Failed"

    asyncio.run(story())
