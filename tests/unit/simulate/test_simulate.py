"""Work under a virtual clock: who waits how long, who is evicted, what a failed node costs."""

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from scheduler_service.cli.commands import kai
from scheduler_service.model.policy import Policy
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.simulate import chart, packing, source, story, trace
from scheduler_service.simulate.clock import Clock
from scheduler_service.simulate.result import Point, Result
from scheduler_service.simulate.simulate_command import Wishes, run, simulate

HOUR = 3600
DAY = """
nodes: {n0: {gpus: 4}, n1: {gpus: 4}}
queues:
  team-a: {quota: 4, weight: 1}
  team-b: {quota: 4, weight: 1, created: 1}
pod_groups:
  base: {queue: team-a, gpus: 1, count: 6, min_members: 1, runs_s: 7200}
  train: {queue: team-b, gpus: 1, count: 2, arrives_s: 600, runs_s: 1800, copies: 3, every_s: 300}
  breaks: {queue: team-b, gpus: 1, arrives_s: 4000, runs_s: 900, fails_after_s: 60}
"""
FAILURE = "failures: [{node: n1, at_s: 5000, for_s: 600}]\n"
ONE_GPU = """
nodes: {n0: {gpus: 1}}
queues: {a: {quota: 1}}
pod_groups:
"""


def told(tmp_path: Path, text: str, **wishes: object) -> dict[str, object]:
    file = tmp_path / "trace.yaml"
    file.write_text(text)
    return run(file, Wishes(**wishes)).content()


def queue_of(content: dict[str, object], name: str) -> dict[str, object]:
    return content["queues"][name]


def test_a_team_gets_its_quota_back_and_the_other_loses_surplus_only(tmp_path):
    content = told(tmp_path, DAY)
    base, train = queue_of(content, "team-a"), queue_of(content, "team-b")
    assert (base["evictions"], base["finished"], base["wait_s"]["max"]) == (3, 1, 0)
    assert (train["arrived"], train["finished"], train["failed"]) == (4, 3, 1)
    assert train["wait_s"]["max"] == 1200
    assert base["gpu_hours"] == pytest.approx(10.0, abs=1)


def test_a_failed_node_costs_its_pods_their_places(tmp_path):
    content = told(tmp_path, DAY + FAILURE)
    assert content["all"]["lost"] == 2
    assert content["all"]["finished"] == 4


def test_a_gang_that_loses_a_member_starts_over(tmp_path):
    text = """
nodes: {n0: {gpus: 1}, n1: {gpus: 1}}
queues: {a: {quota: 2}}
pod_groups: {gang: {queue: a, gpus: 1, count: 2, runs_s: 100}}
failures: [{node: n1, at_s: 90, for_s: 10}]
"""
    content = told(tmp_path, text)
    assert content["series"][-1]["at_s"] == 200
    assert content["all"]["finished"] == 1


def test_a_gang_below_its_minimum_goes_after_its_grace(tmp_path):
    text = """
nodes: {n0: {gpus: 1}, n1: {gpus: 1}}
queues: {a: {quota: 2}}
pod_groups: {gang: {queue: a, gpus: 1, count: 2, runs_s: 500}}
failures: [{node: n1, at_s: 90}]
"""
    content = told(tmp_path, text)
    assert content["all"]["evictions"] == 1
    assert content["series"][-1] == {"at_s": 150.0, "gpus": 0.0, "waiting": 1}


def test_who_comes_first_starts_first_and_the_next_waits_for_the_end(tmp_path):
    text = ONE_GPU + "  x: {queue: a, gpus: 1, runs_s: 60, copies: 3, every_s: 10}\n"
    content = told(tmp_path, text)
    assert queue_of(content, "a")["wait_s"] == {"mean": 50.0, "p95": 100.0, "max": 100.0}
    assert content["utilisation"] == 1.0
    assert content["series"][-1]["at_s"] == 180


def test_the_clock_stops_when_told(tmp_path):
    text = ONE_GPU + "  x: {queue: a, gpus: 1, runs_s: 60, copies: 3, every_s: 10}\n"
    content = told(tmp_path, text, until_s=70)
    assert content["all"]["finished"] == 1
    assert content["series"][-1]["at_s"] == 70


def test_min_runtime_protects_as_long_as_it_lasts(tmp_path):
    text = """
nodes: {n0: {gpus: 1}}
queues:
  a: {quota: 0, weight: 1, reclaim_min_runtime_s: 100}
  b: {quota: 1, created: 1}
pod_groups:
  guest: {queue: a, gpus: 1, runs_s: 1000}
  owner: {queue: b, gpus: 1, arrives_s: 10, runs_s: 5}
"""
    assert queue_of(told(tmp_path, text), "b")["wait_s"]["max"] == 90


