"""When would it start, and what would help: explain and forecast."""

from __future__ import annotations

from scheduler_service.model.gpu import FractionOfGpu, GpuRequest, WholeGpus
from scheduler_service.model.pod import Pod, PodRequest
from scheduler_service.model.pod_group import PodGroup, Preemptibility, flat_gang
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.reasons import (
    NeverFits,
    NonPreemptibleOverQuota,
    NotEnoughOnNode,
    OverLimit,
    WaitsForRelease,
)
from scheduler_service.model.resources import QueueShare
from scheduler_service.planning.explain import explain
from scheduler_service.planning.forecast import RunTime, forecast, forecast_waiting
from tests.properties.book import image
from tests.unit.small_world import NOW_MS, ONE, SmallWorld, node, queue

PLAIN = Policy.conformance()


def request(gpu: GpuRequest, *, workers: int = 1, to: str = "team") -> tuple[PodGroup, list[Pod]]:
    """Return a group that nobody asked for yet."""
    group = PodGroup(name="wish", namespace="d", queue=to, gang=flat_gang(workers), created=99)
    pods = [
        Pod(f"wish-{i}", "d", "d/wish", request=PodRequest(1000, 1 << 30, gpu))
        for i in range(workers)
    ]
    return group, pods


def test_what_fits_starts_now_and_the_book_is_as_before() -> None:
    ledger = SmallWorld().ledger()
    before = image(ledger)

    answer = forecast(ledger, PLAIN, request(ONE), NOW_MS)

    assert answer.verdict == "now"
    assert image(ledger) == before
    assert ledger.snapshot(NOW_MS) == SmallWorld().ledger().snapshot(NOW_MS)


def test_what_can_never_fit_says_why() -> None:
    world = SmallWorld(queues=[queue("team", limit=1000)])

    larger_than_nodes = forecast(SmallWorld().ledger(), PLAIN, request(WholeGpus(16)), NOW_MS)
    over_limit = forecast(world.ledger(), PLAIN, request(WholeGpus(2)), NOW_MS)

    assert (larger_than_nodes.verdict, over_limit.verdict) == ("never", "never")
    assert isinstance(larger_than_nodes.reason, NeverFits)
    assert isinstance(over_limit.reason, OverLimit)


def test_what_a_queue_can_have_once_others_of_it_end_is_not_never() -> None:
    firm = Preemptibility.NON_PREEMPTIBLE
    bounds = QueueShare(quota=1000, limit=1000)
    world = SmallWorld(queues=[Queue("team", gpu=bounds)])
    world.runs("a", ONE, on="n0", preemptibility=firm)
    soft, hard = world.waits("soft", ONE), world.waits("hard", ONE, preemptibility=firm)

    answers = forecast_waiting(world.ledger(), PLAIN, (soft, hard), NOW_MS)

    assert {answers[key].verdict for key in (soft, hard)} == {"unknown"}
    assert isinstance(answers[soft].reason, OverLimit)
    world.queues[0] = Queue("team", gpu=QueueShare(quota=1000))
    over_quota = forecast_waiting(world.ledger(), PLAIN, (hard,), NOW_MS)[hard]
    assert over_quota.verdict == "unknown"
    assert isinstance(over_quota.reason, NonPreemptibleOverQuota)


def test_the_time_follows_from_what_runs() -> None:
    world = SmallWorld()
    world.runs("a", ONE, on="n0")
    world.runs("b", ONE, on="n0")
    times = {"d/a": RunTime(1000, 4000), "d/b": RunTime(2000, 9000)}

    answer = forecast(world.ledger(), PLAIN, request(ONE), NOW_MS, times)

    assert (answer.verdict, answer.eta_ms) == ("about", (1000, 4000))


def test_those_ahead_take_the_first_places() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    world.runs("a", ONE, on="n0")
    first = world.waits("first", ONE)
    second = world.waits("second", ONE)
    times = {"d/a": RunTime(1000, 2000), first: RunTime(500, 700)}

    answers = forecast_waiting(world.ledger(), PLAIN, (first, second), NOW_MS, times)

    assert answers[first].eta_ms == (1000, 2000)
    assert answers[second].eta_ms == (1500, 2700)
    assert answers[second].position == 2


