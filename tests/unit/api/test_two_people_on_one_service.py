"""Ana works, Ben looks: what the real service tells him over the real API."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from scheduler_service.api.app import create_app
from scheduler_service.api.authenticators import TokenAuthenticator
from scheduler_service.service import Service
from scheduler_service.settings.table import load
from scheduler_service.wire import locate
from tests.fakes.api_server import TOKENS

SECRET = "secret-plan"
PATIENCE_S = 30


def client(app, user: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app),
        base_url="http://127.0.0.1/api/v1",
        headers={"Authorization": f"Bearer {user}-token"},
    )


@contextlib.asynccontextmanager
async def two_people(tmp_path) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    queues = tmp_path / "queues.yaml"
    queues.write_text("queues:\n  research:\n    gpu: 2\n    show_names: false\n")
    flags = {"state_dir": tmp_path / "state", "simulate_gpus": "2x24GiB", "queues": queues}
    settings = load(flags, environ={})
    service = await Service.open(settings)
    await service.start()
    app = create_app(service, [TokenAuthenticator(TOKENS)])
    try:
        async with client(app, "ana") as ana, client(app, "ben") as ben:
            await until(lambda: is_ready(ana))
            for name, gpu in ((SECRET, "2"), (f"{SECRET}-next", "1")):
                answer = await ana.post("/pod-groups", json=lease(name, gpu))
                assert answer.status_code == 201, answer.text
            await until(lambda: is_granted(ana))
            yield ana, ben
    finally:
        await service.stop()


def lease(name: str, gpu: str) -> dict:
    process = {"pid": os.getpid(), "start_ticks": locate.start_ticks(os.getpid())}
    origin = {"notebook": f"{SECRET}.ipynb"}
    return {
        "kind": "lease",
        "name": name,
        "gpu": gpu,
        "queue": "research",
        "process": process,
        "origin": origin,
    }


async def until(happened: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await happened():  # noqa: ASYNC110 - it is looked at from outside, as a page would
            await asyncio.sleep(0.01)


async def is_ready(http: httpx.AsyncClient) -> bool:
    return (await http.get("/ready")).status_code == 200


async def is_granted(http: httpx.AsyncClient) -> bool:
    nodes = (await http.get("/nodes")).json()
    return nodes[0]["allocated_milli_gpu"] == 2000


def told(work: Callable[[httpx.AsyncClient, httpx.AsyncClient], Awaitable[None]], tmp_path) -> None:
    async def life() -> None:
        async with two_people(tmp_path) as (ana, ben):
            await work(ana, ben)

    asyncio.run(life())


PAGES = (
    "/pod-groups",
    "/pod-groups?mine=1",
    "/queues",
    "/nodes",
    "/cycles",
    "/metrics",
    "/me",
    "/forecast?gpu=1",
    "/health",
    "/openapi.json",
)


def test_no_page_tells_him_her_name_or_what_she_does(tmp_path):
    """He sees that a GPU is taken and that somebody waits, not by whom and for what."""

    async def look(ana, ben):
        for page in PAGES:
            answer = await ben.get(page)
            assert answer.status_code == 200, page
            assert SECRET not in answer.text, page
            assert '"ana"' not in answer.text, page
        assert SECRET in (await ana.get("/pod-groups")).text

    told(look, tmp_path)


def test_her_pages_are_to_him_as_if_they_never_were(tmp_path):
    async def look(ana, ben):
        for tail in ("", "/logs", "/explain", "/result"):
            hers = await ben.get(f"/pod-groups/ana/{SECRET}{tail}")
            nobodys = await ben.get(f"/pod-groups/ana/nothing{tail}")
            assert hers.status_code == 404
            assert json.loads(hers.text.replace(SECRET, "nothing")) == nobodys.json()

    told(look, tmp_path)


@pytest.mark.parametrize("verb", ["cancel", "extend", "move"])
def test_he_can_not_change_what_is_hers(tmp_path, verb):
    async def change(ana, ben):
        body = {"kernel_id": "k", "process": {"pid": 1, "start_ticks": 1}} if verb == "move" else {}
        before = (await ana.get(f"/pod-groups/ana/{SECRET}")).json()
        answer = await ben.post(f"/pod-groups/ana/{SECRET}/{verb}", json=body)
        assert answer.status_code == 404
        after = (await ana.get(f"/pod-groups/ana/{SECRET}")).json()
        assert (after["state"], after["expires_at"]) == (before["state"], before["expires_at"])

    told(change, tmp_path)


def test_his_runner_is_not_offered_her_work(tmp_path):
    """Or it would run her code in his account, or he would read her results."""

    async def claim(ana, ben):
        answer = await ben.post("/runner/claim", json={"runner": "ben", "host": "h"})
        assert answer.json()["starts"] == []
        hers = await ana.post("/runner/claim", json={"runner": "ana", "host": "h"})
        incarnations = [order["incarnation"] for order in hers.json()["starts"]]
        assert incarnations
        report = {"incarnation": incarnations[0], "kind": "ended", "at": 1, "exit_code": 0}
        answer = await ben.post("/runner/report", json=report)
        assert answer.status_code == 404
        group = (await ana.get(f"/pod-groups/ana/{SECRET}")).json()
        assert group["state"] not in {"Succeeded", "Failed"}

    told(claim, tmp_path)


def test_the_snapshot_is_for_admins(tmp_path):
    async def look(_ana, ben):
        assert (await ben.get("/snapshot")).status_code == 403

    told(look, tmp_path)


def test_her_key_is_not_his(tmp_path):
    """When both programs count their requests from 1."""

    async def ask(ana, ben):
        body = lease("mine", "0.1") | {"origin": {}}
        first = await ana.post("/pod-groups", json=body, headers={"Idempotency-Key": "1"})
        second = await ben.post("/pod-groups", json=body, headers={"Idempotency-Key": "1"})
        assert (first.json()["owner"], second.json()["owner"]) == ("ana", "ben")
        assert second.status_code == 201

    told(ask, tmp_path)