def test_who_used_more_lately_waits_longer(tmp_path):
    """Time-based fair share: the queue that had the GPU all day comes second in the evening."""
    text = """
policy: {usage_weight_milli: 1000, usage_half_life_s: 86400}
nodes: {n0: {gpus: 1}}
queues: {a: {quota: 0, weight: 1}, b: {quota: 0, weight: 1, created: 1}}
pod_groups:
  day: {queue: a, gpus: 1, runs_s: 1000}
  of-a: {queue: a, gpus: 1, arrives_s: 1000, runs_s: 100}
  of-b: {queue: b, gpus: 1, arrives_s: 1000, runs_s: 100}
"""
    even = told(tmp_path, text.replace("usage_weight_milli: 1000", "usage_weight_milli: 0"))
    weighed = told(tmp_path, text)
    assert queue_of(even, "b")["wait_s"]["max"] == 100
    assert queue_of(weighed, "b")["wait_s"]["max"] == 0


def test_people_of_a_queue_take_turns_by_what_they_used(tmp_path):
    text = (
        "policy: {user_fairness: true}\n"
        + ONE_GPU
        + """
  ana: {queue: a, gpus: 1, runs_s: 100, copies: 3, owner: ana}
  ben: {queue: a, gpus: 1, runs_s: 10, arrives_s: 50, owner: ben}
"""
    )
    by_turns = told(tmp_path, text)
    by_age = told(tmp_path, text.replace("user_fairness: true", "user_fairness: false"))
    assert queue_of(by_turns, "a")["wait_s"]["mean"] < queue_of(by_age, "a")["wait_s"]["mean"]


def test_a_table_of_jobs_in_one_pool_and_by_queue(tmp_path):
    file = tmp_path / "jobs.csv"
    file.write_text(
        "submit_s,run_s,gpus,queue,preemptible\n0,100,2,a,yes\n0,100,2,b,yes\n10,50,1,b,no\n"
    )
    content = run(file, Wishes(gpus=4)).content()
    assert content["all"]["finished"] == 3
    assert sorted(content["queues"]) == ["default"]
    assert sorted(run(file, Wishes(nodes="2x2", by_queue=True)).content()["queues"]) == ["a", "b"]


def test_plans_that_are_known_to_start_nothing_are_left_out_and_change_nothing(tmp_path):
    rows = "".join(f"{n % 50},{n * 7 % 90 + 1},{n % 3 + 1},no\n" for n in range(200))
    file = tmp_path / "jobs.csv"
    file.write_text("submit_s,run_s,gpus,preemptible\n" + rows)
    arrivals = trace.in_one_queue(trace.read(file))
    cluster = Snapshot(nodes=trace.Machines(1, 6).nodes(), queues=trace.one_queue())
    lazy, eager = (
        Clock(cluster, policy, trace.comings(arrivals, node_gpus=6)).run()
        for policy in (
            msgspec.structs.replace(Policy.default(), actions=("allocate",)),
            msgspec.structs.replace(Policy.default(), actions=("allocate", "preempt")),
        )
    )
    assert lazy.cycles < eager.cycles
    assert lazy.content()["queues"] == eager.content()["queues"]
    assert lazy.points == eager.points


