"""The usage book: who held how much of the cluster lately. Feeds time-based fair share."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.ledger import events, usage
from scheduler_service.ledger.store import Ledger
from scheduler_service.ledger.usage import Held, UsageBook, UsageRule, advanced
from scheduler_service.model.gpu import WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import Resources
from scheduler_service.model.snapshot import Snapshot

HOUR = 3_600_000
FULL = (0, 0, 4000)
PLAIN = UsageRule()


def held(**by_queue: int) -> Held:
    return Held(FULL, {name: (0, 0, gpu) for name, gpu in by_queue.items()}, {})


def book_of(*steps: tuple[int, Held], rule: UsageRule = PLAIN) -> UsageBook:
    """Return the book after each step was held until its moment, from moment 0 on."""
    book = advanced(UsageBook(), held(), 0, rule)
    for until, holding in steps:
        book = advanced(book, holding, until, rule)
    return book


def gpu_of(book: UsageBook) -> dict[str, int]:
    return {name: used.milli_gpu for name, used in usage.queue_usage(book).items()}


def test_usage_is_the_part_of_the_clusters_time_that_was_held():
    book = book_of((HOUR, held(a=4000)), (2 * HOUR, held(b=1000)))
    assert gpu_of(book) == {"a": 500, "b": 125}


def test_what_was_held_a_half_life_ago_counts_half():
    rule = UsageRule(half_life_ms=HOUR)
    book = book_of((HOUR, held(a=4000)), (2 * HOUR, held(b=4000)), rule=rule)
    assert gpu_of(book) == {"a": 333, "b": 666}


def test_the_first_tick_only_starts_the_clock_and_an_older_one_is_ignored():
    book = advanced(UsageBook(), held(a=4000), HOUR, UsageRule())
    assert usage.queue_usage(book) == {}
    assert advanced(book, held(a=4000), HOUR - 1, UsageRule()) == book


def test_what_is_older_than_the_window_is_forgotten():
    rule = UsageRule(window_ms=8 * HOUR)
    steps = [(HOUR * hour, held(a=4000)) for hour in range(1, 4)]
    steps += [(HOUR * hour, held(b=4000)) for hour in range(4, 13)]
    book = book_of(*steps, rule=rule)
    assert gpu_of(book) == {"b": 1000}
    assert len(book.spans) <= usage.SPANS + 1


def test_a_tick_after_a_long_silence_counts_the_window_only():
    book = book_of((100 * HOUR, held(a=2000)), rule=UsageRule(window_ms=HOUR))
    assert gpu_of(book) == {"a": 500}


def test_a_cluster_without_gpus_has_no_gpu_usage():
    book = book_of((HOUR, Held((1000, 0, 0), {"a": (500, 0, 0)}, {"a": {"ana": 500}})))
    assert usage.queue_usage(book) == {"a": Resources(milli_cpu=500)}
    assert usage.owner_usage(book) == {"a": {"ana": 500_000}}


@given(
    cuts=st.lists(st.integers(1, 30 * 24 * HOUR), min_size=1, max_size=6),
    half_life=st.sampled_from([0, HOUR, 7 * 24 * HOUR]),
)
def test_where_ticks_fall_changes_the_last_digit_at_most(cuts, half_life):
    rule = UsageRule(half_life_ms=half_life)
    end = max(cuts) + HOUR
    fine = book_of(*((cut, held(a=3000)) for cut in sorted({*cuts, end})), rule=rule)
    coarse = book_of((end, held(a=3000)), rule=rule)
    fine_sum, coarse_sum = fine.spans[0].by_queue["a"][2], coarse.spans[0].by_queue["a"][2]
    assert abs(fine_sum - coarse_sum) * 10_000 <= coarse_sum
    assert abs(gpu_of(fine)["a"] - 750) <= 1


@given(st.integers(0, 10**12), st.integers(1, 10**10))
def test_a_decay_factor_lies_between_nothing_and_the_whole(elapsed, half_life):
    factor = usage.decay_factor(elapsed, half_life)
    assert 0 <= factor <= usage.WHOLE
    assert usage.decay_factor(elapsed + half_life, half_life) == factor >> 1


def running(name: str, owner: str, gpus: int) -> tuple[PodGroup, Pod]:
    group = PodGroup(name=name, namespace=owner, queue="team", owner=owner)
    request = PodRequest(gpu=WholeGpus(gpus))
    return group, Pod("p", owner, group.key, PodState.RUNNING, node="n", request=request)


def test_ticks_book_what_queues_their_parents_and_owners_hold():
    (ana, ana_pod), (ben, ben_pod) = running("a", "ana", 3), running("b", "ben", 1)
    ledger = Ledger.from_snapshot(
        Snapshot(
            nodes=(Node("n", gpus=4),),
            queues=(Queue("all"), Queue("team", parent="all")),
            pod_groups=(ana, ben),
            pods=(ana_pod, ben_pod),
        )
    )
    for now in (0, HOUR):
        ledger.apply(events.UsageTick(now, by_owner=True))
    ledger.apply(events.PodRemoved("ana/p"))
    ledger.apply(events.UsageTick(2 * HOUR, by_owner=True))
    part = Resources(milli_gpu=625)
    assert ledger.snapshot(0).usage == {"all": part, "team": part}
    assert ledger.snapshot(0).owner_usage == {"team": {"ana": 375_000, "ben": 250_000}}


def test_a_found_book_is_the_beginning_of_the_next_ticks():
    ledger = Ledger()
    ledger.apply(events.UsageBookFound(book_of((HOUR, held(a=4000)))))
    assert ledger.usage == {"a": Resources(milli_gpu=1000)}
