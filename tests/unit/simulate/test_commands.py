"""What a person sees of `kai conformance`, `plan`, `explain` and `replay`, and the exit codes."""

import json
from pathlib import Path

import pytest

from scheduler_service.model.policy import Policy
from scheduler_service.simulate import capture, commands, reader, simulate_command, source
from scheduler_service.simulate.__main__ import main
from scheduler_service.simulate.run import planned

PASSES = """
id: own-start-001
suite: own/start
tags: [smoke]
run: allocate
nodes: {n0: {gpus: 2}}
queues: {a: {quota: 2}}
pod_groups:
  first: {queue: a, gpus: 1, created: 0}
  second: {queue: a, gpus: 2, created: 1}
expect:
  pods: {first: bound n0, second: pending}
"""
FAILS = PASSES.replace("second: pending", "second: bound").replace("own-start-001", "own-start-002")
TABLE = """
{"format": 1, "id": "own-division-001", "kind": "division", "total": {"gpu_milli": 1000},
 "usage_weight_milli": 0, "queues": {"a": {"priority": 100, "created": 0, "gpu_milli":
 {"quota": 1000, "limit": null, "over_quota_weight": 0, "request": 2000}}},
 "expect": {"fair_share": {"a": {"gpu_milli": 1000}}}}
"""


@pytest.fixture
def folder(tmp_path):
    def one_pod(text):
        return text.replace("pods: {first", "pods: {first-0").replace(", second:", ", second-0:")

    (tmp_path / "passes.yaml").write_text(one_pod(PASSES))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "fails.yaml").write_text(one_pod(FAILS))
    (tmp_path / "table.json").write_text(TABLE)
    return tmp_path


def test_the_last_line_is_the_sum_and_failures_are_told(folder, capsys):
    code = main(["conformance", str(folder)])

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert lines[0] == "own-start-002: second-0 should be bound and is pending"
    assert lines[-1] == "2 passed, 1 failed"


@pytest.mark.parametrize(
    ("filters", "last", "code"),
    [
        (["--tags", "other"], "1 passed, 0 failed", 0),
        (["--without-tags", "smoke,other"], "1 passed, 0 failed", 0),
        (["--run", "reclaim", "--kinds", "division"], "1 passed, 0 failed", 0),
        (["--run", "allocate", "--kinds", "capacity"], "1 passed, 1 failed", 1),
    ],
)
def test_filters_choose(folder, capsys, filters, last, code):
    assert main(["conformance", str(folder), *filters]) == code
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_nothing_selected_is_no_success(folder, capsys):
    assert main(["conformance", str(folder), "--run", "reclaim", "--kinds", "none"]) == 2
    assert "No case was selected" in capsys.readouterr().err