def test_without_numbers_nothing_is_promised() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    world.runs("a", ONE, on="n0")

    answer = forecast(world.ledger(), PLAIN, request(ONE), NOW_MS)

    assert (answer.verdict, answer.eta_ms) == ("unknown", None)


def test_those_of_lower_priority_would_be_asked_to_leave() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    world.runs("low", ONE, on="n0", priority=1)

    answer = forecast(world.ledger(), PLAIN, request(ONE), NOW_MS)

    assert answer.verdict == "by_eviction"
    assert answer.reason == WaitsForRelease("n0", 1)


def test_who_starts_now_says_nothing_of_who_does_not() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    first, second = world.waits("first", ONE), world.waits("second", ONE)

    answers = forecast_waiting(world.ledger(), PLAIN, (first, second), NOW_MS)

    assert [answers[key].verdict for key in (first, second)] == ["now", "unknown"]
    assert (answers[second].position, answers[second].overall) == (1, 1)
    assert answers[second].reason == NotEnoughOnNode("gpu", 1000, 0, "n0")


def test_the_range_is_from_the_earlier_to_the_later_and_unknown_if_the_earlier_is() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    world.runs("a", ONE, on="n0")
    first, second = world.waits("first", ONE), world.waits("second", ONE)

    def eta(a: RunTime, one: RunTime) -> list[object]:
        times = {"d/a": a, first: one}
        answers = forecast_waiting(world.ledger(), PLAIN, (first, second), NOW_MS, times)
        return [answers[key].eta_ms for key in (first, second)]

    assert eta(RunTime(10, 40), RunTime(5, 7)) == [(10, 40), (15, 47)]
    assert eta(RunTime(40, 10), RunTime(5, 7)) == [(10, 40), (17, 45)]


def test_whoever_would_never_fit_keeps_its_place_in_the_line() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    world.runs("a", ONE, on="n0")
    first, wide = world.waits("first", ONE, queue="other"), world.waits("wide", WholeGpus(9))
    last = world.waits("last", ONE, queue="other")

    answers = forecast_waiting(world.ledger(), PLAIN, (first, wide, last), NOW_MS)

    assert answers[wide].verdict == "never"
    assert {key: (answers[key].position, answers[key].overall) for key in answers} == {
        first: (1, 1),
        wide: (1, 3),
        last: (2, 2),
    }


def test_offers_are_tried_out_and_fit_now() -> None:
    world = SmallWorld()
    world.runs("a", FractionOfGpu(600), on="n0")
    world.runs("b", FractionOfGpu(600), on="n0")
    group = world.waits("wish", ONE)
    ledger = world.ledger()
    before = image(ledger)

    told = explain(ledger, PLAIN, group, NOW_MS)

    words = [offer.what for offer in told.offers]
    assert "fits now as 0.25 GPU" in words
    assert "fits now as 0.5 GPU" not in words
    assert len(told.offers) <= 5
    assert image(ledger) == before


def test_a_smaller_gang_or_another_queue_may_help() -> None:
    world = SmallWorld(queues=[queue("team", limit=1000), queue("other")], nodes=[node("n0", 2)])
    group = world.waits("wish", ONE, pods=2)

    words = [offer.what for offer in explain(world.ledger(), PLAIN, group, NOW_MS).offers]

    assert "fits now with 1 of 2 pods" in words
    assert "fits now in queue other" in words


def test_whose_end_would_help_is_named() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    running = world.runs("a", ONE, on="n0", queue="other")
    group = world.waits("wish", ONE, pods=1)

    told = explain(world.ledger(), PLAIN, group, NOW_MS)

    assert f"fits if 1 GPU of other ends ({running})" in [offer.what for offer in told.offers]


def test_who_is_before_it_is_named_and_a_group_that_runs_has_nothing_to_explain() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    running = world.runs("a", ONE, on="n0")
    first, second = world.waits("first", ONE), world.waits("second", ONE)
    ledger = world.ledger()

    assert explain(ledger, PLAIN, second, NOW_MS).ahead == (first,)
    assert explain(ledger, PLAIN, running, NOW_MS).reason is None
    assert explain(ledger, PLAIN, "d/nobody", NOW_MS).waiting is None
