"""What would help: each offer was tried out by the planner, in words that a person can act on."""

from __future__ import annotations

import pytest

from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuShare, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.plan import Bind, Evict
from scheduler_service.model.pod import Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup, Preemptibility, SubGroup, flat_gang
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.reasons import sentence
from scheduler_service.model.resources import QueueShare
from scheduler_service.planning import offers
from scheduler_service.planning.explain import Explanation, explain
from scheduler_service.planning.forecast import Change, RunTime
from scheduler_service.planning.offers import ending_offers, other_forms
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


def smaller_gangs(answer: Explanation) -> list[str]:
    return [what for what in words(answer) if "pods" in what]


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
    assert Change(preemptible=True) in [offer.change for offer in answer.offers]
    assert sentence(answer.waiting.main_reason) == (
        "Never if non-preemptible: quota of team is 0 GPUs, 1 GPU wanted."
    )


def test_half_the_memory_may_fit() -> None:
    world = SmallWorld(nodes=[node("n0", 1, memory_mib=8000)])
    held = (GpuShare("g0", 500),)
    world.runs("held", FractionOfGpu(500), on="n0", devices=held, queue="other")
    wish = world.waits("wish", GpuMemory(6144))

    answer = told(world, wish)

    assert words(answer)[0] == "fits now as 3 GiB"
    assert answer.offers[0].change == Change(gpu=GpuMemory(3072))
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
    teams = [queue("top"), *(queue(name, "top") for name in ("team", "b", "c", "d", "e", "f"))]
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


def test_what_has_a_promise_is_not_told_of_others_that_would_make_room() -> None:
    world = SmallWorld(nodes=[node("n0", 2), node("n1", 1)], queues=[queue("team")])
    for name, place in (("a", "n0"), ("b", "n0"), ("c", "n1")):
        world.runs(name, ONE, on=place, priority=1)
    wish = world.waits("wish", WholeGpus(2), priority=50)

    assert told(world, wish).offers == ()


def test_only_queues_that_may_be_offered_are() -> None:
    teams = [queue("top"), queue("team", "top", limit=500), queue("b", "top"), queue("c", "top")]
    world = SmallWorld(queues=teams)
    wish = world.waits("wish", ONE)
    ledger = world.ledger()
    group = ledger.groups[wish]

    def offered(queues: set[str] | None) -> list[str]:
        return [offer.what for offer in other_forms(ledger, PLAIN, group, NOW_MS, queues)]

    parts = ["fits now as 0.5 GPU", "fits now as 0.25 GPU", "fits now as 0.1 GPU"]
    assert offered(None) == [*parts, "fits now in queue b", "fits now in queue c"]
    assert offered({"c", "team"}) == [*parts, "fits now in queue c"]
    assert offered(set()) == parts


def test_so_many_pods_as_there_is_room_for_and_halves_are_offered() -> None:
    """What another gang lacks is nothing to this one."""
    world = SmallWorld(nodes=[node("n0", 1)], queues=[queue("team")])
    world.waits("other", ONE, pods=5)
    three = world.waits("three", ONE, pods=3)

    assert smaller_gangs(told(world, three)) == ["fits now with 1 of 3 pods"]

    roomy = SmallWorld(nodes=[node("n0", 3)], queues=[queue("team")])
    roomy.waits("other", WholeGpus(3), pods=2)
    five = roomy.waits("five", ONE, pods=5)

    assert smaller_gangs(told(roomy, five)) == [
        f"fits now with {number} of 5 pods" for number in (3, 2)
    ]


def test_where_the_room_is_not_known_halves_are_offered() -> None:
    world = SmallWorld(nodes=[node("n0", 8)], queues=[queue("team", limit=4000)])
    wish = world.waits("wish", WholeGpus(1), pods=8)

    answer = told(world, wish)

    assert smaller_gangs(answer) == [f"fits now with {n} of 8 pods" for n in (4, 2)]
    assert [offer.change for offer in answer.offers][-2:] == [Change(pods=4), Change(pods=2)]


