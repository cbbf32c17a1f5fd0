"""Figures are right: each evicted pod counts once, queues add up, and the dashboard asks for what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

from scheduler_service.backends.kubernetes.controllers.metrics import Metrics, Turn
from scheduler_service.backends.kubernetes.controllers.metrics_state import State
from scheduler_service.backends.kubernetes.controllers.totals import Totals
from scheduler_service.backends.kubernetes.decode.groups import decode_pod_group
from scheduler_service.backends.kubernetes.decode.queues import decode_queue
from scheduler_service.backends.kubernetes.decode.stores import Scope, Stores
from scheduler_service.backends.kubernetes.objects import decode_node, decode_pod
from scheduler_service.model.plan import Bind, Evict, Plan, Statement, Waiting, Work
from scheduler_service.model.reasons import PreemptedBy, QueueMissing
from scheduler_service.model.resources import Resources
from tests.unit.kubernetes import objects

DASHBOARDS = Path(__file__).parents[4] / "deploy" / "dashboards"
MADE_S = 1_767_600_000.0  # 2026-01-05T08:00:00Z


class Queues:
    def queues(self) -> dict[str, Totals]:
        return {"q": Totals(allocated={"nvidia.com/gpu": 1500, "cpu": 2000, "memory": 10**12})}


def stores() -> Stores:
    found = Stores()
    for name in ("a", "b", "c"):
        found.pods[f"a/{name}"] = decode_pod(objects.raw(objects.pod(name)))
    found.groups["a/g"] = decode_pod_group(objects.raw(objects.group()))
    found.nodes["n"] = decode_node(objects.raw(objects.node(gpus=8)))
    share = {"quota": 2, "limit": -1, "overQuotaWeight": 1}
    found.queues["q"] = decode_queue(objects.raw(objects.queue(gpu=share, displayName="Team Q")))
    return found


class Figures:
    """The metrics with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = MADE_S
        self.stores = stores()
        self.state = State(self.stores, Queues(), Scope)
        self.metrics = Metrics(self.state, clock=lambda: self.now)

    def value(self, series: str) -> float:
        for line in self.metrics.text().decode().splitlines():
            if line.startswith(f"{series} "):
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"no series {series}")

    def turn(self, *statements: Statement, plan: Plan | None = None) -> None:
        plan = plan or Plan(0, statements, work=Work(simulations=3))
        self.state.plan = plan
        self.metrics.decided(Turn(plan, statements, 1, 12_000))


def test_each_evicted_pod_counts_once() -> None:
    figures = Figures()
    reason = PreemptedBy("a/h", 100, 50)
    operations = tuple(Evict(f"a/{name}", "n", reason) for name in ("a", "b", "c"))
    figures.turn(Statement("preempt", "a/h", operations))
    labels = 'action="preempt",namespace="a",nodepool="default",podgroup="g",uid="uid-g"'
    assert figures.value(f"kai_pod_group_evicted_pods_total{{{labels}}}") == 3
    assert figures.value("kai_total_preemption_attempts") == 1
    assert figures.value("kai_scenarios_simulated_total") == 3
    assert figures.value("kai_e2e_scheduling_latency_milliseconds") == 12
    assert figures.value("kai_statements_refused_total") == 1


def test_a_pods_way_is_measured_from_its_creation_to_its_node() -> None:
    figures = Figures()
    figures.now = MADE_S + 3
    figures.turn(Statement("allocate", "a/g", (Bind("a/a", "n"),)))
    figures.now += 0.5
    old = figures.stores.pods["a/a"]
    new = decode_pod(objects.raw(objects.pod("a", node="n")))
    figures.metrics.pod_changed(old, new)
    figures.metrics.pod_changed(new, msgspec.structs.replace(new))
    assert figures.value("kai_task_scheduling_latency_milliseconds_sum") == 3000
    assert figures.value("kai_bind_seconds_sum") == 0.5
    assert figures.value('kai_queue_wait_seconds_sum{queue="q"}') == 3.5
    assert figures.value('kai_podgroups_scheduled_by_action{action="allocate"}') == 1


def test_queues_are_read_as_they_are() -> None:
    figures = Figures()
    waiting = Waiting("a/g", (("allocate", (QueueMissing("q"),)),))
    plan = Plan(0, waiting=(waiting,), fair_shares={"q": Resources(2500, 0, 0)})
    figures.turn(plan=plan)
    labels = 'queue_display_name="Team Q",queue_metadata_name="q",queue_name="q"'
    assert figures.value(f"kai_queue_allocated_gpus{{{labels}}}") == 1.5
    assert figures.value(f"kai_queue_deserved_gpus{{{labels}}}") == 2
    assert figures.value(f"kai_queue_quota_cpu_cores{{{labels}}}") == -1
    assert figures.value(f"kai_queue_allocated_memory_bytes{{{labels}}}") == 10**9
    shown = labels.replace('queue_name="q"', 'queue_name="Team Q"')
    assert figures.value(f"kai_queue_fair_share_gpu{{{shown}}}") == 2.5
    assert figures.value('kai_waiting_pod_groups{queue="q",reason="queue_missing"}') == 1
    assert (figures.value("kai_gpus"), figures.value("kai_gpus_held")) == (8, 1.5)


def test_dashboards_ask_for_what_there_is() -> None:
    figures = Figures()
    figures.turn(Statement("allocate", "a/g", (Bind("a/a", "n"),)))
    text = figures.metrics.text().decode()
    known = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    known |= {f"{name}_bucket" for name in known}
    files = sorted(DASHBOARDS.glob("*.json"))
    assert files
    for file in files:
        board = json.loads(file.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                asked = set(re.findall(r"kai_\w+", target["expr"]))
                assert asked, f"{file.name}: {panel['title']} asks for nothing"
                assert asked <= known, f"{file.name}: {panel['title']} asks for {asked - known}"
