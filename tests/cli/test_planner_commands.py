"""`kai plan`, `explain`, `replay`, `conformance`: the planner on the command line, with files of a real service."""

from __future__ import annotations

import json

import pytest

from tests.fakes.processes import KAI, World

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A service whose GPUs are all held, with one request waiting, and its snapshot in a file."""
    world = World(tmp_path_factory.mktemp("full") / "state")
    world.serve(*KAI, "serve", "--simulate-gpus", "2x24GiB", "--no-start-runner")
    for name in ("first", "second"):
        made = world.kai("submit", "-d", "--name", name, "--gpu", "2", "--", "true")
        assert made.returncode == 0, made.stderr
    saved = world.kai("snapshot", str(world.state / "snapshot.json"))
    assert saved.returncode == 0, saved.stderr
    yield world
    world.end()


@pytest.fixture
def snapshot(full) -> str:
    return str(full.state / "snapshot.json")


def test_the_same_plan_for_the_service_and_its_snapshot(full, snapshot):
    live, saved = full.kai("plan", "--json"), full.kai("plan", "--snapshot", snapshot, "--json")
    assert (live.returncode, saved.returncode) == (0, 0), live.stderr + saved.stderr
    plans = [json.loads(answer.stdout) for answer in (live, saved)]
    moments = [plan.pop("now_ms") for plan in plans]
    assert moments[0] > moments[1]
    assert plans[0] == plans[1]
    assert "second" in live.stdout


def test_explain_says_why_for_both(full, snapshot):
    for command in (["explain", "second"], ["explain", "second", "--snapshot", snapshot]):
        answer = full.kai(*command)
        assert answer.returncode == 0, answer.stderr
        assert "Position 1" in answer.stdout
        assert "Needs 2 GPUs on one node" in answer.stdout


def test_explain_of_an_unknown_group_in_a_snapshot_is_a_sentence(full, snapshot):
    answer = full.kai("explain", "nothing", "--snapshot", snapshot)
    assert answer.returncode != 0
    assert "nothing" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("content", ["", "{", "[]", '{"nodes": 3}', '{"surprise": 1}'])
def test_a_file_that_is_no_snapshot_is_a_sentence_that_names_it(full, tmp_path, content):
    file = tmp_path / "broken.json"
    file.write_text(content)
    for command in (["plan", "--snapshot", str(file)], ["replay", str(file)]):
        answer = full.kai(*command)
        assert answer.returncode == 2
        assert "broken.json" in answer.stderr
        assert "Traceback" not in answer.stderr


def test_conformance_says_the_sum_last(world, shared_folder):
    folder = shared_folder / "conformance" / "scenarios"
    tags = "topology,affinity,mig,claims,subgroups"
    answer = world.kai("conformance", str(folder), "--run", "allocate", "--without-tags", tags)
    assert answer.returncode == 0, answer.stdout
    assert answer.stdout.splitlines()[-1].endswith("passed, 0 failed")


def test_conformance_with_nothing_selected_is_exit_2(world, tmp_path):
    answer = world.kai("conformance", str(tmp_path))
    assert answer.returncode == 2
    assert answer.stderr.strip()
