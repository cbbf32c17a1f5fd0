"""Who may see and change what on a lead's page, over the real API: the whole matrix."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from scheduler_service.api.app import create_app
from scheduler_service.api.authenticators import TokenAuthenticator
from scheduler_service.ports import ADMIN, Caller
from tests.fakes.bench_service import Stage

PEOPLE = {
    "ana-token": Caller("ana"),
    "lead-token": Caller("mira", scopes=frozenset({"read", "request", "lead:team-a"})),
    "other-token": Caller("kim", scopes=frozenset({"read", "request", "lead:team-b"})),
    "blind-token": Caller("bot", scopes=frozenset({"request:nothing"})),
    "root-token": Caller("root", scopes=frozenset({ADMIN})),
}
QUEUES = "queues:\n  team-a: {gpu: {quota: 1}}\n  team-b: {gpu: {quota: 1}}\n"
DRAIN = {"kind": "drain", "queue": "team-a", "reason": "The node is cleaned"}
MATRIX = [
    ("GET", "/team", None, {"ana": 403, "lead": 200, "other": 200, "blind": 403, "root": 200}),
    ("GET", "/team/csv", None, {"ana": 403, "lead": 200, "other": 200, "blind": 403, "root": 200}),
    ("GET", "/team/events", None, {"ana": 403, "blind": 403}),
    (
        "POST",
        "/team/what-if",
        DRAIN,
        {"ana": 403, "lead": 200, "other": 403, "blind": 403, "root": 200},
    ),
    (
        "POST",
        "/team/changes",
        DRAIN,
        {"ana": 403, "lead": 201, "other": 403, "blind": 403, "root": 201},
    ),
    ("POST", "/team/changes/1/undo", {}, {"ana": 404, "other": 404, "blind": 403, "lead": 200}),
]


@pytest.mark.parametrize(("method", "path", "body", "expected"), MATRIX, ids=lambda v: str(v)[:24])
def test_each_route_answers_each_person_by_their_rights(
    tmp_path: Path, method: str, path: str, body: object, expected: dict[str, int]
) -> None:
    async def story() -> dict[str, int]:
        (tmp_path / "queues.yaml").write_text(QUEUES)
        stage = await Stage(tmp_path).begin()
        app = create_app(stage.service, [TokenAuthenticator(PEOPLE)])
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1/api/v1"
        ) as client:
            lead = {"Authorization": "Bearer lead-token"}
            if path.endswith("undo"):
                await client.post("/team/changes", json=DRAIN, headers=lead)
            found = {}
            for who in expected:
                headers = {"Authorization": f"Bearer {who}-token"}
                answer = await client.request(method, path, json=body, headers=headers)
                found[who] = answer.status_code
                if answer.status_code >= 400:
                    assert answer.json()["detail"]
        return found

    assert asyncio.run(story()) == expected


def test_an_unknown_field_of_a_change_is_refused_by_name(tmp_path: Path) -> None:
    async def story() -> httpx.Response:
        stage = await Stage(tmp_path).begin()
        app = create_app(stage.service, [TokenAuthenticator(PEOPLE)])
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1/api/v1"
        ) as client:
            headers = {"Authorization": "Bearer root-token"}
            body = {"kind": "drain", "queue": "default", "reason": "x", "untill": 1}
            return await client.post("/team/changes", json=body, headers=headers)

    answer = asyncio.run(story())
    assert answer.status_code == 422
    assert "untill" in answer.json()["title"]
