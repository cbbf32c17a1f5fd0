"""queues.yaml: human units in; a fault with line and field; the old queues stay when a new file is wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler_service.errors import ConfigurationError
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare
from scheduler_service.settings.queue_file import QueueRules, load_queues, read_queues
from tests.fakes.bench_service import ANA, Stage

WHOLE_FILE = """
queues:
  research:
    gpu: {quota: 8, limit: 12, over_quota_weight: 3}
    priority: 200
  vision:
    parent: research
    gpu: 2.5
    cpu: {quota: 500m}
    memory: {quota: 64GiB, limit: null}
    preempt_min_runtime: 10m
    subjects: ["user:ana", "group:vision"]
    leads: ["user:lea"]
    show_names: true
    idle: {after: 20m, release: 1h}
policy:
  hold_ms: 5000
  placement: {gpu: spread}
"""


def test_all_fields_in_human_units(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(WHOLE_FILE)
    config = load_queues(file, 8)
    assert config.queues == (
        Queue(
            "research",
            priority=200,
            created=0,
            gpu=QueueShare(8000, 12_000, 3),
        ),
        Queue(
            "vision",
            parent="research",
            created=1,
            gpu=QueueShare(2500),
            cpu=QueueShare(500),
            memory=QueueShare(64 * 2**30),
            preempt_min_runtime_ms=600_000,
        ),
    )
    assert config.rules_of("vision") == QueueRules(
        subjects=("user:ana", "group:vision"),
        leads=("user:lea",),
        show_names=True,
        idle_after_s=1200,
        idle_release_s=3600,
    )
    assert config.policy.hold_ms == 5000
    assert config.policy.placement.gpu == "spread"
    assert config.policy.back_off_ms == Policy.default().back_off_ms


def test_running_work_is_moved_only_where_the_file_says_so(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    assert "consolidate" not in load_queues(file, 2).policy.actions
    file.write_text("queues: {a: {}}\npolicy: {actions: [allocate, consolidate]}\n")
    assert load_queues(file, 2).policy.actions == ("allocate", "consolidate")


def test_without_a_file_one_leaf_has_the_machine(tmp_path: Path) -> None:
    config = load_queues(tmp_path / "queues.yaml", 2)
    assert [(queue.name, queue.gpu.quota) for queue in config.queues] == [("default", 2000)]


FAULTS = {
    "no YAML": ("queues:\n  a: {gpu: [}\n", "line 2", "not YAML"),
    "no mapping": ("- a\n", "line 1", "must be a mapping"),
    "unknown top": ("queue:\n  a: {}\n", "line 2", "queue: is not known here"),
    "no queue": ("policy: {}\n", "line 1", "no queue is named"),
    "unknown field": ("queues:\n  a:\n    gpus: 2\n", "line 3, queues.a.gpus", "is not a field"),
    "amount": ("queues:\n  a:\n    gpu: {quota: 8x}\n", "line 3, queues.a.gpu.quota", "8x"),
    "negative": ("queues:\n  a:\n    gpu: {limit: -1}\n", "queues.a.gpu.limit", "-1"),
    "weight": ("queues:\n  a:\n    gpu: {over_quota_weight: -2}\n", "over_quota_weight", "-2"),
    "share word": ("queues:\n  a:\n    gpu: {max: 2}\n", "queues.a.gpu.max", "not known"),
    "unit": ("queues:\n  a:\n    memory: {quota: 8Gx}\n", "queues.a.memory.quota", "Gx"),
    "time": ("queues:\n  a:\n    preempt_min_runtime: soon\n", "line 3", "soon"),
    "priority": ("queues:\n  a:\n    priority: high\n", "line 3, queues.a.priority", "high"),
    "names": ("queues:\n  a:\n    show_names: maybe\n", "line 3", "neither true nor false"),
    "subject": ("queues:\n  a:\n    subjects: [ana]\n", "queues.a.subjects[0]", "names nobody"),
    "leads": ("queues:\n  a:\n    leads: ['*']\n", "queues.a.leads[0]", "everybody can not lead"),
    "subjects": ("queues:\n  a:\n    subjects: ana\n", "queues.a.subjects", "must be a list"),
    "idle": ("queues:\n  a:\n    idle: {when: 3m}\n", "queues.a.idle.when", "not known"),
    "parent": ("queues:\n  a: {parent: b}\n", "line 2, queues.a", "parent b"),
    "circle": ("queues:\n  a: {parent: b}\n  b: {parent: a}\n", "line 2", "circle: a > b > a"),
    "itself": ("queues:\n  a: {parent: a}\n", "line 2", "circle: a > a"),
    "twice": ("queues:\n  a: {}\n  a: {}\n", "line 3", "twice"),
    "policy field": (
        "queues:\n  a: {}\npolicy:\n  holds: 1\n",
        "line 4, policy.holds",
        "not a field",
    ),
    "policy value": ("queues:\n  a: {}\npolicy:\n  hold_ms: x\n", "line 4, policy.hold_ms", "int"),
}


@pytest.mark.parametrize(("text", "place", "what"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_names_line_field_and_a_way_out(
    tmp_path: Path, text: str, place: str, what: str
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        read_queues(file)
    assert place in str(error.value)
    assert what in str(error.value)
    assert error.value.hint


def test_a_new_file_is_taken_up_and_a_wrong_one_leaves_the_old_queues(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("queues:\n  a: {gpu: 1}\n")

    async def story() -> None:
        stage = await Stage(tmp_path).begin()
        file.write_text("queues:\n  a: {gpu: 1}\n  b: {gpu: 1, parent: nobody}\n")
        await stage.pass_s(1)
        notes = (await stage.service.health()).notes
        assert any("The old queues stay in force." in note and "line 3" in note for note in notes)
        assert (await stage.refusal(gpu=0.5, queue="b")).code == "unknown_queue"
        file.write_text("queues:\n  b: {gpu: 2}\n")
        await stage.ask(gpu=0.5, queue="a", name="left")
        await stage.pass_s(1)
        assert not any("stay in force" in n for n in (await stage.service.health()).notes)
        assert (await stage.ask(gpu=0.5, queue="b")).state == "Starting"
        assert [queue.name for queue in await stage.service.queues(ANA)] == ["b"]
        file.unlink()
        await stage.pass_s(1)
        assert any("is gone" in note for note in (await stage.service.health()).notes)
        assert [queue.name for queue in await stage.service.queues(ANA)] == ["b"]
        assert (await stage.view(ANA, "left")).state == "Starting"

    asyncio.run(story())
