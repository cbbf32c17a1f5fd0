"""Idle servers: never one that works, never without a warning, the GPU before the server."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_jupyter.hub.culling import MARGIN_S, Facts, Past, Rule, Rules, Step, decide, warning_of

RULE = Rule(warn_s=1800, release_s=3600, stop_s=7200)
QUIET = Facts(worked_at=0.0)


def story(facts: Facts, *moments: float, rule: Rule = RULE, past: Past | None = None) -> list[Step]:
    steps, past = [], past or Past()
    for now in moments:
        step, past = decide(facts, past, rule, now)
        steps.append(step)
    return steps


def test_a_server_without_a_gpu_is_warned_and_stopped() -> None:
    assert story(QUIET, 60, 1800, 1860, 7199, 7200) == [
        Step.NOTHING,
        Step.WARN_STOP,
        Step.NOTHING,
        Step.NOTHING,
        Step.STOP,
    ]


def test_leases_go_before_the_server() -> None:
    leasing = Facts(worked_at=0.0, has_leases=True)
    assert story(leasing, 1800, 3600) == [Step.WARN_RELEASE, Step.RELEASE]
    assert story(QUIET, 3660, 7200, past=Past(worked_at=0)) == [Step.WARN_STOP, Step.STOP]


def test_a_gpu_of_the_server_goes_with_it_at_the_time_of_release() -> None:
    assert story(Facts(worked_at=0.0, holds_gpu=True), 1800, 3600) == [Step.WARN_STOP, Step.STOP]


def test_a_busy_kernel_or_gpu_is_work_however_long_it_takes() -> None:
    assert set(story(Facts(is_busy=True, worked_at=0.0), *range(0, 10**6, 50_000))) == {
        Step.NOTHING
    }


def test_a_server_that_does_not_answer_is_not_idle() -> None:
    assert story(Facts(is_known=False), 10**6, 2 * 10**6) == [Step.NOTHING, Step.NOTHING]


def test_who_comes_back_in_time_keeps_all_and_is_warned_anew() -> None:
    _, warned = decide(QUIET, Past(), RULE, 1800)
    step, past = decide(Facts(worked_at=1900.0), warned, RULE, 3600)
    assert step is Step.NOTHING
    assert past.warned_at is None
    assert decide(Facts(worked_at=1900.0), past, RULE, 3800)[0] is Step.WARN_STOP


def test_a_culler_that_was_restarted_warns_before_it_acts() -> None:
    assert story(QUIET, 10**6, 10**6 + 60, 10**6 + MARGIN_S) == [
        Step.WARN_STOP,
        Step.NOTHING,
        Step.STOP,
    ]


def test_a_queue_may_have_its_own_rule_or_none() -> None:
    rules = Rules(usual=RULE, queues={"team-a": Rule(release_s=None, stop_s=None)})
    assert rules.of("team-b") is RULE
    never = rules.of("team-a")
    assert set(story(Facts(holds_gpu=True), 10**6, 10**7, rule=never)) == {Step.NOTHING}


@given(
    st.lists(st.tuples(st.integers(1, 3000), st.booleans(), st.booleans()), max_size=60),
    st.integers(0, 9000),
    st.integers(0, 9000),
)
def test_nothing_is_taken_without_a_warning_a_while_before(
    looks: list[tuple[int, bool, bool]], warn_s: int, limit_s: int
) -> None:
    rule = Rule(warn_s=warn_s, release_s=limit_s, stop_s=limit_s)
    now, past, warned_at, worked_at = 0.0, Past(), None, 0.0
    for passed, is_busy, has_leases in looks:
        now += passed
        worked_at = now if is_busy else worked_at
        facts = Facts(is_busy=is_busy, worked_at=worked_at, has_leases=has_leases)
        step, past = decide(facts, past, rule, now)
        if step in {Step.WARN_RELEASE, Step.WARN_STOP}:
            warned_at = now
        if step in {Step.RELEASE, Step.STOP}:
            assert not is_busy
            assert warned_at is not None
            assert warned_at > worked_at
            assert now - warned_at >= min(MARGIN_S, limit_s)
            assert now - worked_at >= limit_s


def test_the_warning_says_what_when_and_what_to_do() -> None:
    told = warning_of(Step.WARN_STOP, 1800, 1800)
    assert told == (
        "Idle for 30 min: in 30 min this server is stopped. "
        "Run any cell to keep it; files are safe either way."
    )
    assert "its GPUs are given back" in warning_of(Step.WARN_RELEASE, 60, 7200)