def test_several_gpus_are_halved_and_halved_again() -> None:
    world = SmallWorld(nodes=[node("n0", 4)], queues=[queue("team")])
    wish = world.waits("wish", WholeGpus(8))

    answer = told(world, wish)

    assert words(answer) == [f"fits now as {n}" for n in ("4 GPUs", "2 GPUs", "1 GPU")]
    assert answer.offers[1].change == Change(gpu=WholeGpus(2))


def test_a_group_of_which_a_part_runs_has_no_other_form() -> None:
    world = SmallWorld(nodes=[node("n0", 1)], queues=[queue("team"), queue("other")])
    world.groups.append(PodGroup(name="two", namespace="d", queue="team", gang=flat_gang(1)))
    request = PodRequest(1000, 1 << 30, ONE)
    world.pods += [
        Pod("two-0", "d", "d/two", PodState.RUNNING, request=request, node="n0"),
        Pod("two-1", "d", "d/two", request=request),
    ]

    assert told(world, "d/two").offers == ()


def test_a_tree_has_no_other_form() -> None:
    parts = tuple(SubGroup(name, 1) for name in ("x", "y"))
    world = SmallWorld(nodes=[node("n0", 1)], queues=[queue("team"), queue("other")])
    gang = SubGroup(children=parts)
    world.groups.append(PodGroup(name="tree", namespace="d", queue="team", gang=gang))
    world.pods += [
        Pod(f"t-{n}", "d", "d/tree", request=PodRequest(1, 1, ONE), sub_group=n) for n in "xy"
    ]

    assert told(world, "d/tree").offers == ()


def parts_beside(held: int, wish: FractionOfGpu) -> list[str]:
    """Return what is offered in place of parts where as much of each of two GPUs is held."""
    world = SmallWorld(nodes=[node("n0", 2)], queues=[queue("team")])
    for name in ("x", "y"):
        world.runs(name, FractionOfGpu(held), on="n0", devices=(GpuShare(f"g{name}", held),))
    answer = told(world, world.waits("wish", wish))
    return [what for what in words(answer) if "fits now" in what]


def test_a_part_may_be_had_as_two_halves_of_it() -> None:
    assert parts_beside(900, FractionOfGpu(200)) == [
        "fits now as 2 × 0.1 GPU",
        "fits now as 0.1 GPU",
    ]
    assert parts_beside(850, FractionOfGpu(198)) == ["fits now as 0.1 GPU"]
    assert parts_beside(800, FractionOfGpu(333)) == ["fits now as 0.1 GPU"]
    assert parts_beside(800, FractionOfGpu(400, devices=2)) == ["fits now as 2 × 0.1 GPU"]


def test_the_end_of_a_group_of_which_a_part_runs_helps_too() -> None:
    world = SmallWorld(nodes=[node("n0", 1)], queues=[queue("team"), queue("other")])
    world.groups.append(PodGroup(name="two", namespace="d", queue="team", gang=flat_gang(1)))
    request = PodRequest(1000, 1 << 30, ONE)
    world.pods += [
        Pod("two-0", "d", "d/two", PodState.RUNNING, request=request, node="n0"),
        Pod("two-1", "d", "d/two", PodState.GATED, request=request),
    ]
    wish = world.waits("wish", ONE, queue="other")

    assert words(told(world, wish)) == ["fits if 1 GPU of team ends (d/two)"]


def test_work_without_gpus_waits_for_cpu_of_others() -> None:
    one = Node("n0", gpus=1, milli_cpu=1000, memory_bytes=1 << 40)
    world = SmallWorld(nodes=[one], queues=[queue("team"), queue("other")])
    world.runs("held", None, on="n0", queue="other")
    wish = world.waits("wish", None)

    assert words(told(world, wish)) == ["fits if 1 CPU of other ends (d/held)"]


def test_those_without_gpus_are_not_tried_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "TRIES", 1)
    world = SmallWorld(nodes=[node("n0", 1)], queues=[queue("team"), queue("other")])
    world.runs("cpu", None, on="n0", queue="other")
    world.runs("gpu", ONE, on="n0", queue="other")
    wish = world.waits("wish", ONE)

    assert words(told(world, wish)) == ["fits if 1 GPU of other ends (d/gpu)"]