def test_a_folder_that_is_not_there(tmp_path, capsys):
    assert main(["conformance", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_broken_file_is_a_failed_case(folder, capsys):
    (folder / "broken.json").write_text("{")

    assert main(["conformance", str(folder / "broken.json")]) == 1
    assert "is not JSON" in capsys.readouterr().out


def test_json_for_programs(folder, capsys):
    main(["conformance", str(folder), "--json"])

    report = json.loads(capsys.readouterr().out)
    assert (report["passed"], report["failed"]) == (2, 1)
    assert {case["id"]: case["passed"] for case in report["cases"]} == {
        "own-start-001": True,
        "own-start-002": False,
        "own-division-001": True,
    }


@pytest.fixture
def snapshot(folder):
    world = reader.read_world(folder / "passes.yaml", Policy.default())
    file = folder / "snapshot.json"
    capture.write(file, capture.snapshot_file(world.snapshot, world.policy))
    return file


def test_a_plan_says_what_happens_and_what_waits(snapshot, capsys):
    assert commands.plan_snapshot(snapshot) == 0

    out = capsys.readouterr().out
    assert "starts on n0" in out
    assert "default/second" in out
    assert out.splitlines()[-1] == "1 operation, 1 group waits."


def test_a_plan_as_json_is_the_plan(snapshot, capsys):
    commands.plan_snapshot(snapshot, as_json=True)

    plan = json.loads(capsys.readouterr().out)
    assert plan["statements"][0]["group"] == "default/first"


@pytest.mark.parametrize("name", ["second", "default/second"])
def test_an_explanation_has_position_and_reason(snapshot, capsys, name):
    assert commands.explain_snapshot(name, snapshot) == 0

    out = capsys.readouterr().out
    assert out.startswith("default/second waits.\nPosition 1 in its queue, 1 over all queues.")
    assert "Needs 2 GPUs on one node" in out


def test_an_explanation_as_json_has_codes_and_sentences(snapshot, capsys):
    commands.explain_snapshot("second", snapshot, as_json=True)

    reasons = json.loads(capsys.readouterr().out)["reasons"]
    assert {"action": "allocate", "code": "not_enough_on_node"}.items() <= reasons[0].items()


def test_a_group_that_starts_does_not_wait(snapshot, capsys):
    assert commands.explain_snapshot("first", snapshot) == 0
    assert "does not wait" in capsys.readouterr().out


def test_an_unknown_group_is_told_with_the_known_ones(snapshot, capsys):
    assert commands.explain_snapshot("third", snapshot) == 2
    assert "Known are: default/first, default/second." in capsys.readouterr().err


def write_capture(snapshot: Path) -> Path:
    world = reader.read_world(snapshot, Policy.default())
    plan = planned(world.snapshot, world.policy)
    file = snapshot.with_name("capture.json")
    capture.write(file, capture.snapshot_file(world.snapshot, world.policy, plan))
    return file


def test_a_replay_reaches_the_same_decision(snapshot, capsys):
    assert commands.replay(write_capture(snapshot)) == 0
    assert "The same decision" in capsys.readouterr().out


def test_a_replay_says_where_it_differs(snapshot, capsys):
    file = write_capture(snapshot)
    content = source.read(file)
    content["plan"]["statements"][0]["operations"][0]["node"] = "n9"
    file.write_text(json.dumps(content))

    assert commands.replay(file) == 1
    out = capsys.readouterr().out
    assert 'plan.statements[0].operations[0].node: was "n9", is "n0"' in out


def test_a_snapshot_has_nothing_to_replay(snapshot, capsys):
    assert commands.replay(snapshot) == 2
    assert "without a decision" in capsys.readouterr().err


def test_a_file_of_a_newer_release_is_refused_by_its_version_not_by_its_fields(snapshot, capsys):
    file = write_capture(snapshot)
    content = source.read(file) | {"version": 2, "something_new": {}}
    file.write_text(json.dumps(content))
    assert commands.replay(file) == 2
    said = capsys.readouterr().err
    assert "version: is 2; this reader knows 1" in said
    assert "Read it with the release that wrote it" in said


def test_a_replay_compares_bytes_not_values(snapshot):
    file = write_capture(snapshot)
    content = source.read(file)
    content["plan"]["now_ms"] = float(content["plan"]["now_ms"])
    file.write_text(json.dumps(content))
    assert commands.replay(file) == 1


OVERBOOKED = """
id: own-over-001
suite: own/over
run: allocate
nodes: {n0: {gpus: 1, cpu: 2, memory: 4GiB, gpu_memory: 1000MiB}, n1: {gpus: 1, gpu_memory: 1000MiB}}
queues: {a: {quota: 2}}
pod_groups:
  both: {queue: a, gpus: 1, count: 2, running_on: [n0, n0]}
  parts:
    queue: a
    pods:
      - {name: p-0, state: running, node: n1, gpu_groups: [g], request: {fraction: 0.6}}
      - {name: p-1, state: running, node: n1, gpu_groups: [g], request: {fraction: 0.6}}
expect: {}
"""
TOLD = [
    "Warning: n0 begins overbooked, by 1 GPU.",
    "Warning: n1 begins overbooked, by 200 MiB on g.",
]


COMMANDS = {
    "plan": commands.plan_snapshot,
    "explain": lambda file: commands.explain_snapshot("default/both", file),
    "simulate": lambda file: simulate_command.simulate(file, simulate_command.Wishes()),
    "conformance": lambda file: main(["conformance", str(file)]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_begins_overbooked_is_told_so(tmp_path, capsys, command):
    """When this happens: a scenario written by hand, with one pod too many on a node."""
    file = tmp_path / "over.yaml"
    file.write_text(OVERBOOKED)

    COMMANDS[command](file)

    lines = capsys.readouterr().err.splitlines()
    prefix = "own-over-001: " if command == "conformance" else ""
    assert lines == [f"{prefix}{line}" for line in TOLD]


def test_a_scenario_is_no_capture(tmp_path, capsys):
    file = tmp_path / "scenario.yaml"
    file.write_text(OVERBOOKED)

    assert commands.replay(file) == 2
    assert "is a scenario without a decision" in capsys.readouterr().err
