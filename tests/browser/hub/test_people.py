"""Two tenants and a lead on one hub: what each may see and do, by every route; and what is left of whom."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.hub.conftest import Hub

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow]

OF_GROUP = ("", "/logs", "/explain")
READS = (
    "/me",
    "/queues",
    "/nodes",
    "/cycles",
    "/pod-groups",
    "/forecast?gpu=0.5",
    "/metrics",
    "/openapi.json",
)
CHANGES: dict[str, dict[str, Any]] = {
    "extend": {},
    "move": {"kernel_id": "k", "process": {"pid": 1, "start_ticks": 1}},
    "cancel": {"grace_s": 0},
}
MAY = {"ana": 200, "lea": 200, "ben": 404}
"""Her own, her lead's, and another team's view of ana's group."""


def status(hub: Hub, method: str, path: str, who: str, body: object = None) -> int:
    answer = hub.kai(method, path, who=who, body=body)
    return int(answer.status_code)


def test_everybody_with_a_hub_token_may_look_and_nobody_else(hub: Hub) -> None:
    for path in READS:
        for who in ("ana", "ben", "lea"):
            assert status(hub, "GET", path, who) == 200, (path, who)
    for path in (*READS, "/pod-groups/ana/x", "/snapshot", "/events"):
        hub.tokens["stranger"] = "no-token-of-this-hub"
        assert status(hub, "GET", path, "stranger") == 401, path


def test_who_is_known_by_the_hub(hub: Hub) -> None:
    lead = hub.kai("GET", "/me", who="lea").json()
    assert lead["user"] == "lea"
    assert lead["groups"] == ["team-a", "team-a-leads"]
    assert lead["scopes"] == ["lead:team-a", "read", "request"]
    assert hub.kai("GET", "/me", who="ben").json()["scopes"] == ["read", "request"]
    assert hub.kai("GET", "/me").json()["user"] == "service:tester"


def test_what_is_whose_by_every_route(hub: Hub) -> None:
    group = hub.hold("ana", "0.25", name="hers")
    for tail in OF_GROUP:
        path = f"/pod-groups/ana/{group['name']}{tail}"
        for who, expected in MAY.items():
            assert status(hub, "GET", path, who) == expected, (path, who)
    assert status(hub, "GET", f"/pod-groups/ana/{group['name']}/result", "ben") == 404
    for who in MAY:
        assert status(hub, "GET", "/snapshot", who) == 403
        assert status(hub, "POST", "/runner/claim", who, {"runner": who, "host": "h"}) == 200
    assert status(hub, "GET", "/snapshot", "root") in {401, 403}
    for verb, body in CHANGES.items():
        path = f"/pod-groups/ana/{group['name']}/{verb}"
        assert status(hub, "POST", path, "ben", body) == 404, verb
    assert (
        status(hub, "POST", f"/pod-groups/ana/{group['name']}/move", "lea", CHANGES["move"]) == 409
    )
    assert status(hub, "POST", f"/pod-groups/ana/{group['name']}/cancel", "lea", {}) == 200


def test_queues_are_those_of_ones_groups(hub: Hub) -> None:
    for who, theirs in (("ana", ["team-a"]), ("ben", ["team-b"]), ("lea", ["team-a"])):
        queues = hub.kai("GET", "/queues", who=who).json()
        assert [queue["name"] for queue in queues if queue["may_submit"]] == theirs
    answer = hub.kai("GET", "/forecast?gpu=0.5&queue=team-a", who="ben")
    assert answer.status_code == 403


def test_a_server_asks_with_its_own_token_and_no_more_rights_than_it_needs(hub: Hub) -> None:
    hub.spawn("lea", share="cpu")
    hub.ready("lea")
    answer = hub.of_server("lea", "kai/me")
    assert answer.is_success, answer.text
    assert answer.json()["user"] == "lea"
    assert answer.json()["scopes"] == ["read", "request"]


def test_named_servers_hold_each_their_own(hub: Hub) -> None:
    hub.spawn("ana", share="0.25")
    hub.spawn("ana", "train", share="0.5")
    hub.ready("ana")
    hub.ready("ana", "train")
    held = {group["origin"]["kernel_id"]: group["request"]["text"] for group in hub.groups("ana")}
    assert held == {"server:": "0.25 GPU", "server:train": "0.5 GPU"}
    hub.end_server("ana", "train")
    assert [group["request"]["text"] for group in hub.groups("ana")] == ["0.25 GPU"]


def test_a_person_who_is_deleted_leaves_nothing_behind(hub: Hub) -> None:
    hub.api("POST", "users", {"usernames": ["amy"]})
    hub.token("amy")
    hub.hold("amy", "0.25", name="lease")
    hub.spawn("amy", share="0.5")
    hub.ready("amy")
    assert len(hub.groups("amy")) == 2
    assert hub.api("DELETE", "users/amy").status_code == 204
    hub.until(lambda: hub.groups("amy") == [], "nothing of amy's is held")
    hub.tokens.pop("amy")
