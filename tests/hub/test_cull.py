"""What the culler sees of a server, and the rules that it is given."""

from __future__ import annotations

import pytest

from kai_jupyter.hub.cull import facts_of, rules_in
from kai_jupyter.hub.culling import Rule
from scheduler_service.wire.cluster import DeviceView, Holder, NodeView
from scheduler_service.wire.pod_group import Origin, PodGroupView, RequestView

IDLE = {"id": "k", "execution_state": "idle", "last_activity": "1970-01-01T00:05:00Z"}
BUSY = {**IDLE, "execution_state": "busy"}
VIEW = PodGroupView(
    namespace="ana",
    name="server",
    owner="ana",
    mine=False,
    kind="server",
    queue="team-a",
    request=RequestView(text="0.5 GPU"),
    workers=1,
    min_members=1,
    priority=100,
    preemptible=False,
    state="Running",
    word="Granted",
    tone="ok",
    icon="tick",
    headline="",
    detail="",
    sentence="",
    rev=1,
    created_at=1,
    origin=Origin(kernel_id="server:"),
)


def node(busy_percent: int | None) -> NodeView:
    holder = Holder(
        namespace="ana",
        name="server",
        who="ana",
        mine=False,
        queue="team-a",
        milli=500,
        memory_mib=None,
    )
    device = DeviceView(
        id="GPU-1",
        index=0,
        model="x",
        memory_mib=None,
        simulated=False,
        allocated_milli=500,
        holders=(holder,),
        busy_percent=busy_percent,
    )
    return NodeView(
        name="n",
        simulated=False,
        milli_cpu=1,
        memory_bytes=1,
        max_pods=1,
        milli_gpu=1000,
        allocated_milli_gpu=500,
        devices=(device,),
    )


def test_a_server_that_says_nothing_is_not_known() -> None:
    assert not facts_of(None, [], [], ()).is_known


def test_a_busy_kernel_is_work() -> None:
    assert facts_of([IDLE, BUSY], [], [], ()).is_busy
    assert not facts_of([IDLE], [], [], ()).is_busy


def test_a_gpu_that_works_is_work_where_it_is_measured() -> None:
    assert facts_of([IDLE], [], [VIEW], (node(3),)).is_busy
    assert not facts_of([IDLE], [], [VIEW], (node(0),)).is_busy
    assert not facts_of([IDLE], [], [VIEW], (node(None),)).is_busy
    assert not facts_of([IDLE], [], [], (node(3),)).is_busy, "somebody else's"


def test_the_last_work_is_that_of_kernels_and_terminals() -> None:
    assert facts_of([], [], [], ()).worked_at == 0.0
    assert facts_of([IDLE], [], [], ()).worked_at == 300.0
    terminal = {"name": "1", "last_activity": "1970-01-01T00:10:00+00:00"}
    assert facts_of([IDLE], [terminal], [], ()).worked_at == 600.0


def test_what_it_holds() -> None:
    facts = facts_of([IDLE], [], [VIEW], ())
    assert (facts.queue, facts.holds_gpu, facts.has_leases) == ("team-a", True, False)


def test_rules() -> None:
    rules = rules_in('{"release": "15m", "queues": {"team-a": {"stop": "never"}}}')
    assert rules.usual == Rule(release_s=900)
    assert rules.of("team-a") == Rule(release_s=900, stop_s=None)
    assert rules_in("").usual == Rule()
    with pytest.raises(SystemExit, match="no rule 'halt'"):
        rules_in("halt: 1h")
