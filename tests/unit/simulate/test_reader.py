"""What a person gets who writes a scenario wrongly: the file, the place, and what to do."""

import copy
import json
from pathlib import Path

import pytest

from scheduler_service.errors import ConfigurationError
from scheduler_service.model.gpu import FractionOfGpu, GpuShare
from scheduler_service.model.pod import PodState
from scheduler_service.model.policy import Policy
from scheduler_service.simulate import reader, source

SHARE = {"quota": None, "limit": None, "over_quota_weight": 1}
QUEUE = {"parent": None, "priority": 100, "created": 0} | dict.fromkeys(
    ("gpu_milli", "cpu_milli", "memory_bytes"), SHARE
)
REQUEST = {"cpu_milli": 1000, "memory_bytes": 10**9, "gpus": 1}
VALID = {
    "format": 1,
    "id": "own-case-001",
    "suite": "own/case",
    "tags": ["smoke"],
    "run": {"action": "allocate"},
    "policy": {
        "placement": {"gpu": "pack", "cpu": "pack", "shared_gpu": "pack"},
        "stale_gang_grace_s": 60,
        "max_consolidation_victims": None,
    },
    "nodes": {
        "n0": {
            "gpus": 1,
            "gpu_memory_mib": 16000,
            "cpu_milli": 64000,
            "memory_bytes": 10**12,
            "max_pods": 110,
            "labels": {},
            "mig": {},
            "mig_strategy": None,
        }
    },
    "queues": {"all": QUEUE, "a": {**QUEUE, "parent": "all"}},
    "pod_groups": {
        "g": {
            "queue": "a",
            "namespace": "default",
            "priority": 50,
            "preemptible": True,
            "created": 0,
            "stale_for_s": None,
            "gang": {
                "topology": None,
                "subgroups": [{"name": "default", "topology": None, "min_members": 1}],
            },
            "pods": [
                {"name": "g-0", "state": "pending", "subgroup": "default", "request": REQUEST}
            ],
        }
    },
    "expect": {"pods": {"g-0": {"state": "bound"}}},
}


def changed(path, value):
    """The valid scenario with one value put (or, for None, taken out) at a path."""
    raw = copy.deepcopy(VALID)
    holder = raw
    for step in path[:-1]:
        holder = holder[step]
    if value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return raw


def read(raw, tmp_path, name="case.json"):
    file = tmp_path / name
    file.write_text(raw if isinstance(raw, str) else json.dumps(raw))
    return reader.read_scenario(file, Policy.conformance())


POD = ("pod_groups", "g", "pods", 0)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("nodes",), None, "nodes: is missing"),
        (("nodes", "n0", "gpus"), None, "nodes.n0: Object missing required field `gpus`"),
        (("nodes", "n0", "gpus"), -1, "nodes.n0.gpus: Expected `int` >= 0"),
        (("nodes", "n0", "colour"), "red", "nodes.n0: Object contains unknown field `colour`"),
        (("nodes", "n0", "mig_strategy"), "other", "nodes.n0.mig_strategy: Invalid enum value"),
        (("colour",), "red", "colour: is no field of the format"),
        (("format",), 2, "format: is 2; this reader knows 1"),
        (("queues", "a", "parent"), "b", "queues.a: parent names 'b', which is no queue"),
        (("queues", "all", "parent"), "a", "queues.all: parent makes all its own ancestor"),
        (("run",), {"action": "cycle"}, "run: a cycle needs settle_cycles and steady_cycles"),
        (("run", "settle_cycles"), 2, "run.settle_cycles: goes with the action cycle only"),
        ((*POD, "state"), "running", "pods[0]: node: a running pod needs a node"),
        ((*POD, "node"), "n0", "pods[0]: node: a pending pod has no node"),
        ((*POD, "subgroup"), "x", "pods[0]: subgroup names 'x', which is no leaf of the gang"),
        (
            ("pod_groups", "g", "gang", "subgroups"),
            [{"name": "w", "min_members": size, "topology": None} for size in (1, 2)],
            "'w' is the name of two of them",
        ),
        ((*POD, "gpu_groups"), ["s"], "pods[0]: gpu_groups goes with a shared request only"),
        ((*POD, "request", "gpu_fraction_milli"), 500, "request asks for gpus and gpu_fraction"),
        ((*POD, "request", "devices"), 2, "request.devices goes with"),
        ((*POD, "request", "gpus"), "half", "pod_groups.g.pods[0].request.gpus: Expected `int`"),
        (("expect", "pods", "g-1"), {"state": "bound"}, "expect.pods.g-1: is not in the scenario"),
        (("topology_aliases",), {"net": {}}, "topology_aliases.net: names no topology"),
    ],
)
def test_an_error_names_its_place(path, value, said, tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        read(changed(path, value), tmp_path)

    assert str(caught.value).startswith(f"{tmp_path / 'case.json'}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1, column 2: is not JSON"),
        ("[]", "does not hold one object"),
        ('{"nodes": {}, "nodes": {}}', "nodes: appears twice"),
        ("[" * 100_000, "inside each other too deeply"),
        ('{"nodes": {"n0": {"gpus": 1' + "0" * 30 + "}}}", "nodes.n0.gpus: is no number"),
        ('{"nodes": {"n0": {"gpus": NaN}}}', "nodes.n0.gpus: is no number"),
        ('{"nodes": {"n0": {"gpus": 1e400}}}', "nodes.n0.gpus: is no number"),
    ],
)
def test_a_file_that_is_no_scenario_at_all(text, said, tmp_path):
    with pytest.raises(ConfigurationError, match=said):
        read(text, tmp_path)


