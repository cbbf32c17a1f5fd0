"""Field reports about the core: nothing is left over, nodes come back, one fault stays one's own."""

import msgspec
import pytest

from scheduler_service.ledger.events import Assumed, NodeChanged, PodStateChanged
from scheduler_service.ledger.store import Ledger
from scheduler_service.model import reasons
from scheduler_service.model.gpu import FractionOfGpu
from scheduler_service.model.node import GpuDevice
from scheduler_service.model.plan import Bind, Evict
from scheduler_service.model.pod import PodState
from scheduler_service.planning.cycle import plan
from tests.field.reports import scenario
from tests.properties.clusters import cluster
from tests.properties.cycles import shuffled
from tests.properties.exactness import planned
from tests.properties.laws import encoded

NOW_MS = 1_000_000_000


def reason_codes(made, group):
    found = next(waiting for waiting in made.waiting if waiting.group == group)
    return {reasons.code(reason) for reason in found.reasons}


@pytest.mark.parametrize("seed", range(25))
def test_l005_a_long_lived_book_plans_like_a_fresh_one(seed):
    """When this happens: hours of failed attempts and rollbacks, and a gang that no longer fits."""
    made_up = cluster(seed, 1 + seed % 5)
    ledger = Ledger.from_snapshot(made_up.snapshot)
    for cycle in range(20):
        now = NOW_MS + cycle
        made = plan(ledger, made_up.policy, now)
        fresh = Ledger.from_snapshot(ledger.snapshot(now))
        assert encoded(plan(fresh, made_up.policy, now)) == encoded(made)
        for statement in made.statements:
            ledger.apply(Assumed(statement, now))
            for operation in statement.operations:
                if isinstance(operation, Bind):
                    ledger.apply(
                        PodStateChanged(
                            operation.pod, PodState.RUNNING, operation.node, operation.devices
                        )
                    )
                elif isinstance(operation, Evict):
                    ledger.apply(PodStateChanged(operation.pod, PodState.PENDING))


def test_l016_a_node_that_comes_back_is_used_at_once():
    """When this happens: a reboot takes the GPUs from 8 to 0 and back to 8."""
    built = scenario(
        run="allocate",
        nodes={"n0": {"gpus": 8}},
        queues={"a": {"quota": 8}},
        pod_groups={"work": {"queue": "a", "count": 2, "gpus": 4}},
        expect={},
    )
    snapshot, policy = built.world.snapshot, built.world.policy
    node = snapshot.nodes[0]
    ledger = Ledger.from_snapshot(snapshot)

    ledger.apply(NodeChanged(msgspec.structs.replace(node, gpus=0, ready=False)))
    away = plan(ledger, policy, NOW_MS)
    ledger.apply(NodeChanged(node))

    assert not away.statements
    assert encoded(plan(ledger, policy, NOW_MS)) == encoded(plan_of(snapshot, policy))


def plan_of(snapshot, policy):
    return plan(Ledger.from_snapshot(snapshot), policy, NOW_MS)


@pytest.mark.parametrize("seed", range(100))
def test_l027_the_order_of_the_search_decides_nothing(seed):
    """When this happens: a protected victim is met first, and a third queue can never be served."""
    groups = {
        f"y{number}": {
            "queue": "y",
            "gpus": 1,
            "created": number,
            "running_on": f"n{number // 2}",
        }
        for number in range(8)
    }
    built = scenario(
        run={"action": "cycle", "settle_cycles": 1, "steady_cycles": 0},
        nodes={f"n{number}": {"gpus": 2} for number in range(4)},
        queues={
            "x": {"quota": 2, "created": 0},
            "y": {"quota": 2, "created": 1},
            "z": {"quota": 4, "created": 2},
        },
        pod_groups={
            **groups,
            "wish": {"queue": "x", "gpus": 1, "created": 8},
            "never": {"queue": "z", "gpus": 4, "created": 9},
        },
        expect={},
    )

    made = planned(shuffled(built.world.snapshot, _random(seed)), built.world.policy)

    told = [op.pod for op in made.operations() if isinstance(op, Evict)]
    assert len(told) == 1
    assert {statement.group for statement in made.statements} == {"default/wish"}