def test_philly_s_columns_are_read_as_they_are(tmp_path):
    file = tmp_path / "philly.csv.gz"
    rows = "timestamp,duration,num_gpus,gpu_time,cluster\n"
    rows += "2017-10-09 07:00:00,60.0,4,240.0,x\n2017-10-09 07:00:30,10.0,1,10.0,y\n"
    file.write_bytes(gzip.compress(rows.encode()))
    content = run(file, Wishes(gpus=4)).content()
    assert content["all"]["wait_s"]["max"] == 30
    assert content["all"]["evictions"] == 0


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "when,what\n1,2\n", "has not the columns of a trace"),
        ("a.csv", "submit_s,run_s,gpus\n1,x,1\n", "line 2"),
        ("a.csv", "submit_s,run_s,gpus\n1,1e400,1\n", "line 2: cannot be read (1e400 is no time"),
        ("a.csv", "submit_s,run_s,gpus\n1,-1,1\n", "-1 is no time"),
        ("a.csv", "submit_s,run_s,gpus\n1,nan,1\n", "nan is no time"),
        ("a.csv", f"submit_s,run_s,gpus\n1,1,{9**30}\n", "is no count from 0 to 100000"),
        ("a.csv", "submit_s,run_s,gpus,members\n1,1,1,0\n", "0 is no count from 1"),
        ("a.csv", "submit_s,run_s,gpus\n", "holds no arrivals"),
        ("a.csv.gz", "no gzip", "cannot be read"),
        ("a.yaml", ONE_GPU + "  x: {queue: a, gpus: 1, runs_s: soon}\n", "pod_groups.x.runs_s"),
        ("a.yaml", DAY + "failures: [{node: n9, at_s: 1}]\n", "names no node: n9"),
        ("a.yaml", DAY + "nothing: 1\n", "nothing"),
        ("a.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n", "openb_node_list"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(tmp_path, capsys, name, text, said):
    file = tmp_path / name
    file.write_text(text)
    assert simulate(file, Wishes()) == 2
    assert said in capsys.readouterr().err


def test_an_unreadable_wish_is_a_sentence(tmp_path, capsys):
    file = tmp_path / "a.csv"
    file.write_text("submit_s,run_s,gpus\n1,1,1\n")
    assert simulate(file, Wishes(nodes="many")) == 2
    assert "'many' names no nodes" in capsys.readouterr().err
    assert simulate(file, Wishes(), chart_file=tmp_path / "a.pdf") == 2
    assert "SVG or PNG" in capsys.readouterr().err


def test_the_chart_is_a_whole_picture(tmp_path):
    result = Result(1000)
    result.queue("a<b").evictions = 2
    for at in range(5000):
        result.note(Point(at * 1000, at % 2 * 1000, at % 7))
    root = ET.fromstring(chart.svg(result))  # noqa: S314 - written here
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "2 evictions in a<b" in texts
    assert "6 wait" in texts
    assert len(result.series()) <= 1001
    held = sum(point.held_milli_gpu for point in result.series()[:-1])
    assert held / len(result.series()[:-1]) == pytest.approx(500, abs=5)


def test_the_command_tells_table_and_json(tmp_path, capsys):
    file = tmp_path / "day.yaml"
    file.write_text(DAY)
    picture = tmp_path / "day.svg"
    assert kai.main(["simulate", str(file), "--chart", str(picture)], standalone_mode=False) == 0
    out = capsys.readouterr().out
    assert "team-b" in out
    assert "of the time held" in out
    assert picture.read_text().startswith("<svg")
    kai.main(["simulate", str(file), "--json", "--until", "10m"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["all"]["arrived"] == 2


def test_a_scenario_goes_by_cycles(tmp_path):
    text = """
id: own-simulate-001
suite: own/simulate
run: {action: cycle, settle_cycles: 2, steady_cycles: 1}
nodes: {n0: {gpus: 2}}
queues: {a: {quota: 2}, b: {quota: 0, weight: 0, created: 1}}
pod_groups:
  guest: {queue: b, gpus: 2, running_on: n0}
  owner: {queue: a, gpus: 2, created: 1}
expect: {pods: {owner-0: running}}
"""
    content = told(tmp_path, text)
    assert content["cycles"] == 3
    assert queue_of(content, "b")["evictions"] == 1
    assert queue_of(content, "a")["wait_s"]["max"] == 1


def test_pods_of_a_list_fill_nodes_and_the_rest_is_dropped(tmp_path):
    nodes = tmp_path / packing.NODE_LIST
    nodes.write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nx,64000,262144,2,P100\ny,64000,262144,2,T4\n"
    )
    pods = tmp_path / "pods.csv"
    rows = "".join(f"s{n},1000,1024,1,500,\n" for n in range(4)) + "w,1000,1024,1,1000,T4\n" * 4
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + rows)
    result = run(pods, Wishes(seed=1)).content()
    assert result["gpus"] == 4
    assert result["placed"] < result["pods"]
    assert 0 <= result["unallocated_percent"] <= 50
    assert result == run(pods, Wishes(seed=1)).content()


def test_a_whole_gpu_goes_to_a_model_that_is_allowed():
    file = Path(os.environ.get("KAI_SHARED", "../shared")) / "traces" / "openb"
    if not file.is_dir():
        pytest.skip(f"{file} is not here: it holds the published pod lists.")
    nodes = packing.read_nodes(file / packing.NODE_LIST, seed=42)
    pods = packing.read_pods(file / "openb_pod_list_gpuspec20.csv.gz")
    model_of = {node.name: node.labels[packing.MODEL] for node in nodes}
    assert sum(node.gpus for node in nodes) == 6212
    named = [pod for pod in pods if pod.node_affinity][:40]
    assert named
    few = [node for node in nodes if node.gpus][:300]
    seen = packing.run(named, few, Policy.conformance())
    assert set(model_of.values()) >= {
        value for pod in named for value in pod.node_affinity[0].values
    }
    assert seen.placed + sum(1 for _ in named) >= seen.pods


def test_a_story_is_told_apart_from_other_files():
    assert story.is_story({"nodes": {}, "pod_groups": {}})
    assert not story.is_story({"run": {}, "expect": {}})
    assert not story.is_story({"version": 1})


def test_equal_traces_give_equal_results(tmp_path):
    file = tmp_path / "day.yaml"
    file.write_text(DAY + FAILURE)
    told_once = story.story_of(file, source.read(file), Policy.default())
    results = [
        Clock(told_once.cluster, told_once.policy, told_once.comings, told_once.failures).run()
        for _ in range(2)
    ]
    assert results[0].content() == results[1].content()


def alike(rows, cluster, **policy):
    """Return a run without anybody waiting outside, and one with."""
    plain = msgspec.structs.replace(Policy.conformance(), **policy)
    for actions in (("allocate", "preempt"), ("allocate",)):
        rules = msgspec.structs.replace(plain, actions=actions)
        yield Clock(cluster, rules, trace.comings(rows, node_gpus=4)).run()


@pytest.mark.parametrize("nodes", [trace.Machines(1, 12), trace.Machines(3, 4)])
def test_who_waits_outside_starts_when_they_would_have_started_inside(tmp_path, nodes):
    """Lone pods and gangs, of several priorities, that come faster than they end."""
    file = tmp_path / "jobs.csv"
    rows = "".join(
        f"{n * 3},{n * 37 % 90 + 1},{1 + n * 7 % 6},{50 if n % 5 else 60},no\n" for n in range(300)
    )
    file.write_text("submit_s,run_s,gpus,priority,preemptible\n" + rows)
    arrivals = trace.in_one_queue(trace.read(file))
    cluster = Snapshot(nodes=nodes.nodes(), queues=trace.one_queue())
    inside, outside = alike(arrivals, cluster)
    assert outside.cycles < inside.cycles
    assert outside.content()["queues"] == inside.content()["queues"]
    assert outside.points == inside.points
    assert max(point.waiting for point in outside.points) > 50


def test_the_waits_of_large_groups_are_told_apart(tmp_path):
    file = tmp_path / "jobs.csv"
    file.write_text("submit_s,run_s,gpus,preemptible\n0,100,8,no\n0,50,8,no\n0,50,1,no\n")
    content = run(file, Wishes(gpus=8)).content()["all"]
    assert content["large"] == {
        "started": 2,
        "wait_s": {"mean": 50.0, "p95": 100.0, "max": 100.0},
    }
    assert content["wait_s"]["max"] == 150.0


def test_a_placement_run_can_do_without_knowing_its_mix_and_takes_the_wished_placement(tmp_path):
    file = tmp_path / "pods.csv"
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    file.write_text(
        head
        + "".join(f"p{n},100,10,1,{size},\n" for n, size in enumerate([470, 470, 320, 650] * 40))
    )
    nodes = tmp_path / "openb_node_list_gpu_node.csv"
    rows = "".join(f"n{n},64000,65536,4,A\n" for n in range(15))
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\n" + rows)
    wishes = Wishes(placement="least_fragmentation", policy="conformance")
    known, learned, packed = (
        run(file, replaced).content()
        for replaced in (wishes, replace(wishes, learn=True), replace(wishes, placement="pack"))
    )
    assert known["pods"] == learned["pods"] == packed["pods"]
    assert known["unallocated_percent"] < packed["unallocated_percent"]
    assert learned["unallocated_percent"] < packed["unallocated_percent"]


def test_the_chart_of_a_placement_run_shows_what_is_held_by_what_is_asked_for(tmp_path):
    packed = packing.Packing(2000, 1)
    for asked, is_placed in ((1000, True), (500, True), (500, False), (600, False)):
        packed.note(asked, is_placed=is_placed)
    file = tmp_path / "fill.svg"
    chart.write(file, packed)
    root = ET.fromstring(file.read_text())  # noqa: S314 - written by us
    lines = [line.get("points") for line in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert len(lines[-1].split()) == 5
    assert "25.00 % not held when all were asked for" in file.read_text()
