"""What would help: each offer was tried out by the planner, in words that a person can act on."""

from __future__ import annotations

from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuShare, WholeGpus
from scheduler_service.model.plan import Bind, Evict
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.reasons import sentence
from scheduler_service.model.resources import QueueShare
from scheduler_service.planning.explain import Explanation, explain
from scheduler_service.planning.forecast import RunTime
from tests.properties.book import image
from tests.unit.small_world import NOW_MS, ONE, SmallWorld, node, queue

PLAIN = Policy.conformance()


def told(world: SmallWorld, group: str, **known: RunTime) -> Explanation:
    """Return the explanation of a group; asking leaves the book as it was."""
    ledger = world.ledger()
    before = image(ledger)
    answer = explain(ledger, PLAIN, group, NOW_MS, {f"d/{key}": at for key, at in known.items()})
    assert image(ledger) == before
    return answer


def words(answer: Explanation) -> list[str]:
    return [offer.what for offer in answer.offers]


def test_one_gpu_may_be_had_as_two_halves_of_two() -> None:
    world = SmallWorld()
    for number in (1, 2):
        held = (GpuShare(f"g{number}", 500),)
        world.runs(
            f"r{number}",
            FractionOfGpu(500),
            on="n0",
            devices=held,
            preemptibility=Preemptibility.NON_PREEMPTIBLE,
        )
    wish = world.waits("wish", ONE)

    answer = told(world, wish)

    assert words(answer)[:3] == [
        "fits now as 2 × 0.5 GPU",
        "fits now as 0.5 GPU",
        "fits now as 0.25 GPU",
    ]
    assert {offer.forecast.verdict for offer in answer.offers[:3]} == {"now"}
    assert sentence(answer.waiting.main_reason) == ("Needs 1 GPU on one node; n0 has none free.")


def test_whose_end_helps_says_of_which_queue_and_when() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    world.runs("held", ONE, on="n0", queue="other")
    wish = world.waits("wish", ONE)

    (offer,) = told(world, wish, held=RunTime(60_000, 90_000)).offers

    assert offer.what == "fits if 1 GPU of other ends (d/held)"
    assert (offer.forecast.verdict, offer.forecast.eta_ms) == ("about", (60_000, 90_000))


def test_where_one_ending_is_too_little_several_of_a_queue_are_named() -> None:
    world = SmallWorld(nodes=[node("n0", 4)])
    for number in range(4):
        world.runs(f"r{number}", ONE, on="n0", queue="other")
    wish = world.waits("wish", WholeGpus(3))

    answer = told(world, wish, r0=RunTime(1, 2), r1=RunTime(3, 4), r2=RunTime(2, 9))

    assert words(answer) == ["fits if 3 GPUs of other end (3 groups)"]
    assert answer.offers[0].forecast.eta_ms == (3, 9)


def test_an_ending_of_unknown_time_promises_none() -> None:
    world = SmallWorld(nodes=[node("n0", 2)])
    for number in range(2):
        world.runs(f"r{number}", ONE, on="n0", queue="other")
    wish = world.waits("wish", WholeGpus(2))

    (offer,) = told(world, wish, r0=RunTime(1, 2)).offers

    assert (offer.forecast.verdict, offer.forecast.eta_ms) == ("unknown", None)


def test_what_never_fits_offers_no_endings() -> None:
    world = SmallWorld()
    world.runs("held", WholeGpus(1), on="n0")
    wish = world.waits("wish", WholeGpus(16))

    answer = told(world, wish)

    assert sentence(answer.waiting.main_reason) == (
        "Never: needs 16 GPUs on one node; the largest has 2 GPUs."
    )
    assert words(answer) == ["fits now as 1 GPU"]


def test_without_a_guarantee_it_may_start() -> None:
    team = Queue("team", parent="top", gpu=QueueShare(quota=0))
    world = SmallWorld(queues=[queue("top"), team])
    wish = world.waits("wish", ONE, preemptibility=Preemptibility.NON_PREEMPTIBLE)

    answer = told(world, wish)

    assert "fits now if it may be preempted" in words(answer)
    assert sentence(answer.waiting.main_reason) == (
        "Non-preemptible: quota of team is 0 GPUs, 0 GPUs used, 1 GPU wanted."
    )


def test_half_the_memory_may_fit() -> None:
    world = SmallWorld(nodes=[node("n0", 1, memory_mib=8000)])
    held = (GpuShare("g0", 500),)
    world.runs("held", FractionOfGpu(500), on="n0", devices=held, queue="other")
    wish = world.waits("wish", GpuMemory(6144))

    answer = told(world, wish)

    assert words(answer)[0] == "fits now as 3 GiB"
    assert sentence(answer.waiting.main_reason) == (
        "Needs 6 GiB of GPU memory on one GPU; n0 has 3.9 GiB free."
    )


def test_others_would_have_to_make_room_is_said() -> None:
    teams = [
        queue("top"),
        Queue("team", parent="top", gpu=QueueShare(quota=0)),
        Queue("other", parent="top", gpu=QueueShare(quota=1000)),
    ]
    world = SmallWorld(nodes=[node("n0", 1)], queues=teams)
    world.runs("held", ONE, on="n0")
    wish = world.waits("wish", ONE)

    assert "fits in queue other once others have made room" in words(told(world, wish))


def test_what_has_a_promise_is_offered_only_what_starts_now() -> None:
    world = SmallWorld(nodes=[node("n0", 1), node("n1", 1)])
    world.runs("low", ONE, on="n0", priority=1)
    world.runs("half", FractionOfGpu(500), on="n1", devices=(GpuShare("g0", 500),), priority=50)
    wish = world.waits("wish", ONE, priority=50)

    assert words(told(world, wish)) == [
        "fits now as 0.5 GPU",
        "fits now as 0.25 GPU",
        "fits now as 0.1 GPU",
    ]


def test_who_starts_or_goes_now_is_told_so() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    low = world.runs("low", ONE, on="n0", priority=1)
    world.waits("wish", ONE, priority=50)
    starts = SmallWorld()
    first = starts.waits("first", ONE)

    (gone,) = told(world, low).happens
    (start,) = told(starts, first).happens

    assert isinstance(gone, Evict)
    assert sentence(gone.reason) == "Stopped for d/wish: priority 50 over 1."
    assert isinstance(start, Bind)


def test_the_offers_are_at_most_five_and_keep_a_place_for_endings() -> None:
    teams = [queue("top"), *(queue(name, "top") for name in ("team", "b", "c", "d", "e"))]
    teams[1] = queue("team", "top", limit=500)
    world = SmallWorld(nodes=[node("n0", 2)], queues=teams)
    world.runs("held", FractionOfGpu(500), on="n0", devices=(GpuShare("g0", 500),))
    wish = world.waits("wish", FractionOfGpu(500))

    assert words(told(world, wish)) == [
        "fits now in queue b",
        "fits now in queue c",
        "fits now in queue d",
        "fits now in queue e",
        "fits if 0.5 GPU of team ends (d/held)",
    ]
