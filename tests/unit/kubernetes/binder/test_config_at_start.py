"""A binder that starts beside its API server waits for it; one that lacks the right says so."""

from __future__ import annotations

import asyncio

import pytest

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.binder.options import BinderOptions
from scheduler_service.backends.kubernetes.binder.world import configured_at_start
from scheduler_service.backends.kubernetes.errors import Forbidden
from tests.fakes.kube_server import Answer, client_of, kube_server

PATH = names.CONFIGS.path(name=names.CONFIG_NAME)
FORBIDDEN = Answer({"reason": "Forbidden", "message": "roles are not known yet"}, status=403)
FOUND = Answer({"metadata": {"name": names.CONFIG_NAME}, "spec": {}})


def asked(*answers: Answer) -> BinderOptions:
    async def run() -> BinderOptions:
        async with kube_server() as server, client_of(server) as client:
            server.on(PATH, *answers)
            return await configured_at_start(client, BinderOptions())

    return asyncio.run(run())


def test_an_api_server_that_comes_up_is_waited_for() -> None:
    assert asked(FORBIDDEN, FORBIDDEN, FOUND) == BinderOptions()


def test_who_may_never_read_it_is_told() -> None:
    with pytest.raises(Forbidden, match="roles are not known"):
        asked(FORBIDDEN)
