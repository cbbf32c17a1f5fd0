"""Laws of the book: undo is exact, sums are what their parts say, the way in does not matter."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.ledger import events, states
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.pod import PodState
from scheduler_service.model.pod_group import SubGroup
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.cycle import plan
from tests.properties.book import exact, image
from tests.properties.clusters import NOW_MS, cluster

SEEDS = st.integers(0, 4000)


def wander(ledger: Ledger, random: Random, steps: int) -> None:
    """Move pods about as plans do: start, promise, evict, put back, move away."""
    pods, node_rows = ledger.pods, ledger.nodes.live_rows()
    rows = sorted(pods.row_of.values())
    for _ in range(steps):
        pod = random.choice(rows)
        node = random.choice(node_rows)
        shape = ledger.shape_of(pod)
        devices = tuple(f"any-{number}" for number in range(shape.devices))
        ledger.remember(pod)
        state = pods.state[pod]
        if state == states.PENDING:
            ledger.start(pod, random.choice((states.BINDING, states.PIPELINED)), node, devices)
        elif state == states.RELEASING and random.random() < 0.5 and pod not in pods.left:
            ledger.move_away(pod, node, devices)
        elif states.HAS_PLACE[state] and pod not in pods.left:
            target = random.choice((states.RELEASING, states.RUNNING, states.STUCK))
            ledger.move(pod, target, pods.node[pod], pods.devices[pod])


def by_events(snapshot: Snapshot, random: Random) -> Ledger:
    """Return the ledger that hears of everything one by one, in any order."""
    ledger = Ledger()
    news: list[events.Event] = [
        *(events.NodeAdded(node) for node in snapshot.nodes),
        *(events.QueueAdded(queue) for queue in snapshot.queues),
        *(events.PodGroupAdded(group) for group in snapshot.pod_groups),
        *(events.PodAdded(pod) for pod in snapshot.pods),
        *(events.TopologyChanged(topology) for topology in snapshot.topologies),
    ]
    random.shuffle(news)
    ledger.apply_all(news)
    return ledger


@given(SEEDS, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_a_snapshot_comes_back_as_it_went_in(seed: int, size: int) -> None:
    snapshot = cluster(seed, size).snapshot

    read = Ledger.from_snapshot(snapshot).snapshot(snapshot.now_ms)

    assert sorted(read.pods, key=lambda pod: pod.key) == sorted(
        snapshot.pods, key=lambda pod: pod.key
    )
    assert Ledger.from_snapshot(read).snapshot(snapshot.now_ms) == read


@given(SEEDS, st.integers(1, 8))
@settings(max_examples=80, deadline=None)
def test_rolling_back_restores_every_number(seed: int, size: int) -> None:
    ledger = Ledger.from_snapshot(cluster(seed, size).snapshot)
    if not ledger.pods.row_of:
        return
    random = Random(seed)
    before, mark = exact(ledger), ledger.checkpoint()

    wander(ledger, random, 20)
    middle, inner = exact(ledger)[:-1], ledger.checkpoint()
    wander(ledger, random, 20)
    ledger.rollback(inner)

    assert exact(ledger)[:-1] == middle
    ledger.rollback(mark)
    ledger.journal.touched.clear()
    assert exact(ledger) == before


@given(SEEDS, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_a_plan_leaves_no_trace_and_is_the_same_again(seed: int, size: int) -> None:
    made = cluster(seed, size)
    ledger = Ledger.from_snapshot(made.snapshot)
    before = exact(ledger)

    first = plan(ledger, made.policy, NOW_MS)

    assert exact(ledger) == before
    assert msgspec.json.encode(plan(ledger, made.policy, NOW_MS)) == msgspec.json.encode(first)


@given(SEEDS, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_the_way_in_does_not_matter(seed: int, size: int) -> None:
    """A snapshot is loaded by kinds; events come one by one and in any order."""
    snapshot = cluster(seed, size).snapshot

    slow = by_events(snapshot, Random(seed))

    assert image(slow) == image(Ledger.from_snapshot(snapshot))


@given(SEEDS, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_sums_are_what_their_parts_say_after_any_events(seed: int, size: int) -> None:
    snapshot = cluster(seed, size).snapshot
    ledger, random = Ledger.from_snapshot(snapshot), Random(seed)
    for _ in range(25):
        event = _any_event(ledger, snapshot, random)
        if event is not None:
            ledger.apply(event)

    fresh = Ledger.from_snapshot(ledger.snapshot(NOW_MS))

    assert image(ledger) == image(fresh)


def _any_event(ledger: Ledger, snapshot: Snapshot, random: Random) -> events.Event | None:
    made: list[events.Event] = [
        events.NodeChanged(msgspec.structs.replace(node, gpus=random.randrange(5)))
        for node in snapshot.nodes
    ]
    for queue in snapshot.queues:
        changed = msgspec.structs.replace(queue, priority=random.randrange(3))
        made.append(events.QueueChanged(changed))
    for group in snapshot.pod_groups:
        renamed = SubGroup("", 1, children=(SubGroup("other", 1),))
        elsewhere = random.choice(snapshot.queues).name
        made += [
            events.PodGroupRemoved(group.key),
            events.PodGroupChanged(group),
            events.PodGroupChanged(msgspec.structs.replace(group, gang=renamed)),
            events.PodGroupChanged(msgspec.structs.replace(group, queue=elsewhere)),
        ]
    made += [events.PodAdded(pod) for pod in snapshot.pods]
    for key in sorted(ledger.pods.row_of):
        state = random.choice([PodState.RUNNING, PodState.RELEASING, PodState.SUCCEEDED])
        on = random.choice(snapshot.nodes).name if snapshot.nodes else None
        made += [events.PodRemoved(key), events.PodStateChanged(key, state, on)]
    return random.choice(made) if made else None


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_what_was_assumed_and_undone_never_was(seed: int) -> None:
    """The backend refuses: binds and evictions of the statement are as before."""
    made = cluster(seed, 5)
    ledger = Ledger.from_snapshot(made.snapshot)
    before = image(ledger)
    for statement in plan(ledger, made.policy, NOW_MS).statements:
        ledger.apply(events.Assumed(statement, NOW_MS))
        ledger.apply(events.AssumedUndone(statement))

    assert image(ledger) == before


def test_an_assumed_plan_is_what_the_next_snapshot_says() -> None:
    found = 0
    for seed in range(40):
        made = cluster(seed, 5)
        ledger = Ledger.from_snapshot(made.snapshot)
        for statement in plan(ledger, made.policy, NOW_MS).statements:
            ledger.apply(events.Assumed(statement, NOW_MS))
            found += 1
        assert image(ledger) == image(Ledger.from_snapshot(ledger.snapshot(NOW_MS)))

    if not found:
        pytest.fail("no cluster gave a statement: the law was not tried")
