"""Who leads: one at a time, the next one soon after, nobody by accident."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.leader import Leader, Pace
from tests.fakes.kube_server import Answer, KubeServer, Seen, client_of, kube_server

QUICK = Pace(lease_s=15, renew_s=10, retry_s=0.001)


class LeaseStore:
    """One Lease with optimistic locking, as the API keeps it."""

    def __init__(self, server: KubeServer) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.is_down = False
        self.server = server
        server.judge = self.judge

    def judge(self, seen: Seen) -> Answer:
        if self.is_down:
            return Answer(b"", 503)
        if seen.method == "GET":
            return Answer({"code": 404}, 404) if self.lease is None else Answer(self.lease)
        body = json.loads(seen.body)
        known = self.lease and self.lease["metadata"]["resourceVersion"]
        if body["metadata"].get("resourceVersion") != known:
            return Answer({"code": 409}, 409)
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return Answer(body)

    @property
    def holder(self) -> str:
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"])


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def play(act: Callable[[LeaseStore, KubeClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with kube_server() as server, client_of(server) as client:
            await act(LeaseStore(server), client)

    asyncio.run(run())


def test_one_leads_and_the_other_waits_until_it_is_let_go() -> None:
    async def act(store: LeaseStore, client: KubeClient) -> None:
        first, second = Leader(client, "l", pace=QUICK), Leader(client, "l", pace=QUICK)
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        keeping = asyncio.create_task(first.keep())
        await store.server.asked(16)
        assert (first.is_leading, second.is_leading, store.holder) == (True, False, first.identity)
        await first.release()
        await asyncio.wait_for(waiting, 60)
        await asyncio.wait_for(keeping, 60)
        assert (first.is_leading, store.holder) == (False, second.identity)
        assert store.lease is not None
        assert store.lease["spec"]["leaseTransitions"] == 1

    play(act)


def test_a_dead_leader_is_followed_only_after_its_lease_by_our_own_clock() -> None:
    async def act(store: LeaseStore, client: KubeClient) -> None:
        clock = Clock()
        await Leader(client, "l", pace=QUICK).acquire()
        dead = store.holder
        second = Leader(client, "l", pace=QUICK, clock=clock)
        waiting = asyncio.create_task(second.acquire())
        seen = store.version
        clock.now = 14.0
        for _ in range(200):
            await asyncio.sleep(0.001)
        assert (store.holder, store.version) == (dead, seen)
        clock.now = 40.0
        await asyncio.wait_for(waiting, 60)
        assert store.holder == second.identity

    play(act)


def test_who_can_not_renew_stops_leading_before_others_may() -> None:
    async def act(store: LeaseStore, client: KubeClient) -> None:
        clock = Clock()
        leader = Leader(client, "l", pace=QUICK, clock=clock)
        await leader.acquire()
        keeping = asyncio.create_task(leader.keep())
        store.is_down = True
        clock.now = 10.5
        await asyncio.wait_for(keeping, 60)
        assert not leader.is_leading

    play(act)


def test_who_was_overtaken_stops_at_once() -> None:
    async def act(store: LeaseStore, client: KubeClient) -> None:
        leader = Leader(client, "l", pace=QUICK)
        await leader.acquire()
        keeping = asyncio.create_task(leader.keep())
        assert store.lease is not None
        store.lease["spec"] |= {"holderIdentity": "other", "renewTime": "now"}
        store.lease["metadata"]["resourceVersion"] = "99"
        await asyncio.wait_for(keeping, 60)
        assert not leader.is_leading
        await leader.release()
        assert store.holder == "other"

    play(act)
