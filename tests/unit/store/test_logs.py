"""Log lines: in order, once each, bounded; trouble with the disk is counted and told, never raised."""

from __future__ import annotations

import asyncio
from pathlib import Path

from scheduler_service.store.logs import LogStore
from scheduler_service.wire.runner import LogChunk, LogLine


def chunk(*seqs: int, rank: int = 0, text: str = "x") -> LogChunk:
    return LogChunk(
        lines=tuple(
            LogLine(seq=seq, at=seq, rank=rank, stream="stdout", text=f"{text}{seq}")
            for seq in seqs
        )
    )


def test_ranks_are_mixed_in_order_of_arrival_and_can_be_told_apart(tmp_path: Path) -> None:
    logs = LogStore(tmp_path / "logs.db", lines_per_group=100)
    logs.append("n/g", "i0", chunk(0, 1))
    logs.append("n/g", "i1", chunk(0, rank=1))
    logs.append("n/other", "j", chunk(0))
    logs.append("n/g", "i0", chunk(1, 2))
    everything = logs.page("n/g", rank=None, after=0, tail=None, ended=False)
    assert [(line.rank, line.seq) for line in everything.lines] == [(0, 0), (0, 1), (1, 0), (0, 2)]
    one = logs.page("n/g", rank=1, after=0, tail=None, ended=False)
    assert [line.rank for line in one.lines] == [1]
    tail = logs.page("n/g", rank=None, after=0, tail=2, ended=True)
    assert [(line.rank, line.seq) for line in tail.lines] == [(1, 0), (0, 2)]
    assert tail.ended
    assert logs.page("n/none", rank=None, after=0, tail=None, ended=True).lines == ()


def test_a_group_keeps_its_last_lines_and_says_how_many_are_gone(tmp_path: Path) -> None:
    logs = LogStore(tmp_path / "logs.db", lines_per_group=10)
    for seq in range(25):
        logs.append("n/g", "i", chunk(seq))
    page = logs.page("n/g", rank=None, after=0, tail=None, ended=False)
    assert page.lines[-1].seq == 24
    assert len(page.lines) <= 10
    assert page.dropped == 25 - len(page.lines)
    again = LogStore(tmp_path / "logs.db", lines_per_group=10)
    kept = again.page("n/g", rank=None, after=0, tail=None, ended=False)
    assert (kept.lines, kept.dropped) == (page.lines, page.dropped)


def test_a_full_disk_drops_lines_tells_it_and_recovers(tmp_path: Path) -> None:
    logs = LogStore(tmp_path / "logs.db", lines_per_group=10_000)
    logs.append("n/g", "i", chunk(0))
    pages = logs._connection.execute("PRAGMA page_count").fetchone()[0]
    logs._connection.execute(f"PRAGMA max_page_count={pages}")
    logs.append("n/g", "i", chunk(1, 2, text="y" * 50_000))
    assert logs.fault is not None
    assert "Log lines are being dropped" in logs.fault
    assert logs.page("n/g", rank=None, after=0, tail=None, ended=False).dropped == 2
    logs._connection.execute("PRAGMA max_page_count=1000000")
    logs.append("n/g", "i", chunk(3))
    assert logs.fault is None
    page = logs.page("n/g", rank=None, after=0, tail=None, ended=False)
    assert [line.seq for line in page.lines] == [0, 3]


def test_waiting_ends_with_the_first_line(tmp_path: Path) -> None:
    async def story() -> bool:
        logs = LogStore(tmp_path / "logs.db", lines_per_group=10)
        waiting = asyncio.create_task(logs.wait_for_more(60))
        await asyncio.sleep(0)
        logs.append("n/g", "i", chunk(0))
        return await waiting

    assert asyncio.run(story())


def test_forgotten_groups_leave_nothing(tmp_path: Path) -> None:
    logs = LogStore(tmp_path / "logs.db", lines_per_group=10)
    logs.append("n/g", "i", chunk(0, 1))
    logs.append("n/h", "j", chunk(0))
    logs.forget(["n/g"])
    assert logs.page("n/g", rank=None, after=0, tail=None, ended=True).lines == ()
    assert len(logs.page("n/h", rank=None, after=0, tail=None, ended=True).lines) == 1
