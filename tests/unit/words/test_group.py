"""The words of every state, one line each, as the card shows them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from scheduler_service.model.gpu import GpuShare
from scheduler_service.model.pod import PodState
from scheduler_service.model.reasons import GangShort, NeverFits, OverLimit, ReclaimedBy
from scheduler_service.store import life
from scheduler_service.store.records import Ending, GroupRecord
from scheduler_service.wire.pod_group import EtaView, Process, Progress, Submit
from scheduler_service.wire.runner import Failure, Report
from scheduler_service.words.group import Standing, words_of
from scheduler_service.words.units import clock_words
from tests.unit.store.test_groups import record

NOW = 1_900_000_000_000
LATER = NOW + 7_200_000
ETA = EtaView(basis="declared", text="about 6 min (4 to 11)")
QUOTA = OverLimit("team-a", "gpu", 8000, 7750, 500)


def lease(**changes: object) -> GroupRecord:
    base = record("lease")
    ask = Submit(kind="lease", lease_s=7200)
    fields = {"ask": ask, "created_at": NOW - 720_000, "process": Process(pid=1, start_ticks=1)}
    return replace(base, **{**fields, **changes})


def at_work(group: GroupRecord) -> GroupRecord:
    places = {
        pod.rank: life.Place("gpu-3", (GpuShare("G", 500, 40_960),), f"i{pod.rank}")
        for pod in group.pods
    }
    group = life.granted(group, places, NOW)
    for rank in places:
        report = Report(incarnation=f"i{rank}", kind="started", at=NOW)
        group = life.started(group, rank, report, NOW)
    return group


def over(group: GroupRecord, how: str, **more: object) -> GroupRecord:
    ending = Ending(how=how, at=NOW, **more)  # type: ignore[arg-type]
    group = life.stopping(group, ending, line="…")
    for pod in group.pods:
        report = Report(incarnation=pod.incarnation or "", kind="ended", at=LATER, exit_code=0)
        group = life.ended(group, pod.rank, report, LATER)
    return group


def gang(workers: int = 8) -> GroupRecord:
    base = record("sweep-lr", workers=workers)
    return replace(base, ask=Submit(kind="gang", workers=workers))


def failed_gang() -> GroupRecord:
    group = at_work(gang())
    failure = Failure(message="OutOfMemoryError: 41.3 GB needed\nmore", traceback="")
    group = life.ended(
        group, 5, Report(incarnation="i5", kind="ended", at=NOW, exit_code=1, failure=failure), NOW
    )
    for pod in group.pods:
        report = Report(incarnation=pod.incarnation or "", kind="ended", at=LATER, signal="SIGTERM")
        group = life.ended(group, pod.rank, report, LATER)
    return group


def finished_gang() -> GroupRecord:
    group = at_work(gang())
    for pod in group.pods:
        report = Report(incarnation=f"i{pod.rank}", kind="ended", at=LATER, exit_code=0)
        group = life.ended(group, pod.rank, report, LATER)
    return group


RECLAIMED = ReclaimedBy("ben/x", "team-b", "team-a")
FAILED_FIRST = (
    f"Worker 5 failed first, at {clock_words(NOW, seconds=True)}. The other 7 were stopped with it."
)
AT, UNTIL = clock_words(LATER), clock_words(LATER, NOW)
STATES: dict[str, tuple[GroupRecord, Standing, tuple[str, str, str, str]]] = {
    "checking": (lease(), Standing(), ("Checking", "mute", "dots", "Checking your quota.")),
    "waiting": (
        lease(),
        Standing(position=3, waiting_in_queue=7, eta=ETA, reason=QUOTA),
        ("Waiting", "wait", "hourglass", "Position 3 of 7. About 6 min (4 to 11)."),
    ),
    "waiting, no time": (
        lease(),
        Standing(position=1, waiting_in_queue=1, eta=EtaView()),
        ("Waiting", "wait", "hourglass", "Position 1 of 1. No time known yet."),
    ),
    "gang waiting": (
        gang(),
        Standing(position=1, eta=ETA, reason=GangShort(6, 8), fitting=6),
        (
            "Waiting",
            "wait",
            "squares",
            "6 of 8 workers fit. Starts when all 8 do. About 6 min (4 to 11).",
        ),
    ),
    "never": (
        lease(),
        Standing(position=1, reason=NeverFits("gpu", 16_000, 8000)),
        (
            "Cannot start",
            "stop",
            "octagon",
            "Never: needs 16 GPUs on one node; the largest has 8 GPUs.",
        ),
    ),
    "granted": (
        at_work(lease()),
        Standing(),
        ("Granted", "ok", "tick", f"0.5 GPU on gpu-3 until {UNTIL} (40 GiB)"),
    ),
    "idle": (
        at_work(lease()),
        Standing(idle_ms=900_000),
        (
            "Idle 15 min",
            "wait",
            "moon",
            f"The GPU has done nothing since {clock_words(NOW - 900_000)}.",
        ),
    ),
    "restarting": (
        life.process_gone(at_work(lease()), 0, NOW),
        Standing(),
        ("Restarting", "wait", "hourglass", "The kernel ended; its GPU waits for the restart."),
    ),
    "gang running": (
        at_work(gang()),
        Standing(progress={0: Progress(step=1240, total=3200)}),
        (
            "Running",
            "run",
            "triangle",
            f"8 of 8 workers run, since {clock_words(NOW)}. Step 1,240 of 3,200.",
        ),
    ),
    "evicting": (
        life.stopping(
            at_work(lease()),
            Ending(how="evicted", at=NOW, grace_s=90, reason=RECLAIMED, text=str(RECLAIMED)),
            line="…",
        ),
        Standing(),
        (
            "Taken back in 90 s",
            "stop",
            "bell",
            "Stopped: queue team-b takes back its share for ben/x.",
        ),
    ),
    "stopping": (
        life.stopping(at_work(gang()), Ending(how="cancelled", at=NOW), line="…"),
        Standing(),
        ("Stopping", "run", "arrow", "8 workers are asked to end; it has 15 s to save."),
    ),
    "lost": (
        over(at_work(lease()), "evicted", text=str(RECLAIMED)),
        Standing(),
        (
            "Lost",
            "stop",
            "cross",
            f"Your GPU was taken back at {AT}. Variables are gone; files are safe.",
        ),
    ),
    "released": (
        over(at_work(lease()), "released", by="ana"),
        Standing(),
        ("Released", "mute", "tick", "Released. 1.0 GPU-hours used."),
    ),
    "withdrawn": (
        over(lease(), "cancelled", by="ana"),
        Standing(),
        ("Cancelled", "mute", "tick", "Cancelled. It held no GPU."),
    ),
    "gang failed": (
        failed_gang(),
        Standing(),
        (
            "Failed",
            "stop",
            "cross",
            FAILED_FIRST,
        ),
    ),
    "gang finished": (
        finished_gang(),
        Standing(),
        ("Finished", "ok", "tick", f"All 8 workers finished at {AT}. 4 GPUs are released."),
    ),
}


@pytest.mark.parametrize(("group", "standing", "expected"), STATES.values(), ids=STATES.keys())
def test_words_of_each_state(
    group: GroupRecord, standing: Standing, expected: tuple[str, str, str, str]
) -> None:
    said = words_of(group, standing, NOW)
    assert (said.word, said.tone, said.icon, said.headline) == expected
    assert len(said.headline) <= 90
    assert len(said.detail) <= 90


def test_details() -> None:
    waiting = words_of(*STATES["waiting"][:2], NOW)
    assert waiting.detail == "Queue team-a is limited to 8 GPUs: 7.75 GPUs used, 0.5 GPU wanted."
    assert waiting.sentence == f"{waiting.headline} {waiting.detail}"
    assert words_of(*STATES["gang failed"][:2], NOW).detail == "OutOfMemoryError: 41.3 GB needed"
    assert words_of(*STATES["granted"][:2], NOW).detail == "Queue default, waited 12 min."
    assert words_of(*STATES["lost"][:2], NOW).detail == str(RECLAIMED)


def test_a_long_name_of_a_node_is_cut_not_wrapped() -> None:
    group = at_work(lease())
    pods = tuple(replace(pod, node="n" * 200) for pod in group.pods)
    said = words_of(replace(group, pods=pods), Standing(), NOW)
    assert (len(said.headline), said.headline[-1]) == (90, "…")


def test_pods_that_are_bound_are_starting() -> None:
    group = life.granted(
        gang(2), {0: life.Place("gpu-3", (), "a"), 1: life.Place("gpu-3", (), "b")}, NOW
    )
    group = life.started(group, 0, Report(incarnation="a", kind="started", at=NOW), NOW)
    assert group.pods[1].state is PodState.BINDING
    assert words_of(group, Standing(), NOW).headline == "1 of 2 workers started on gpu-3."