@pytest.mark.parametrize(("tries", "is_found"), [(1, False), (2, True)])
def test_so_many_endings_of_several_are_tried(
    monkeypatch: pytest.MonkeyPatch, tries: int, is_found: bool
) -> None:
    monkeypatch.setattr(offers, "TRIES", tries)
    world = SmallWorld(nodes=[node("n0", 4)], queues=[queue("team"), queue("other")])
    for number in range(4):
        world.runs(f"r{number}", ONE, on="n0", queue="other")
    wish = world.waits("wish", WholeGpus(3))

    assert bool(words(told(world, wish))) is is_found


def test_two_endings_are_named_and_only_those_that_start_this_very_group() -> None:
    world = SmallWorld(nodes=[node("n0", 3)], queues=[queue("team"), queue("other")])
    for name in ("a", "b", "c"):
        world.runs(name, ONE, on="n0", queue="other")
    first, second = world.waits("first", ONE), world.waits("second", ONE)
    ledger = world.ledger()

    def endings(group: str) -> list[str]:
        found = ending_offers(ledger, PLAIN, ledger.groups[group], NOW_MS)
        assert not ledger.journal.touched
        return [offer.what for offer in found]

    assert endings(first) == [f"fits if 1 GPU of other ends (d/{name})" for name in "ab"]
    assert endings(second) == ["fits if 2 GPUs of other end (2 groups)"]


def test_that_another_group_never_fits_is_nothing_to_this_one() -> None:
    world = SmallWorld(nodes=[node("n0", 1)], queues=[queue("team"), queue("other")])
    world.runs("held", ONE, on="n0")
    world.waits("huge", WholeGpus(16), queue="other")
    wish = world.waits("wish", ONE)

    assert words(told(world, wish)) == ["fits if 1 GPU of team ends (d/held)"]


def test_an_offer_stands_where_it_would_if_it_were_asked_for_now() -> None:
    """When this happens: half a GPU is free, and another one of half a GPU waits for its limit."""
    world = SmallWorld(nodes=[node("n0", 1)], queues=[queue("team"), queue("other")])
    world.runs("held", FractionOfGpu(500), on="n0", devices=(GpuShare("g0", 500),))
    wish = world.waits("wish", ONE, priority=50)
    world.waits("next", FractionOfGpu(600), priority=50)
    world.waits("third", FractionOfGpu(400), priority=50)

    assert words(told(world, wish)) == [
        "fits now as 0.1 GPU",
        "fits if 0.5 GPU of team ends (d/held)",
    ]


def test_who_takes_an_offer_gives_up_what_it_wanted_before() -> None:
    """When this happens: a promise of a whole GPU that is waited for, where half a one is free."""
    world = SmallWorld(nodes=[node("n0", 2)])
    world.groups.clear()
    world.runs("held", WholeGpus(1), on="n0", queue="other")
    wish = world.waits("wish", WholeGpus(2))

    assert words(told(world, wish)) == ["fits now as 1 GPU", "fits if 1 GPU of other ends (d/held)"]


def test_the_share_of_each_pod_of_a_gang_is_said() -> None:
    world = SmallWorld(nodes=[node("n0", 1)])
    wish = world.waits("wish", ONE, pods=4)

    assert words(told(world, wish)) == [
        "fits now with 0.25 GPU for each pod",
        "fits now with 0.1 GPU for each pod",
        "fits now with 1 of 4 pods",
    ]


def test_several_gpus_of_one_group_end_in_the_plural() -> None:
    world = SmallWorld(nodes=[node("n0", 2)])
    world.runs("held", WholeGpus(2), on="n0", queue="other", priority=100)
    wish = world.waits("wish", ONE)

    assert words(told(world, wish)) == ["fits if 2 GPUs of other end (d/held)"]


def test_what_no_node_has_is_said_before_a_limit_that_is_reached() -> None:
    world = SmallWorld(queues=[queue("top"), queue("team", "top", limit=32_000)])
    world.runs("held", ONE, on="n0")
    wish = world.waits("wish", WholeGpus(32))

    told_why = told(world, wish).waiting

    assert told_why is not None
    assert [sentence(reason) for reason in dict(told_why.by_action)["allocate"]] == [
        "Never: needs 32 GPUs on one node; the largest has 2 GPUs.",
        "Queue team is limited to 32 GPUs: 1 GPU used, 32 GPUs wanted.",
    ]
