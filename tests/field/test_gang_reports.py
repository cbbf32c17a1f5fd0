"""Field reports about gangs: whole or nothing, in every order, and only one broken for another."""

from random import Random

import msgspec
import pytest

from scheduler_service.ledger.events import PodAdded, PodRemoved
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Bind
from scheduler_service.model.pod import PodState
from scheduler_service.planning.cycle import plan
from tests.field.reports import cycles, failures, scenario
from tests.properties.cycles import shuffled
from tests.properties.exactness import planned


def gangs_that_need_everything():
    pods = [
        {
            "name": f"{{}}-{number}",
            "labels": {"one": "per-node"},
            "pod_anti_affinity": {
                "match_labels": {"one": "per-node"},
                "topology_key": "host",
            },
            "request": {"gpus": 1},
        }
        for number in range(4)
    ]
    return {
        name: {
            "queue": "a",
            "created": number,
            "pods": [pod | {"name": pod["name"].format(name)} for pod in pods],
        }
        for number, name in enumerate(("one", "two"))
    }


@pytest.mark.parametrize("seed", range(100))
def test_l040_of_two_gangs_that_need_everything_exactly_one_starts(seed):
    """When this happens: two large gangs come together; some of the pods are slow to appear."""
    built = scenario(
        run="allocate",
        nodes={f"n{n}": {"gpus": 1, "labels": {"host": f"n{n}"}} for n in range(4)},
        queues={"a": {"quota": 4}},
        pod_groups=gangs_that_need_everything(),
        expect={},
    )
    random = Random(seed)
    snapshot = shuffled(built.world.snapshot, random)
    slow = random.choice(snapshot.pods).key if seed % 2 else None
    there = tuple(pod for pod in snapshot.pods if pod.key != slow)

    made = planned(msgspec.structs.replace(snapshot, pods=there), built.world.policy)

    started = [operation.pod for operation in made.operations() if isinstance(operation, Bind)]
    group_of = {pod.key: pod.group for pod in snapshot.pods}
    assert len(started) == 4
    assert len({group_of[pod] for pod in started}) == 1


def test_l042_for_four_gpus_one_gang_of_four_goes_and_nine_stay():
    """When this happens: victims picked pod by pod would break ten gangs for ten GPUs."""
    groups = {
        f"g{number}": {
            "queue": "other",
            "count": 4,
            "gpus": 1,
            "created": number,
            "running_on": [f"n{number % 5}"] * 4,
        }
        for number in range(10)
    }
    wish = {"wish": {"queue": "owner", "count": 4, "gpus": 1, "created": 99}}
    built = scenario(
        run="reclaim",
        nodes={f"n{number}": {"gpus": 8} for number in range(5)},
        queues={"owner": {"quota": 4, "created": 0}, "other": {"quota": 0, "created": 1}},
        pod_groups={**groups, **wish},
        expect={},
    )

    made = planned(built.world.snapshot, built.world.policy)

    told = {op.pod for op in made.operations() if not isinstance(op, Bind) and op.pod[8] == "g"}
    assert {pod.rpartition("-")[0] for pod in told} == {"default/g9"}
    assert len(told) == 4


def test_l045_a_serving_group_without_gang_rolls_over():
    """When this happens: the surge pod of a new revision comes alone; its old ones still run."""
    assert not failures(
        run=cycles(1, 2),
        nodes={"n0": {"gpus": 3}},
        queues={"a": {"quota": 3}},
        pod_groups={
            "serve": {
                "queue": "a",
                "min_members": 1,
                "gpus": 1,
                "count": 3,
                "running_on": ["n0", "n0"],
            }
        },
        expect={"pods": {"serve-2": "running n0"}},
    )


def test_l050_a_deleted_member_that_comes_back_counts_once():
    """When this happens: somebody deletes a waiting pod of a gang and makes it again."""
    built = scenario(
        run="allocate",
        nodes={"n0": {"gpus": 2}},
        queues={"a": {"quota": 4}},
        pod_groups={"gang": {"queue": "a", "count": 3, "gpus": 1}},
        expect={},
    )
    ledger = Ledger.from_snapshot(built.world.snapshot)
    member = next(pod for pod in built.world.snapshot.pods if pod.name == "gang-1")

    ledger.apply(PodRemoved(member.key))
    alone = plan(ledger, built.world.policy, 0)
    ledger.apply(PodAdded(member))
    ledger.apply(PodAdded(member))

    assert not alone.statements
    assert len(ledger.snapshot(0).pods) == 3
    assert [pod.state for pod in ledger.snapshot(0).pods] == [PodState.PENDING] * 3
