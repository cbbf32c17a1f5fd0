"""How a group lives. The laws hold for any order of events, also late, repeated and contradictory ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.model.gpu import GpuShare
from scheduler_service.model.pod import PodState
from scheduler_service.store import life
from scheduler_service.store.records import Ending, GroupRecord
from scheduler_service.wire.runner import Report
from scheduler_service.words.group import Standing, state_of, words_of
from tests.unit.store.test_groups import record

STEPS = ("grant", "start", "end well", "end badly", "cancel", "evict", "requeue", "claim", "gone")
TERMINAL = {"Succeeded", "Failed", "Cancelled", "Evicted"}


def place(rank: int, number: int) -> life.Place:
    return life.Place("node-0", (GpuShare("GPU-0", 250, 6144),), f"inc-{rank}-{number}")


def told(incarnation: str | None, kind: str, at: int, **more: object) -> Report:
    return Report(incarnation=incarnation or "", kind=kind, at=at, **more)  # type: ignore[arg-type]


def step(group: GroupRecord, what: str, rank: int, now: int) -> GroupRecord:  # noqa: PLR0911 - one a step
    pod = group.pods[rank]
    if what == "grant":
        waiting = [p.rank for p in group.pods if p.state is PodState.PENDING]
        can = group.ending is None and waiting
        return life.granted(group, {r: place(r, now) for r in waiting}, now) if can else group
    if what == "start":
        return life.started(group, rank, told(pod.incarnation, "started", now, pid=1), now)
    if what.startswith("end"):
        code = 0 if what == "end well" else 1
        return life.ended(group, rank, told(pod.incarnation, "ended", now, exit_code=code), now)
    if what == "claim":
        return life.claimed(group, (rank,), "runner") if pod.is_occupied else group
    if what == "gone":
        return life.process_gone(group, rank, now) if pod.state is PodState.RUNNING else group
    how = {"cancel": "cancelled", "evict": "evicted", "requeue": "evicted"}[what]
    ending = Ending(how=how, at=now, requeue=what == "requeue")  # type: ignore[arg-type]
    if what == "cancel":
        return life.stopping(group, ending, line="Cancelled")
    occupied = [p.rank for p in group.pods if p.is_occupied]
    return life.evicted(group, occupied[: rank + 1], ending, line="Evicted") if occupied else group


@given(
    workers=st.integers(1, 4),
    elastic=st.booleans(),
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), max_size=25),
)
def test_laws_of_a_life(workers: int, elastic: bool, steps: list[tuple[str, int]]) -> None:
    group = record(workers=workers)
    if elastic:
        group = life.replace(group, min_members=1)
    for now, (what, rank) in enumerate(steps, start=1):
        before = group
        group = step(group, what, rank % workers, now * 1000)
        if before.is_over:
            assert group == before, "what is over stays over"
        for pod in group.pods:
            assert pod.is_occupied == (pod.node is not None and not pod.is_finished)
            assert pod.is_occupied <= (pod.incarnation is not None)
        assert not (group.is_over and any(pod.is_occupied for pod in group.pods))
        assert (state_of(group) in TERMINAL) == group.is_over
        assert group.used_gpu_ms >= before.used_gpu_ms
        said = words_of(group, Standing(position=1, waiting_in_queue=1), now * 1000)
        assert said.headline
        assert max(len(said.headline), len(said.detail)) <= 90


def test_a_late_start_does_not_wake_what_is_leaving() -> None:
    group = life.granted(record(), {0: place(0, 1)}, 1)
    group = life.stopping(group, Ending(how="cancelled", at=2), line="Cancelled")
    late = life.started(group, 0, told("inc-0-1", "started", 3), 3)
    assert late.pods[0].state is PodState.RELEASING


def test_a_gang_that_met_a_taken_port_says_so_once_and_its_new_processes_are_known() -> None:
    group = life.granted(record(workers=2), {rank: place(rank, 1) for rank in (0, 1)}, 1)
    for rank in (0, 1):
        group = life.started(group, rank, told(f"inc-{rank}-1", "started", 2, pid=10 + rank), 2)
    for _ in range(2):
        for rank in (0, 1):
            again = told(f"inc-{rank}-1", "started", 3, pid=20 + rank, reason_code=life.PORT_CLASH)
            group = life.started(group, rank, again, 3)
    assert [(pod.pid, pod.started_at) for pod in group.pods] == [(20, 2), (21, 2)]
    lines = [line.text for line in group.timeline]
    assert lines[-2:] == ["All 2 workers started", life.STARTED_AGAIN]


def test_an_evicted_batch_waits_again_with_its_use_kept() -> None:
    group = life.granted(record(), {0: place(0, 1)}, 0)
    group = life.started(group, 0, told("inc-0-1", "started", 0), 0)
    ending = Ending(how="evicted", at=3_600_000, requeue=True)
    group = life.evicted(group, [0], ending, line="Makes room")
    group = life.ended(group, 0, told("inc-0-1", "ended", 1, signal="SIGTERM"), 3_600_000)
    assert state_of(group) == "Waiting"
    assert (group.requeues, group.granted_at, group.used_gpu_ms) == (1, None, 900_000)
    assert group.pods[0].incarnation is None


def test_cancelling_while_it_is_being_evicted_ends_it() -> None:
    group = life.granted(record(), {0: place(0, 1)}, 0)
    group = life.evicted(group, [0], Ending(how="evicted", at=1, requeue=True), line="Makes room")
    group = life.stopping(group, Ending(how="cancelled", at=2), line="Cancelled")
    group = life.ended(group, 0, told("inc-0-1", "ended", 3, exit_code=0), 3)
    assert state_of(group) == "Cancelled"


def test_surplus_workers_leave_and_the_gang_goes_on() -> None:
    group = life.replace(record(workers=3), min_members=1)
    group = life.granted(group, {rank: place(rank, 1) for rank in range(3)}, 0)
    for rank in range(3):
        group = life.started(group, rank, told(f"inc-{rank}-1", "started", 0), 0)
    group = life.evicted(group, [2], Ending(how="evicted", at=1), line="Makes room")
    assert state_of(group) == "Running"
    group = life.ended(group, 2, told("inc-2-1", "ended", 2, signal="SIGTERM"), 2)
    assert [pod.state for pod in group.pods] == ["running", "running", "pending"]


def test_a_long_timeline_keeps_its_beginning_and_its_end() -> None:
    group = record()
    for number in range(200):
        group = life.told(group, number, f"line {number}")
    texts = [entry.text for entry in group.timeline]
    assert len(texts) == life.TIMELINE_LENGTH
    assert (texts[0], texts[4], texts[-1]) == ("line 0", "line 4", "line 199")


def test_lines_that_a_full_disk_lost_are_told_and_fail_nobody() -> None:
    group = life.granted(record(workers=1), {0: place(0, 1)}, 1)
    group = life.started(group, 0, told("inc-0-1", "started", 2, pid=1), 2)
    lost = {"reason_code": "log_disk_full", "reason_text": "Lines were lost: 3."}
    good = life.ended(group, 0, told("inc-0-1", "ended", 3, exit_code=0, **lost), 3)
    assert (state_of(good), good.pods[0].reason_text) == ("Succeeded", "Lines were lost: 3.")
    bad = life.ended(group, 0, told("inc-0-1", "ended", 3, exit_code=1, **lost), 3)
    assert state_of(bad) == "Failed"
