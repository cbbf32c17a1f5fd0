"""The process that only writes: what it says of each write, and what becomes of it when it is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest

from scheduler_service.backends.kubernetes.bind_worker import Writes
from scheduler_service.backends.kubernetes.errors import Conflict, NotFound, TooMany, Unavailable
from tests.fakes.kube_server import Answer, client_of, kube_server

PATH = "/api/v1/namespaces/a/pods/x/binding"


@pytest.mark.parametrize("apart", [True, False])
def test_writes_arrive_and_answers_come_back(*, apart: bool) -> None:
    async def story() -> None:
        async with kube_server() as server, client_of(server, token="secret") as client:
            server.on(PATH, Answer(b'{"a":\n1}\n'))
            writes = Writes(client, apart=apart)
            assert json.loads(await writes.post(PATH, {"x": 1}, want_body=True)) == {"a": 1}
            await writes.patch(PATH, {"y": 2})
            await writes.delete(PATH, {"gracePeriodSeconds": 0})
            assert [seen.method for seen in server.seen] == ["POST", "PATCH", "DELETE"]
            assert {seen.token for seen in server.seen} == {"secret"}
            assert server.seen[0].body == b'{"x":1}'
            await writes.close()

    asyncio.run(story())


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotFound), (409, Conflict), (429, TooMany), (503, Unavailable)]
)
def test_what_the_api_declines_is_raised_as_by_the_client(
    status: int, kind: type[Exception], *, apart: bool
) -> None:
    async def story() -> None:
        async with kube_server() as server, client_of(server) as client:
            server.on(PATH, Answer({"message": "no", "reason": "Why"}, status))
            writes = Writes(client, apart=apart)
            with pytest.raises(kind, match="no"):
                await writes.post(PATH, {})
            await writes.close()

    asyncio.run(story())


def test_many_writes_are_made_at_a_time() -> None:
    async def story() -> None:
        async with kube_server() as server, client_of(server) as client:
            server.on(PATH, Answer({}))
            writes = Writes(client)
            await asyncio.gather(*(writes.post(PATH, {"n": n}) for n in range(500)))
            assert len({seen.body for seen in server.seen}) == 500
            await writes.close()

    asyncio.run(story())


def test_a_killed_worker_leaves_fates_unknown_and_the_next_write_starts_another() -> None:
    async def story() -> None:
        async with kube_server() as server, client_of(server) as client:
            hangs = Answer(lines=[], then="hang")
            server.on(PATH, hangs)
            writes = Writes(client)
            pending = asyncio.create_task(writes.post(PATH, {}))
            await server.asked(1)
            first = writes.pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            with pytest.raises(Unavailable, match="not known"):
                await asyncio.wait_for(pending, 60)
            server.on(PATH, Answer({}))
            await writes.post(PATH, {})
            assert writes.pid not in {None, first}
            await writes.close()

    asyncio.run(story())
