"""Every route over the socket, as two people and two who may more: the table of the application is the list."""

from __future__ import annotations

import json

import pytest
from fastapi.routing import APIRoute

from scheduler_service.api.app import create_app
from scheduler_service.wire import locate
from tests.fakes.scheduler import FakeScheduler
from tests.unit.api.test_every_route_is_guarded import routes_of

pytestmark = pytest.mark.process

OWN, LOOK, ADMIN, POD, OPEN = "own", "look", "admin", "pod", "open"
RULES: dict[str, str] = {
    "GET /pod-groups/{namespace}/{name}": OWN,
    "GET /pod-groups/{namespace}/{name}/logs": OWN,
    "GET /pod-groups/{namespace}/{name}/explain": OWN,
    "POST /pod-groups/{namespace}/{name}/extend": OWN,
    "POST /pod-groups/{namespace}/{name}/move": OWN,
    "POST /pod-groups/{namespace}/{name}/cancel": OWN,
    "GET /pod-groups": LOOK,
    "GET /queues": LOOK,
    "GET /nodes": LOOK,
    "GET /cycles": LOOK,
    "GET /forecast?gpu=1": LOOK,
    "GET /events": LOOK,
    "GET /me": LOOK,
    "GET /metrics": LOOK,
    "GET /openapi.json": LOOK,
    "GET /snapshot": ADMIN,
    "GET /runner/pods/{incarnation}/payload": POD,
    "PUT /runner/pods/{incarnation}/result": POD,
    "POST /runner/pods/{incarnation}/logs": POD,
    "GET /health": OPEN,
    "GET /ready": OPEN,
}
OTHERS = {
    "POST /pod-groups",
    "GET /pod-groups/{namespace}/{name}/result",
    "POST /payloads",
    "POST /runner/claim",
    "POST /runner/prove",
    "GET /runner/orders",
    "POST /runner/beat",
    "POST /runner/report",
}
"""Tried below, each in its own words."""
ELSEWHERE = {
    *("GET /team", "GET /team/csv", "GET /team/events"),
    *("POST /team/what-if", "POST /team/changes", "POST /team/changes/{number}/undo"),
    "POST /pod-groups/{namespace}/{name}/cells",
    "GET /pod-groups/{namespace}/{name}/cells/{cell}",
    "GET /pod-groups/{namespace}/{name}/cells/{cell}/result",
    "POST /pod-groups/{namespace}/{name}/cells/{cell}/interrupt",
    *("GET /runner/pods/{incarnation}/cells", "POST /runner/pods/{incarnation}/cells"),
    "GET /runner/pods/{incarnation}/cells/{cell}/payload",
    "PUT /runner/pods/{incarnation}/cells/{cell}/result",
}
"""A lead's page is tried with people of its own (`tests/unit/service`), cells of companions in a cluster."""
BODIES: dict[str, object] = {
    "extend": {},
    "cancel": {"grace_s": 0},
    "logs": {"lines": []},
    "result": {},
}


def routes() -> set[str]:
    app = create_app(FakeScheduler(), [])
    found = [(path, route) for path, route in routes_of(app) if isinstance(route, APIRoute)]
    return {
        f"{method} {path.removeprefix('/api/v1')}"
        for path, route in found
        for method in route.methods
    }


def test_no_route_is_left_out():
    assert {rule.partition("?")[0] for rule in RULES} | OTHERS | ELSEWHERE == routes()


@pytest.fixture(scope="module")
def work(machine):
    """Work of Ana's that runs, with its incarnation."""
    ana = machine.ana
    holder = ana.start("sleep", "600")
    process = {"pid": holder.pid, "start_ticks": locate.start_ticks(holder.pid)}
    body = {
        "kind": "lease",
        "name": "secret",
        "gpu": "0.5",
        "process": process,
        "lease_s": 3600,
        "origin": {"kernel_id": "k"},
    }
    status, text = ana.ask("POST", "/pod-groups", body=body)
    assert status == 201, text
    _, claimed = ana.ask("POST", "/runner/claim", body={"runner": "by-hand", "host": "h"})
    (order,) = json.loads(claimed)["starts"]
    report = {"incarnation": order["incarnation"], "kind": "started", "at": 1} | process
    assert ana.ask("POST", "/runner/report", body=report)[0] == 204
    yield {"namespace": ana.name, "name": "secret", "order": order, "process": process}
    holder.kill()


def asked(person, rule, work, *, token=None):
    method, _, path = rule.partition(" ")
    full = path.format(
        namespace=work["namespace"],
        name=work["name"],
        incarnation=work["order"]["incarnation"],
    )
    tail = path.rpartition("/")[2]
    body = {"process": work["process"], "kernel_id": "k"} if tail == "move" else BODIES.get(tail)
    headers = {"X-Kai-Signature": "0"} | ({"Authorization": f"Bearer {token}"} if token else {})
    return person.ask(method, full, body=None if method == "GET" else body, headers=headers)


