"""The table of routes is asked for, so that a route added tomorrow is judged too."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from scheduler_service.api.app import create_app
from scheduler_service.api.authenticators import TokenAuthenticator
from scheduler_service.api.guards import GUARDS, admin, own_incarnation, requester, runner_owner
from scheduler_service.wire import pod_group
from tests.fakes.api_server import ANA, TOKENS
from tests.fakes.scheduler import FakeScheduler

OPEN = {"/api/v1/health", "/api/v1/ready"}
STREAMS = {"/api/v1/events", "/api/v1/team/events"}
NAMES = {
    "namespace": "ana",
    "name": "train",
    "incarnation": "ana-train-0-1",
    "number": "1",
    "cell": "c" * 32,
}


def app_with_work():
    scheduler = FakeScheduler()
    asyncio.run(
        scheduler.submit(ANA, pod_group.Submit(name="train", gpu="0.5"), idempotency_key=None)
    )
    return create_app(scheduler, [TokenAuthenticator(TOKENS)])


def routes_of(app) -> list[tuple[str, APIRoute]]:
    found: list[tuple[str, APIRoute]] = []

    def walk(routes, prefix: str) -> None:
        for route in routes:
            if isinstance(route, APIRoute):
                found.append((prefix + route.path, route))
            elif hasattr(route, "original_router"):
                walk(route.original_router.routes, prefix + route.include_context.prefix)

    walk(app.routes, "")
    return found


APP = create_app(FakeScheduler(), [TokenAuthenticator(TOKENS)])
ROUTES = [
    pytest.param(path, method, route, id=f"{method} {path}")
    for path, route in routes_of(APP)
    for method in sorted(route.methods)
]


def guards_of(dependant: Dependant) -> set[object]:
    found = {dependant.call} & set(GUARDS)
    for inner in dependant.dependencies:
        found |= guards_of(inner)
    return found


def routes_with(*guards) -> list:
    return [param for param in ROUTES if guards_of(param.values[2].dependant) & set(guards)]


OWN_PAGES = [p for p in ROUTES if "{namespace}" in p.values[0] and p.values[1] == "GET"]


async def ask(method: str, path: str, token: str | None, app=None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    transport = httpx.ASGITransport(app=app or APP, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.request(method, path.format(**NAMES), headers=headers)


def test_the_routes_are_found():
    assert len(ROUTES) > 20


@pytest.mark.parametrize(("path", "method", "route"), ROUTES)
def test_a_route_names_its_guard(path, method, route):
    guards = guards_of(route.dependant)
    assert bool(guards) != (path in OPEN)


@pytest.mark.parametrize(("path", "method", "route"), ROUTES)
@pytest.mark.parametrize("token", [None, "not-a-token"])
def test_without_a_valid_token_nothing_is_told(path, method, route, token):
    """When a program of another person finds the port."""
    answer = asyncio.run(ask(method, path, token))
    if path in OPEN:
        assert answer.status_code == 200
        return
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "unauthenticated"


@pytest.mark.parametrize(("path", "method", "route"), routes_with(requester, admin, runner_owner))
def test_who_may_only_look_can_not_ask(path, method, route):
    """When a token has the scope `read` alone."""
    answer = asyncio.run(ask(method, path, "eve-token"))
    assert answer.status_code == 403
    assert answer.json()["code"] == "forbidden"


@pytest.mark.parametrize(("path", "method", "route"), OWN_PAGES)
def test_a_second_user_gets_nothing_of_the_first(path, method, route):
    """When a colleague with a good token tries the paths of my group: the answer is that of a name that never was."""
    with_work, without = app_with_work(), APP
    mine = asyncio.run(ask(method, path, "ben-token", app=with_work))
    nothing = asyncio.run(ask(method, path, "ben-token", app=without))
    assert mine.status_code == 404
    assert mine.json() == nothing.json()


@pytest.mark.parametrize("verb", ["extend", "cancel"])
def test_a_second_user_can_not_change_the_first_ones_group(verb):
    answer = asyncio.run(
        ask("POST", f"/api/v1/pod-groups/ana/train/{verb}", "ben-token", app=app_with_work())
    )
    assert answer.status_code == 404


@pytest.mark.parametrize(("path", "method", "route"), routes_with(own_incarnation))
def test_a_users_token_is_not_a_pods(path, method, route):
    answer = asyncio.run(ask(method, path, "root-token", app=app_with_work()))
    assert answer.status_code == 401


@pytest.mark.parametrize(("path", "method", "route"), ROUTES)
def test_a_pods_token_opens_its_own_routes_only(path, method, route):
    app = app_with_work()
    if own_incarnation in guards_of(route.dependant):
        other = path.replace("{incarnation}", "ana-other-0-1")
        assert asyncio.run(ask(method, other, "token-of-ana-train-0-1", app=app)).status_code == 404
    elif path not in OPEN:
        answer = asyncio.run(ask(method, path, "token-of-ana-train-0-1", app=app))
        assert answer.status_code == 401
