"""One group that is broken, in every way a record can be: the plan is made, and only that one is out."""

import warnings
from random import Random

import msgspec
import pytest

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Plan
from scheduler_service.model.pod import PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.planning import faults
from scheduler_service.planning.cycle import plan
from scheduler_service.planning.faults import GroupLeftOut
from tests.properties.book import exact
from tests.properties.clusters import Cluster, cluster
from tests.properties.rich import rich_cluster

FIELDS = [name for name in PodGroup.__struct_fields__ if name not in {"name", "namespace"}]

COMPARED = {"priority", "created"}
"""Where two groups are compared, nobody can tell which of them is at fault."""


class Broken:
    """A value that nobody can compare, count with or look into."""

    def __bool__(self) -> bool:
        raise ZeroDivisionError

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    def __hash__(self) -> int:
        raise ZeroDivisionError

    def __lt__(self, other: object) -> bool:
        raise ZeroDivisionError


def with_broken(found: Cluster, key: str, field: str) -> Ledger:
    """Return a ledger in which one field of one group's record is broken."""
    ledger = Ledger.from_snapshot(found.snapshot)
    group = ledger.groups[key]
    group.model = msgspec.structs.replace(group.model, **{field: Broken()})
    return ledger


@pytest.mark.filterwarnings("ignore::scheduler_service.planning.board.ShortWayLost")
@pytest.mark.filterwarnings("ignore::scheduler_service.planning.faults.GroupLeftOut")
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("seed", range(8))
def test_a_broken_record_of_one_group_stops_no_plan(seed: int, field: str):
    """When this happens: a bug of ours, or an object that no check knew to refuse."""
    found = (rich_cluster if seed % 2 else cluster)(seed, 2 + seed % 4)
    keys = sorted({pod.group for pod in found.snapshot.pods if pod.group})
    bad = Random(seed).choice(keys)
    ledger = with_broken(found, bad, field)
    before = exact(ledger)

    made = plan(ledger, found.policy, found.snapshot.now_ms)

    assert exact(ledger) == before
    if field not in COMPARED:
        assert blamed(made) <= {bad}


def blamed(made: Plan) -> set[str]:
    return {
        waiting.group
        for waiting in made.waiting
        if any(type(reason).__name__ == "PlanningFailed" for reason in waiting.reasons)
    }


def a_waiting_one(seed: int) -> tuple[Cluster, str]:
    """Return a cluster and a flat group of it that is waiting and that a plan would start."""
    found = cluster(seed, 3)
    ledger = Ledger.from_snapshot(found.snapshot)
    made = plan(ledger, found.policy, found.snapshot.now_ms)
    pods = found.snapshot.pods
    flat = {pod.group for pod in pods if pod.group and ledger.groups[pod.group].is_flat}
    pending = flat & {pod.group for pod in pods if pod.state is PodState.PENDING}
    served = [one.group for one in made.statements if one.group in pending]
    return found, served[0] if served else ""


def test_who_is_broken_is_told_so_and_the_others_are_served():
    """When this happens: a group whose minimum is no number that could be compared."""
    told = 0
    for seed in range(12):
        found, bad = a_waiting_one(seed)
        if not bad:
            continue
        ledger = Ledger.from_snapshot(found.snapshot)
        leaf = ledger.groups[bad].leaf
        leaf.spec = msgspec.structs.replace(leaf.spec, min_members=Broken())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = plan(ledger, found.policy, found.snapshot.now_ms)
        assert blamed(made) == {bad}
        assert not {one.group for one in made.statements} & {bad}
        told += any(one.group != bad for one in made.statements)

    assert told


def test_an_error_that_is_nobodys_ends_the_plan():
    """When this happens: a bug outside of every group. It is not hidden."""
    with pytest.raises(ZeroDivisionError):
        faults.without_the_faulty(lambda _: 1 // 0)


def test_who_was_left_out_for_nothing_is_taken_back_in():
    """When this happens: the group that was nearest to an error is not the one that is broken."""
    ledger = Ledger.from_snapshot(cluster(2, 4).snapshot)
    near, bad = (group for _, group in sorted(ledger.groups.items())[:2])

    def make(aside: faults.Aside) -> set[str]:
        nearest = bad if near.key in aside else near
        if bad.key not in aside:
            raise ZeroDivisionError(nearest.key)
        return set(aside)

    with pytest.warns(GroupLeftOut):
        assert faults.without_the_faulty(make) == {bad.key}
