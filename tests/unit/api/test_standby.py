"""A process that waits its turn, and one that answers to any name."""

from __future__ import annotations

import asyncio

import httpx
from fastapi import FastAPI

from scheduler_service.api import standby
from scheduler_service.api.app import create_app
from scheduler_service.api.authenticators import TokenAuthenticator
from scheduler_service.errors import RequestError
from tests.fakes.api_server import TOKENS
from tests.fakes.scheduler import FakeScheduler

WAITS = RequestError("Another process leads.", hint="Ask again.", status=503, code="not_leading")


def app(**options: object) -> FastAPI:
    return create_app(FakeScheduler(), [TokenAuthenticator(TOKENS)], **options)  # type: ignore[arg-type]


def ask(on: FastAPI, path: str, **headers: str) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app=on)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(run())


def test_who_waits_its_turn_says_so_to_everybody_but_the_probes() -> None:
    waiting = app()
    standby.install(waiting, lambda: WAITS)
    told = ask(waiting, "/api/v1/queues")
    assert told.status_code == 503
    assert told.json()["title"] == "Another process leads."
    assert told.json()["code"] == "not_leading"
    assert ask(waiting, "/api/v1/health").status_code == 200


def test_once_it_leads_it_answers() -> None:
    leading = app()
    standby.install(leading, lambda: None)
    answer = ask(leading, "/api/v1/queues", authorization="Bearer ana-token")
    assert answer.status_code == 200


def test_in_a_cluster_any_name_leads_to_it_but_no_page_of_another_origin() -> None:
    anywhere = app(hosts=None)
    token = "Bearer ana-token"
    own = {"host": "kai.svc", "authorization": token}
    assert ask(anywhere, "/api/v1/me", **own).status_code == 200
    assert ask(anywhere, "/api/v1/me", origin="http://kai.svc", **own).status_code == 200
    assert ask(anywhere, "/api/v1/me", origin="http://evil", **own).status_code == 403