def _random(seed):
    from random import Random

    return Random(seed)


@pytest.mark.parametrize(
    ("group", "node", "code"),
    [
        ({"gpus": 4}, {"gpus": 2}, "never_fits"),
        ({"gpu_memory": "8000MiB"}, {"gpus": 2, "gpu_memory_mib": None}, "gpu_memory_unknown"),
        ({"gpus": 1, "count": 2, "min_members": 3}, {"gpus": 4}, "not_ready"),
        ({"gpus": 1, "count": 3}, {"gpus": 2}, "gang_short"),
    ],
)
def test_l013_a_waiting_group_says_the_reason_that_is_its_own(group, node, code):
    """When this happens: somebody reads why the pod waits, and has to believe it."""
    built = scenario(
        run="allocate",
        nodes={"n0": node},
        queues={"a": {"quota": 8}},
        pod_groups={"work": {"queue": "a", **group}},
        expect={},
    )

    made = planned(built.world.snapshot, built.world.policy)

    assert code in reason_codes(made, "default/work")


def test_l002_backing_off_is_said_with_its_end():
    """When this happens: an admission policy refuses every bind of a group."""
    built = scenario(
        run="allocate",
        nodes={"n0": {"gpus": 1}},
        queues={"a": {"quota": 1}},
        pod_groups={"refused": {"queue": "a", "gpus": 1}},
        back_offs=[{"group": "default/refused", "failures": 3, "for_s": 8}],
        expect={},
    )
    now = built.world.snapshot.now_ms

    made = planned(built.world.snapshot, built.world.policy)

    assert reason_codes(made, "default/refused") == {"backing_off"}
    assert made.waiting[0].not_before_ms == now + 8000


def test_l067_a_gpu_that_others_use_is_not_handed_out():
    """When this happens: a process from outside holds GPU 0, and no pod of ours is there."""
    built = scenario(
        run="allocate",
        nodes={"n0": {"gpus": 1}},
        queues={"a": {"quota": 2}},
        pod_groups={"first": {"queue": "a", "fraction": 0.5, "created": 0},
                    "second": {"queue": "a", "gpus": 1, "created": 1}},
        expect={},
    )  # fmt: skip
    devices = (GpuDevice("GPU-0", 0, taken=True), GpuDevice("GPU-1", 1))
    node = msgspec.structs.replace(built.world.snapshot.nodes[0], devices=devices)
    snapshot = msgspec.structs.replace(built.world.snapshot, nodes=(node,))

    made = planned(snapshot, built.world.policy)

    binds = [operation for operation in made.operations() if isinstance(operation, Bind)]
    assert [(bind.pod, [share.device for share in bind.devices]) for bind in binds] == [
        ("default/first-0", ["GPU-1"])
    ]


@pytest.mark.parametrize("milli", [100, 250, 300, 333, 500, 700])
def test_l051_sixty_at_once_never_overfill_a_gpu(milli):
    """When this happens: a class starts at nine and sixty notebooks ask in the same second."""
    built = scenario(
        run="allocate",
        nodes={"n0": {"gpus": 8, "gpu_memory_mib": 24000}},
        queues={"a": {"quota": 8}},
        pod_groups={
            f"p{number:02d}": {"queue": "a", "fraction": milli / 1000, "created": number}
            for number in range(60)
        },
        expect={},
    )

    made = planned(built.world.snapshot, built.world.policy)

    binds = [operation for operation in made.operations() if isinstance(operation, Bind)]
    used: dict[str, int] = {}
    for bind in binds:
        for share in bind.devices:
            used[share.device] = used.get(share.device, 0) + share.milli
    assert max(used.values()) <= 1000
    assert len(binds) == min(60, 8 * (1000 // milli))
    assert isinstance(built.world.snapshot.pods[0].request.gpu, FractionOfGpu)
