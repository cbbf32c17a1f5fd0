"""Six stages that never go back, in the scheduler's sentences, with nothing of them as raw HTML."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kai_jupyter.hub.stages import (
    DONE,
    FLOOR,
    GRANTED,
    IMAGE,
    QUEUED,
    STAGES,
    STARTING,
    Course,
    Standing,
    follow,
)
from scheduler_service.wire.pod_group import EtaView, PodGroupView, RequestView

VIEW = PodGroupView(
    namespace="ana",
    name="server",
    owner="ana",
    mine=True,
    kind="server",
    queue="team-a",
    request=RequestView(text="0.5 GPU"),
    workers=1,
    min_members=1,
    priority=100,
    preemptible=False,
    state="Waiting",
    word="Waiting",
    tone="wait",
    icon="hourglass",
    headline="Position 3 of 7. About 6 min (4 to 11).",
    detail="Team-a uses 7.75 of 8 GPUs; 0.5 more makes 8.25.",
    sentence="",
    rev=1,
    created_at=1_000,
)


def test_who_waits_is_told_the_schedulers_own_words() -> None:
    course = Course("Your server waits for 0.5 GPU", 1_000)
    standing = follow(course, VIEW, 2_000)
    assert (standing.stage, standing.headline, standing.detail) == (
        QUEUED,
        VIEW.headline,
        VIEW.detail,
    )
    assert standing.keeps_place
    assert standing.began[:3] == (1_000, 2_000, None)
    assert standing.event()["message"] == f"{VIEW.headline} {VIEW.detail}"


def test_the_bar_follows_the_expected_wait() -> None:
    course = Course("", 1_000)
    eta = EtaView(likely_at=101_000, basis="declared", text="about 2 min")
    half = follow(course, replace(VIEW, eta=eta), 51_000)
    assert half.percent == (FLOOR[QUEUED] + FLOOR[GRANTED]) // 2
    assert half.notes[QUEUED] == "about 2 min"
    late = follow(course, replace(VIEW, eta=eta), 900_000)
    assert late.percent == FLOOR[GRANTED]


def test_a_grant_that_is_taken_back_moves_the_words_and_not_the_bar() -> None:
    course = Course("", 0)
    follow(course, replace(VIEW, state="Running", headline="0.5 GPU on gpu-3."), 10)
    again = follow(course, VIEW, 20)
    assert (again.stage, again.percent) == (GRANTED, FLOOR[GRANTED])
    assert again.headline == VIEW.headline


def test_names_are_never_html() -> None:
    bad = replace(VIEW, headline="<img src=x onerror=alert(1)>", detail="a & b <b>")
    event = follow(Course("", 0), bad, 1).event()
    assert "<img" not in event["html_message"]
    assert "a &amp; b &lt;b&gt;" in event["html_message"]


MOVES = st.lists(st.tuples(st.integers(0, len(STAGES) - 1), st.floats(-1, 2)))


@given(MOVES)
def test_it_never_goes_back(moves: list[tuple[int, float]]) -> None:
    course = Course("", 0)
    before: Standing = course.standing
    for now, (stage, part) in enumerate(moves):
        after = course.reach(stage, now, part=part)
        assert after.stage >= before.stage
        assert after.percent >= before.percent
        assert after.percent <= DONE
        known = [at for at in after.began[: after.stage + 1] if at is not None]
        assert len(known) == after.stage + 1
        assert known == sorted(known)
        before = after


def test_notes_stand_beside_their_stage() -> None:
    course = Course("", 0)
    course.note(IMAGE, "7.9 GB, usually 2 min")
    course.note(STARTING, "usually 20 s")
    assert course.standing.notes[IMAGE:] == ("7.9 GB, usually 2 min", "usually 20 s")
