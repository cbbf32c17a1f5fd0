"""Owners are read once, followed from then on, and never mistaken for another object of their name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scheduler_service.backends.kubernetes.controllers.owner_objects import remembered
from scheduler_service.backends.kubernetes.controllers.owners import Owners
from scheduler_service.backends.kubernetes.errors import NotFound
from scheduler_service.grouping.owners import Reference, Unread
from tests.fakes.kube_server import Answer, KubeServer, client_of, kube_server

ROOT = "/apis/batch/v1"
JOBS = f"{ROOT}/jobs"
JOB = f"{ROOT}/namespaces/a/jobs/j"
REFERENCE = Reference("batch/v1", "Job", "a", "j", "uid-j")
KINDS = Answer(
    {
        "resources": [
            {"name": "jobs", "kind": "Job", "namespaced": True},
            {"name": "jobs/status", "kind": "Job", "namespaced": True},
        ]
    }
)


def job(version: int, **parts: Any) -> dict[str, Any]:
    meta = {"name": "j", "namespace": "a", "uid": "uid-j", "resourceVersion": str(version)}
    return {"metadata": {**meta, **parts.pop("metadata", {})}, **parts}


class Bed:
    def __init__(self, server: KubeServer, owners: Owners, changed: asyncio.Queue[str]) -> None:
        self.server, self.owners, self.changed = server, owners, changed

    async def next_change(self) -> str:
        return await asyncio.wait_for(self.changed.get(), 30)

    def reads(self, path: str) -> int:
        return sum(seen.path == path and "watch" not in seen.query for seen in self.server.seen)


@asynccontextmanager
async def bed(*answers: Answer, watch: Answer | None = None) -> AsyncIterator[Bed]:
    async with kube_server() as server, client_of(server) as client:
        server.on(ROOT, KINDS)
        server.on(JOB, *answers)
        listed = {"metadata": {"resourceVersion": "5"}, "items": [job(3)]}
        server.on(JOBS, Answer(listed))
        server.on(JOBS, watch or Answer(lines=[], then="hang"), watch=True)
        changed: asyncio.Queue[str] = asyncio.Queue()
        owners = Owners(client, changed.put_nowait)
        try:
            yield Bed(server, owners, changed)
        finally:
            await owners.close()


def line(kind: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def test_an_owner_is_read_once_for_all_its_pods() -> None:
    async def story() -> None:
        async with bed(Answer(job(3, spec={"parallelism": 2}))) as it:
            first, second = it.owners.reader("a/p"), it.owners.reader("a/q")
            assert first(REFERENCE) is Unread.NOT_YET
            await it.owners.fetch(REFERENCE)
            for read in (first, second):
                answer = read(REFERENCE)
                assert not isinstance(answer, Unread)
                assert answer["spec"] == {"parallelism": 2}
            assert it.reads(JOB) == 1

    asyncio.run(story())


def test_a_change_reaches_the_pods_and_noise_does_not() -> None:
    lines = [
        line("MODIFIED", job(6, status={"active": 3, "startTime": "2026-01-05T08:00:00Z"})),
        line("MODIFIED", job(7, metadata={"labels": {"kai.scheduler/queue": "other"}})),
    ]

    async def story() -> None:
        async with bed(Answer(job(3)), watch=Answer(lines=lines, then="hang")) as it:
            read = it.owners.reader("a/p")
            assert read(REFERENCE) is Unread.NOT_YET
            await it.owners.fetch(REFERENCE)
            assert await it.next_change() == "a/p"
            assert it.changed.empty()
            answer = read(REFERENCE)
            assert not isinstance(answer, Unread)
            assert answer["metadata"]["labels"] == {"kai.scheduler/queue": "other"}

    asyncio.run(story())


def test_an_owner_that_went_is_read_again() -> None:
    gone = Answer({"reason": "NotFound"}, 404)

    async def story() -> None:
        watch = Answer(lines=[line("DELETED", job(8))], then="hang")
        async with bed(Answer(job(3)), gone, watch=watch) as it:
            read = it.owners.reader("a/p")
            assert read(REFERENCE) is Unread.NOT_YET
            await it.owners.fetch(REFERENCE)
            assert await it.next_change() == "a/p"
            assert read(REFERENCE) is Unread.NOT_YET
            await it.owners.fetch(REFERENCE)
            assert read(REFERENCE) is Unread.ABSENT
            it.owners.doubt("a/p")
            assert read(REFERENCE) is Unread.NOT_YET

    asyncio.run(story())


def test_what_may_not_be_read_is_not_asked_for_again_and_again() -> None:
    async def story() -> None:
        async with bed(Answer({"reason": "Forbidden"}, 403)) as it:
            await it.owners.fetch(REFERENCE)
            assert it.owners.reader("a/p")(REFERENCE) is Unread.FORBIDDEN
            assert it.reads(JOBS) == 0

    asyncio.run(story())


def test_a_kind_that_is_not_served_is_a_fault_and_not_an_absence() -> None:
    async def story() -> None:
        async with bed(Answer(job(3))) as it:
            with pytest.raises(NotFound, match="does not serve Riddle"):
                await it.owners.fetch(Reference("batch/v1", "Riddle", "a", "r"))

    asyncio.run(story())


def test_an_owner_that_no_pod_asks_for_is_forgotten() -> None:
    async def story() -> None:
        async with bed(Answer(job(3))) as it:
            read = it.owners.reader("a/p")
            read(REFERENCE)
            await it.owners.fetch(REFERENCE)
            it.owners.forget("a/p")
            assert it.owners.reader("a/q")(REFERENCE) is Unread.NOT_YET

    asyncio.run(story())


def test_what_is_remembered_leaves_out_what_always_changes() -> None:
    body = job(
        3,
        status={
            "active": 4,
            "phase": "Running",
            "startTime": "2026-01-05T08:00:00Z",
            "uncountedTerminatedPods": {"succeeded": ["u"]},
            "conditions": [{"type": "Complete", "status": "True", "lastProbeTime": "x"}],
        },
    )
    found = remembered(json.dumps(body).encode())
    assert found["status"] == {
        "phase": "Running",
        "uncountedTerminatedPods": {},
        "conditions": [{"type": "Complete", "status": "True"}],
    }
    assert "resourceVersion" not in found["metadata"]
    assert remembered(json.dumps(body).encode(), with_counts=True)["status"]["active"] == 4
