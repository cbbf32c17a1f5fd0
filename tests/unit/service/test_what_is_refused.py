"""What bad input gets: at once, with a sentence and what to do next, and nothing is kept of it."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from scheduler_service.wire.pod_group import ClusterAsk, Process, Work
from tests.fakes.bench_service import ANA, BEN, Stage

QUEUES = """
queues:
  team:
    gpu: {quota: 2, limit: 2}
  team-a:
    parent: team
    gpu: {quota: 1, limit: 2}
  team-b:
    parent: team
    gpu: {quota: 1, limit: 1}
    subjects: [user:ben]
"""

BAD = {
    "0 GPU": ({"gpu": 0}, "bad_gpu_amount", "0 GPU"),
    "negative": ({"gpu": -0.5}, "bad_gpu_amount", "-"),
    "NaN": ({"gpu": math.nan}, "bad_gpu_amount", "nan"),
    "NaN as text": ({"gpu": "NaN"}, "bad_gpu_amount", "NaN"),
    "infinite": ({"gpu": math.inf}, "bad_gpu_amount", "inf"),
    "huge": ({"gpu": "1e400"}, "bad_gpu_amount", ""),
    "truth": ({"gpu": True}, "bad_gpu_amount", "True"),
    "1.5": ({"gpu": 1.5}, "bad_gpu_amount", "1.5 GPUs"),
    "half": ({"gpu": "half"}, "bad_gpu_amount", "half"),
    "too fine": ({"gpu": "0.00001"}, "bad_gpu_amount", "0.00001"),
    "fraction and memory": ({"gpu": 0.5, "gpu_memory": "8GiB"}, "fraction_and_memory", "8GiB"),
    "memory of nothing": ({"gpu_memory": "0"}, "bad_gpu_memory", "0"),
    "memory in words": ({"gpu_memory": "much"}, "bad_gpu_memory", "much"),
    "memory larger than any device": ({"gpu_memory": "80GiB"}, "never_fits", "24 GiB"),
    "more GPUs than a node has": ({"gpu": 16}, "never_fits", "largest node has 2 GPUs"),
    "parts of more devices than there are": ({"gpu": 0.5, "devices": 3}, "never_fits", "2 GPUs"),
    "no device": ({"gpu": 0.5, "devices": 0}, "bad_devices", "0 devices"),
    "whole GPUs times devices": ({"gpu": 2, "devices": 2}, "bad_devices", "2 GPUs"),
    "unknown queue": ({"gpu": 0.5, "queue": "team-c"}, "unknown_queue", "team-c"),
    "parent queue": ({"gpu": 0.5, "queue": "team"}, "not_a_leaf_queue", "team"),
    "queue of others": ({"gpu": 0.5, "queue": "team-b"}, "not_your_queue", "team-b"),
    "gang of 0": ({"gpu": 0.5, "workers": 0}, "gang_of_zero", "0 workers"),
    "gang larger than everything": ({"gpu": 1, "workers": 64}, "never_fits", "at most 2"),
    "gang beyond reason": ({"gpu": 0.001, "workers": 5000}, "too_many_workers", "1024"),
    "minimum above the workers": (
        {"gpu": 0.1, "workers": 2, "min_members": 3},
        "bad_min_members",
        "3 of 2",
    ),
    "CPU in words": ({"cpu": "many"}, "bad_cpu", "many"),
    "more CPU than there is": ({"cpu": 64}, "never_fits", "16 CPUs"),
    "memory of the machine": ({"memory": "1TiB"}, "never_fits", "64 GiB"),
    "memory unit": ({"memory": "8Gx"}, "bad_memory", "8Gx"),
    "name": ({"name": "Sweep LR!", "gpu": 0.5}, "bad_name", "Sweep LR!"),
    "name with a way out": ({"name": "../x", "gpu": 0.5}, "bad_name", "../x"),
    "no time": ({"gpu": 0.5, "lease_s": 0}, "bad_time", "0 s"),
    "negative wait": ({"gpu": 0.5, "max_wait_s": -1}, "bad_time", "-1 s"),
    "endless grace": ({"gpu": 0.5, "grace_s": 10**9}, "bad_time", "grace"),
    "priority": ({"gpu": 0.5, "priority": 10**6}, "bad_priority", "1000000"),
    "variable without a name": (
        {"work": Work(command=("ls",), env={"": "3"})},
        "bad_variable",
        "''",
    ),
    "variable with = in its name": (
        {"work": Work(command=("ls",), env={"a=b": "3"})},
        "bad_variable",
        "a=b",
    ),
    "variable with a zero byte": (
        {"work": Work(command=("ls",), env={"a": "\0"})},
        "bad_variable",
        "'a'",
    ),
    "nothing to run": ({"gpu": 0.5, "work": Work()}, "nothing_to_run", ""),
    "unsigned": ({"gpu": 0.5, "work": Work(command=("ls",)), "signature": None}, "unsigned", ""),
    "payload not there": (
        {"gpu": 0.5, "work": Work(payload_sha256="ab" * 32)},
        "unknown_payload",
        "",
    ),
    "an image on one machine": ({"cluster": ClusterAsk(image="x")}, "not_a_cluster", "image"),
    "process not there": (
        {"kind": "lease", "gpu": 0.5, "process": Process(pid=2**22 - 7, start_ticks=1)},
        "process_gone",
        "",
    ),
    "a gang as a process": (
        {"kind": "gang", "gpu": 0.5, "process": Process(pid=1, start_ticks=1)},
        "nothing_to_run",
        "",
    ),
}


@pytest.mark.parametrize(("fields", "code", "part"), BAD.values(), ids=BAD.keys())
def test_refused_with_a_sentence(tmp_path: Path, fields: dict, code: str, part: str) -> None:
    (tmp_path / "queues.yaml").write_text(QUEUES)

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        problem = await stage.refusal(ANA, **{"queue": "team-a", **fields})

        assert problem.code == code, problem
        assert part in problem.detail
        assert problem.status == (403 if code == "not_your_queue" else 422)
        assert problem.detail.endswith(".")
        assert problem.hint.endswith((".", "SECONDS"))
        assert "Traceback" not in problem.detail
        assert len(stage.service.records) == 0

    asyncio.run(story())


def test_over_the_limit_is_refused_with_the_arithmetic_more_than_is_free_waits(
    tmp_path: Path,
) -> None:
    """Two people ask for 2 GPUs: in one queue that can never be, in the other it only has to wait."""
    (tmp_path / "queues.yaml").write_text(QUEUES)

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        over = await stage.refusal(BEN, gpu=2, queue="team-b")
        assert (over.code, over.detail) == (
            "over_limit",
            "You asked for 2 GPUs; queue team-b is limited to 1 GPU.",
        )
        first = await stage.ask(ANA, gpu=1, queue="team-a")
        waits = await stage.ask(ANA, gpu=2, queue="team-a")
        assert (first.state, waits.state) == ("Starting", "Waiting")
        assert waits.headline.startswith("Position 1 of 1.")
        assert waits.reason is not None

    asyncio.run(story())


def test_more_than_the_quota_that_may_not_be_taken_back_is_refused(tmp_path: Path) -> None:
    (tmp_path / "queues.yaml").write_text(QUEUES)

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        problem = await stage.refusal(ANA, kind="lease", gpu=2, queue="team-a")
        assert problem.code == "over_quota"
        assert "--preemptible" in problem.hint
        fits = await stage.ask(ANA, kind="lease", gpu=2, queue="team-a", preemptible=True)
        assert fits.state == "Starting"

    asyncio.run(story())


def test_several_queues_and_none_named(tmp_path: Path) -> None:
    (tmp_path / "queues.yaml").write_text(QUEUES)

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        problem = await stage.refusal(BEN, gpu=0.5)
        assert problem.code == "queue_needed"
        assert "team-a, team-b" in problem.hint
        only = await stage.ask(ANA, gpu=0.5)
        assert only.queue == "team-a"

    asyncio.run(story())


def test_too_many_live_requests(tmp_path: Path) -> None:
    async def story() -> None:
        stage = await Stage(tmp_path, live_groups_per_user=2).begin()
        await stage.ask(gpu=0.1)
        await stage.ask(gpu=0.1)
        assert (await stage.refusal(gpu=0.1)).status == 429
        assert (await stage.ask(BEN, gpu=0.1)).state == "Starting"

    asyncio.run(story())