@pytest.mark.parametrize("rule", [rule for rule, kind in RULES.items() if kind == OWN])
def test_what_is_hers_is_to_him_as_if_it_never_was(machine, work, rule):
    nothing = work | {"name": "nothing"}
    his, nobodys = asked(machine.ben, rule, work), asked(machine.ben, rule, nothing)
    assert his[0] == nobodys[0] == 404
    assert json.loads(his[1].replace("secret", "nothing")) == json.loads(nobodys[1])
    if not rule.endswith(("cancel", "move")):
        for person in (machine.lea, machine.root):
            assert asked(person, rule, work)[0] == 200
    if not rule.endswith("cancel"):
        assert asked(machine.ana, rule, work)[0] == 200


@pytest.mark.parametrize("rule", [rule for rule, kind in RULES.items() if kind in {LOOK, OPEN}])
def test_what_everybody_may_see_names_nobody(machine, work, rule):
    status, text = asked(machine.ben, rule, work)
    assert status == 200
    assert "secret" not in text
    assert machine.ana.name not in text
    assert asked(machine.ana, rule, work)[0] == 200


@pytest.mark.parametrize("rule", [rule for rule, kind in RULES.items() if kind == ADMIN])
def test_what_is_the_admins(machine, work, rule):
    answers = [asked(p, rule, work)[0] for p in (machine.ana, machine.ben, machine.lea)]
    assert answers == [403, 403, 403]
    assert asked(machine.root, rule, work)[0] == 200


@pytest.mark.parametrize("rule", [rule for rule, kind in RULES.items() if kind == POD])
def test_a_pods_routes_open_by_its_token_alone(machine, work, rule):
    for person in (machine.ana, machine.ben, machine.root):
        assert asked(person, rule, work)[0] == 401
        assert asked(person, rule, work, token="0" * 64)[0] == 401
    other = work | {"order": {"incarnation": "another"}}
    assert asked(machine.ana, rule, other, token=work["order"]["token"])[0] == 404
    good = asked(machine.ana, rule, work, token=work["order"]["token"])[0]
    assert good in {204, 422}  # this lease has no payload to fetch


def test_his_runner_gets_and_reports_nothing_of_hers(machine, work):
    ben = machine.ben
    held = {
        "incarnation": work["order"]["incarnation"],
        "pid": work["process"]["pid"],
        "start_ticks": work["process"]["start_ticks"],
    }
    claim = {
        "runner": "by-hand",
        "host": "h",
        "held": [held],
    }  # her runner's name helps him nothing
    status, text = ben.ask("POST", "/runner/claim", body=claim)
    assert (status, json.loads(text)) == (200, {"starts": [], "unknown": [held["incarnation"]]})
    status, text = ben.ask("GET", "/runner/orders?runner=by-hand&wait_s=0")
    assert (status, json.loads(text)) == (200, {"claim": False, "stops": [], "exit": False})
    proof = {"incarnation": held["incarnation"], "pod": "x/y", "seal": work["order"]["seal"]}
    proof |= {"pid": held["pid"], "start_ticks": held["start_ticks"]}
    status, text = ben.ask("POST", "/runner/prove", body={"runner": "r", "pods": [proof]})
    assert held["incarnation"] in json.loads(text)["unknown"]
    beat = {
        "runner": "by-hand",
        "pods": [{"incarnation": held["incarnation"], "holds_device": False}],
    }
    assert ben.ask("POST", "/runner/beat", body=beat)[0] == 204
    report = {"incarnation": held["incarnation"], "kind": "ended", "at": 2, "exit_code": 0}
    assert ben.ask("POST", "/runner/report", body=report)[0] == 404
    assert machine.ana.group("secret")["state"] == "Running"


def test_results_and_payloads_are_hers(machine, work):
    result = f"/pod-groups/{machine.ana.name}/secret/result?rank=0"
    order = work["order"]
    by_her_pod = {"Authorization": f"Bearer {order['token']}", "X-Kai-Signature": "0"}
    put = f"/runner/pods/{order['incarnation']}/result"
    assert machine.ana.ask("PUT", put, body={}, headers=by_her_pod)[0] == 204
    assert [p.ask("GET", result)[0] for p in (machine.ana, machine.ben)] == [200, 404]
    status, text = machine.ana.ask("POST", "/payloads", body={"hers": 1})
    assert status == 201, text
    stolen = {
        "kind": "batch",
        "gpu": "0.1",
        "work": {"payload_sha256": json.loads(text)["sha256"]},
        "signature": "0" * 64,
    }
    status, text = machine.ben.ask("POST", "/pod-groups", body=stolen)
    assert (status, json.loads(text)["code"]) == (422, "unknown_payload")
