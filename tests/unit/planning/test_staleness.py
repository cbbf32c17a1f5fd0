"""Who is seen below its minimum, and that nobody is moved who is stopped anyway."""

from __future__ import annotations

from scheduler_service.model.gpu import WholeGpus
from scheduler_service.model.plan import Evict
from scheduler_service.model.pod_group import Preemptibility, flat_gang
from scheduler_service.model.reasons import code
from tests.unit.small_world import NOW_MS, ONE, SmallWorld, node

LONG_AGO = NOW_MS - 1_000_000


def test_a_gang_that_never_started_is_not_seen_as_stale() -> None:
    """Else its grace would be over before it loses its first member."""
    world = SmallWorld(nodes=[node("n0", 1)])
    world.waits("wish", ONE, pods=2)

    assert world.plan().stale == {}


def test_a_gang_below_its_minimum_is_seen_with_the_moment() -> None:
    world = SmallWorld(nodes=[node("n0", 2)])
    broken = world.runs("broken", ONE, on="n0", gang=flat_gang(2))

    assert world.plan().stale == {broken: NOW_MS}


def test_nobody_is_moved_who_is_stopped_in_the_same_cycle() -> None:
    world = SmallWorld(nodes=[node("n0", 2), node("n1", 2)])
    world.runs("stays", ONE, on="n1", preemptibility=Preemptibility.NON_PREEMPTIBLE)
    world.runs("broken", ONE, on="n0", gang=flat_gang(2), stale_since_ms=LONG_AGO)
    world.waits("wish", WholeGpus(2))

    (gone,) = [operation for operation in world.plan().operations() if isinstance(operation, Evict)]

    assert (gone.pod, code(gone.reason)) == ("d/broken-0", "stale_gang")
