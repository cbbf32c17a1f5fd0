"""Who is known by a token of JupyterHub, what they may, and for how long that is believed."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from scheduler_service.api.authenticators import Credentials
from scheduler_service.api.hub import HubAuthenticator, asks_hub, caller_in, scopes_in
from scheduler_service.errors import RequestError

ANA = {
    "kind": "user",
    "name": "ana",
    "groups": ["team-a"],
    "scopes": ["access:servers!user=ana", "custom:kai:request", "custom:kai:read"],
}


class Hub:
    """A hub that counts how often it is asked."""

    def __init__(self, **models: dict[str, object]) -> None:
        self.models = models
        self.asked: list[str] = []
        self.fault: httpx.HTTPError | None = None
        self.now = 0.0

    async def __call__(self, token: str) -> dict[str, object] | None:
        self.asked.append(token)
        await asyncio.sleep(0)
        if self.fault:
            raise self.fault
        return self.models.get(token)

    def authenticator(self) -> HubAuthenticator:
        return HubAuthenticator(self, clock=lambda: self.now)


def known(authenticator: HubAuthenticator, token: str | None):
    return asyncio.run(authenticator.caller_of(Credentials(token=token)))


def test_a_person_has_the_hubs_name_groups_and_scopes():
    caller = known(Hub(t=ANA).authenticator(), "t")
    assert (caller.user, caller.groups) == ("ana", {"team-a"})
    assert caller.scopes == {"read", "request"}


def test_the_hub_is_asked_once_a_minute():
    hub = Hub(t=ANA)
    authenticator = hub.authenticator()
    for _ in range(3):
        known(authenticator, "t")
    assert hub.asked == ["t"]
    hub.now = 61
    hub.models = {}
    assert known(authenticator, "t") is None
    assert hub.asked == ["t", "t"]


def test_many_who_come_at_once_ask_once():
    hub = Hub(t=ANA)

    async def together():
        authenticator = hub.authenticator()
        asks = (authenticator.caller_of(Credentials(token="t")) for _ in range(20))
        return await asyncio.gather(*asks)

    assert {caller.user for caller in asyncio.run(together())} == {"ana"}
    assert hub.asked == ["t"]


def test_a_token_that_the_hub_does_not_know_is_nobodys_and_asked_again_soon():
    hub = Hub()
    authenticator = hub.authenticator()
    assert known(authenticator, "t") is None
    assert known(authenticator, "t") is None
    assert hub.asked == ["t"]
    hub.now, hub.models = 11, {"t": ANA}
    assert known(authenticator, "t").user == "ana"


def test_without_a_token_the_hub_is_not_asked():
    hub = Hub()
    assert known(hub.authenticator(), None) is None
    assert hub.asked == []


def test_a_hub_that_is_away_is_told_and_nothing_is_remembered():
    hub = Hub(t=ANA)
    hub.fault = httpx.ConnectError("refused")
    authenticator = hub.authenticator()
    with pytest.raises(RequestError, match="can not be asked") as told:
        known(authenticator, "t")
    assert told.value.status == 503
    hub.fault = None
    assert known(authenticator, "t").user == "ana"


@pytest.mark.parametrize(
    ("hub", "ours"),
    [
        (["custom:kai:read"], {"read"}),
        (["custom:kai:request!user=ana"], {"request"}),
        (["custom:kai:lead!group=team-a"], {"lead:team-a", "request"}),
        (["custom:kai:lead"], set()),
        (["custom:kai:admin"], {"admin"}),
        (["custom:kai:admin!group=team-a"], set()),
        (["admin:users", "custom:other:request", "inherit"], set()),
    ],
)
def test_scopes(hub, ours):
    assert scopes_in(hub) == ours


def test_a_service_does_not_pass_for_a_person():
    service = {"kind": "service", "name": "ana", "scopes": ["custom:kai:read"]}
    assert caller_in(service).user == "service:ana"
    assert caller_in({**ANA, "name": "service:ana"}) is None
    assert caller_in({**ANA, "name": "ana/ben"}) is None


def test_in_a_cluster_nobody_of_the_hub_passes_for_somebody_of_the_cluster():
    caller = caller_in({**ANA, "name": "system:admin", "groups": ["system:masters"]}, "jupyterhub:")
    assert (caller.user, caller.groups) == (
        "jupyterhub:system:admin",
        {"jupyterhub:system:masters"},
    )


@pytest.mark.parametrize(
    ("status", "body", "answer"),
    [(403, "{}", None), (401, "", None), (200, '{"name": "ana"}', {"name": "ana"})],
)
def test_what_the_hub_answers(monkeypatch, status, body, answer):
    assert asked_of(monkeypatch, status, body) == answer


@pytest.mark.parametrize(("status", "body"), [(500, ""), (200, "<html>"), (200, "[]"), (302, "")])
def test_what_is_no_hub(monkeypatch, status, body):
    with pytest.raises(httpx.HTTPError):
        asked_of(monkeypatch, status, body)


def asked_of(monkeypatch, status, body):
    def answer(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "http://hub/hub/api/user"
        assert request.headers["Authorization"] == "token t"
        return httpx.Response(status, text=body)

    client = httpx.AsyncClient
    monkeypatch.setattr(
        httpx, "AsyncClient", lambda **_: client(transport=httpx.MockTransport(answer))
    )
    return asyncio.run(asks_hub("http://hub/hub/api/")("t"))
