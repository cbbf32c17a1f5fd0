"""Field reports about fairness: guarantees met exactly, nobody cut below them, and then quiet."""

import pytest

from scheduler_service.model.gpu import WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup, flat_gang
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.simulate.clock import Clock, Coming
from tests.field.reports import cycles, failures, one_gpu_groups


@pytest.mark.parametrize("left", range(1, 10))
@pytest.mark.parametrize("right", range(1, 10))
def test_l018_a_request_that_meets_the_quota_exactly_starts(left, right):
    """When this happens: 0.1 and 0.2 of a GPU under a quota of 0.3, summed as binary floats."""
    quota = (left + right) / 10
    request = {"queue": "a", "priority": 100, "preemptible": False}
    groups = {
        "runs": request
        | {
            "created": 0,
            "pods": [
                {
                    "name": "runs-0",
                    "state": "running",
                    "node": "n0",
                    "gpu_groups": ["g"],
                    "request": {"fraction": left / 10},
                }
            ],
        },
        "next": request | {"fraction": right / 10, "created": 1},
        "more": request | {"fraction": 0.001, "created": 2},
    }

    assert not failures(
        run="allocate",
        nodes={"n0": {"gpus": 4}},
        queues={"a": {"quota": quota}},
        pod_groups=groups,
        expect={
            "pods": {"next-0": "bound", "more-0": "pending"},
            "pod_groups": {"more": {"reason": "non_preemptible_over_quota"}},
        },
    )


def test_l020_without_gpu_nodes_memory_is_not_over_quota():
    """When this happens: every GPU node is away, and the request is measured by nothing."""
    lines = failures(
        run="allocate",
        nodes={"n2": {"gpus": 0, "gpu_memory_mib": None}},
        queues={"a": {"quota": 1}},
        pod_groups={
            "work": {
                "queue": "a",
                "gpu_memory": "20000MiB",
                "priority": 100,
                "preemptible": False,
            }
        },
        expect={
            "pods": {"work-0": "pending"},
            "pod_groups": {"work": {"reason": "non_preemptible_over_quota"}},
        },
    )

    assert len(lines) == 1, lines
    assert "should wait for non_preemptible_over_quota" in lines[0]


def test_l023_no_victim_queue_is_cut_below_its_quota():
    """When this happens: one queue takes back its half while two others are above their quarter."""
    groups = {
        **one_gpu_groups("a", "a", 16, nodes=8),
        **one_gpu_groups("b", "b", 24, nodes=8, start=100),
        **one_gpu_groups("c", "c", 24, nodes=8, start=200),
        **one_gpu_groups("wish", "a", 16, start=300),
    }

    assert not failures(
        run=cycles(8, 5),
        nodes={f"n{number}": {"gpus": 8} for number in range(8)},
        queues={
            "a": {"quota": 32, "created": 0},
            "b": {"quota": 16, "created": 1},
            "c": {"quota": 16, "created": 2},
        },
        pod_groups=groups,
        expect={
            "queues": {
                "a": {"running_gpu_milli": 32_000},
                "b": {"running_gpu_milli": 16_000},
                "c": {"running_gpu_milli": 16_000},
            },
            "whole_run": {"max_evictions": 16, "min_evictions": 16, "max_evictions_per_pod": 1},
        },
    )


def test_l024_a_guarantee_is_met_in_full_under_load():
    """When this happens: a full cluster, as many waiting again, and a queue that owns a third."""
    groups = {
        **one_gpu_groups("b", "b", 75, nodes=10),
        **one_gpu_groups("more", "b", 75, start=100),
        **one_gpu_groups("a", "a", 25, start=200),
    }
    free = {f"n{number}": {"gpus": 8 if number < 5 else 7} for number in range(10)}

    assert not failures(
        run=cycles(6, 3),
        nodes=free,
        queues={"a": {"quota": 25, "created": 0}, "b": {"quota": 0, "created": 1}},
        pod_groups=groups,
        expect={
            "queues": {"a": {"running_gpu_milli": 25_000}, "b": {"running_gpu_milli": 50_000}},
            "whole_run": {"max_evictions": 25, "min_evictions": 25},
        },
    )


def test_l029_reclaim_goes_on_to_the_fair_share_and_stops_there():
    """When this happens: bob asks for his half of what alice holds above her guarantee."""
    groups = {
        **one_gpu_groups("alice", "alice", 8, nodes=2),
        **one_gpu_groups("bob", "bob", 8, start=100),
    }

    assert not failures(
        run=cycles(8, 5),
        nodes={"n0": {"gpus": 4}, "n1": {"gpus": 4}},
        queues={
            "lab": {"quota": 8},
            "alice": {"parent": "lab", "quota": 1, "weight": 1, "created": 0},
            "bob": {"parent": "lab", "quota": 1, "weight": 1, "created": 1},
        },
        pod_groups=groups,
        expect={
            "queues": {"alice": {"running_gpu_milli": 4000}, "bob": {"running_gpu_milli": 4000}},
            "whole_run": {"max_evictions": 4},
        },
    )


MINUTE = 60_000
JOB = 10 * MINUTE
"""How long each small one runs, and how long the gang of four waits before room is kept for it."""


def l031_stream(*, declared: bool, minutes: int = 360) -> list[Coming]:
    """Return small work for ten minutes on one GPU each two minutes, and at 20 min a gang of four."""
    comings = [
        _coming(f"small-{at}", at, 1, JOB if declared else None) for at in range(0, minutes, 2)
    ]
    return [*comings, _coming("gang", 20, 4, None)]


def _coming(name: str, at: int, members: int, run_ms: int | None) -> Coming:
    group = PodGroup(
        name=name,
        namespace="lab",
        queue="q",
        gang=flat_gang(members),
        created=at * MINUTE,
        run_ms=run_ms,
    )
    request = PodRequest(gpu=WholeGpus(1))
    pods = tuple(Pod(f"{name}-{n}", "lab", group.key, request=request) for n in range(members))
    return Coming(at * MINUTE, group, pods, JOB)


def l031_state_of_the_gang(policy: Policy, minute: int, *, declared: bool) -> PodState:
    """Return the state of the gang's pods at a moment of the run."""
    cluster = Snapshot(
        nodes=(Node("n0", gpus=4),), queues=(Queue("q", gpu=QueueShare(quota=4000)),)
    )
    clock = Clock(cluster, policy, l031_stream(declared=declared))
    clock.run(until_ms=minute * MINUTE)
    pods = clock.ledger.snapshot(0).pods
    (state,) = {pod.state for pod in pods if pod.group == "lab/gang"}
    return state


def test_l031_a_gang_starts_within_one_job_once_room_is_kept_for_it():
    """When this happens: a busy teaching lab, where somebody wants all four GPUs for an exam."""
    plain = Policy(actions=("allocate",))
    keeping = Policy(actions=("allocate",), reserve_after_ms=JOB, reserve_for_ms=JOB)

    assert l031_state_of_the_gang(plain, 360, declared=True) is PodState.PENDING
    assert l031_state_of_the_gang(keeping, 29, declared=True) is PodState.PENDING
    assert l031_state_of_the_gang(keeping, 40, declared=True) is PodState.RUNNING
    assert l031_state_of_the_gang(keeping, 40, declared=False) is PodState.RUNNING