def test_yaml_may_not_be_too_deep_either(tmp_path):
    with pytest.raises(ConfigurationError, match="inside each other too deeply"):
        read("[" * 100_000, tmp_path, "case.yaml")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        source.read(tmp_path / "none.json")


def test_yaml_says_its_line(tmp_path):
    with pytest.raises(ConfigurationError, match="line 2, column"):
        read("nodes: {n0: {gpus: 1}}\nqueues: [", tmp_path, "case.yaml")


YAML = """
id: own-case-002
suite: own/case
run: reclaim
nodes: {n0: {gpus: 2, gpu_memory: 16GiB, cpu: 8, memory: 64GiB}}
queues:
  a: {quota: 0.5, limit: 2, weight: 3}
  b: {cpu: {quota: 4}}
pod_groups:
  share: {queue: a, fraction: 0.5, priority: build, pods: [
    {name: s0, state: running, node: n0, gpu_groups: [s]}]}
  gang: {queue: b, gpus: 1, count: 3, min_members: 2, running_on: [n0]}
expect:
  pods: {s0: running n0, gang-1: pending}
"""


def test_human_units_mean_the_same_as_base_units(tmp_path):
    scenario = read(YAML, tmp_path, "case.yaml")
    snapshot = scenario.world.snapshot
    (node,) = snapshot.nodes
    queues = {queue.name: queue for queue in snapshot.queues}
    pods = {pod.name: pod for pod in snapshot.pods}
    groups = {group.name: group for group in snapshot.pod_groups}

    assert (node.gpu_memory_mib, node.milli_cpu) == (16384, 8000)
    assert node.memory_bytes == 64 * 2**30
    assert (queues["a"].gpu.quota, queues["a"].gpu.limit) == (500, 2000)
    assert queues["a"].gpu.over_quota_weight == 3
    assert (queues["b"].gpu.quota, queues["b"].cpu.quota) == (None, 4000)
    assert pods["s0"].request.gpu == FractionOfGpu(500)
    assert pods["s0"].devices == (GpuShare("s", 500, 8192),)
    assert not groups["share"].preemptible
    assert groups["gang"].preemptible
    assert groups["gang"].min_members == 2
    assert [pods[f"gang-{number}"].state for number in range(3)] == [
        PodState.RUNNING,
        PodState.PENDING,
        PodState.PENDING,
    ]
    assert scenario.actions == ("reclaim",)
    assert scenario.expect.pods["s0"].node == "n0"


@pytest.mark.parametrize(
    ("run", "runs"),
    [
        ("{action: cycle, settle_cycles: 1, steady_cycles: 1}", ("allocate", "consolidate")),
        ("preempt", ("preempt",)),
    ],
)
def test_a_cycle_runs_the_actions_of_the_policy_and_an_action_runs_alone(run, runs, tmp_path):
    text = YAML.replace(
        "run: reclaim", f"run: {run}\npolicy: {{actions: [allocate, consolidation]}}"
    )

    assert read(text, tmp_path, "case.yaml").world.policy.actions == runs


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues: {a: {quota: many}}", "'many' is not a number"),
        ("nodes: {n0: 3}", "nodes.n0 is not a mapping"),
        ("queues: {a: {quota: 1, gpu: {quota: 1}}}", "either quota, limit, weight or gpu"),
    ],
)
def test_a_shorthand_that_cannot_be_written_out(text, said, tmp_path):
    with pytest.raises(ConfigurationError, match=said):
        read(text, tmp_path, "case.yaml")


def test_a_snapshot_file_says_which_version_it_is(tmp_path):
    file = tmp_path / "snapshot.json"
    world = {key: VALID[key] for key in ("policy", "nodes", "queues", "pod_groups")}
    file.write_text(json.dumps({**world, "version": 9, "now": 0}))

    with pytest.raises(ConfigurationError, match="version: is 9"):
        reader.read_world(file, Policy.conformance())


def test_a_scenario_file_is_a_snapshot_too(tmp_path: Path):
    file = tmp_path / "case.json"
    file.write_text(json.dumps(VALID))

    world = reader.read_world(file, Policy.conformance())

    assert [pod.key for pod in world.snapshot.pods] == ["default/g-0"]
