"""`kai webhook` as it lives: one authority for all replicas, TLS that renews itself, and faults of the API."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from scheduler_service.backends.kubernetes.admission.certificates import AUTHORITY_LIFE
from scheduler_service.backends.kubernetes.admission.facts import Wants
from scheduler_service.backends.kubernetes.admission.keeping import SecretStore
from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.process import Place, Webhook
from scheduler_service.backends.kubernetes.admission.world import World
from scheduler_service.backends.kubernetes.errors import Unavailable
from tests.fakes.kube_server import Answer, Seen, client_of, kube_server
from tests.unit.kubernetes.admission.requests import pod

NOW = datetime.now(UTC)
OPTIONS = Options(namespace="kai")
PLACE = Place(port=0, health_port=0, more_names=("127.0.0.1",))
HOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
QUEUES = "/apis/scheduling.run.ai/v2/queues"
CONFIGS = "/apis/kai.scheduler/v1/configs"


class Api:
    """Two webhook configurations, one Secret with optimistic locking, some queues."""

    def __init__(self, server: Any) -> None:
        self.secret: dict[str, Any] | None = {"metadata": {"name": "s", "resourceVersion": "1"}}
        self.hooks = {
            name: {"webhooks": [{"name": "a", "clientConfig": {}}, {"name": "b"}]} for name in HOOKS
        }
        self.queues = ["q"]
        self.is_down = False
        self.writes = 0
        self.server = server
        server.judge = self.judge

    def judge(self, seen: Seen) -> Answer | None:
        if self.is_down:
            return Answer({"message": "etcd is away"}, 503)
        if "/secrets" in seen.path:
            return self._secret(seen)
        for name, hook in self.hooks.items():
            if name in seen.path:
                return self._hook(seen, hook)
        return self._collections(seen)

    def _secret(self, seen: Seen) -> Answer:
        if seen.method == "GET":
            return Answer({"code": 404}, 404) if self.secret is None else Answer(self.secret)
        body = json.loads(seen.body)
        version = None if self.secret is None else self.secret["metadata"]["resourceVersion"]
        if body["metadata"].get("resourceVersion") != version:
            return Answer({"code": 409}, 409)
        self.writes += 1
        body["metadata"]["resourceVersion"] = str(int(version or 0) + 1)
        self.secret = body
        return Answer(body)

    def _hook(self, seen: Seen, hook: dict[str, Any]) -> Answer:
        if seen.method == "PATCH":
            for change in json.loads(seen.body):
                if change["op"] == "add":
                    index = int(change["path"].split("/")[2])
                    config = hook["webhooks"][index].setdefault("clientConfig", {})
                    config["caBundle"] = change["value"]
        return Answer(hook)

    def _collections(self, seen: Seen) -> Answer:
        if "watch" in seen.query:
            return Answer(lines=[], then="hang")
        if seen.path == QUEUES:
            items = [
                {"metadata": {"name": name, "uid": name, "resourceVersion": "5"}}
                for name in self.queues
            ]
            return Answer({"metadata": {"resourceVersion": "5"}, "items": items})
        if seen.path == CONFIGS:
            return Answer({"metadata": {"resourceVersion": "5"}, "items": []})
        return Answer({"code": 404}, 404)

    def bundles(self) -> set[str]:
        hooks = [one for hook in self.hooks.values() for one in hook["webhooks"]]
        return {one.get("clientConfig", {}).get("caBundle", "") for one in hooks}


def test_replicas_that_start_at_once_share_one_authority():
    async def scene():
        async with kube_server() as server, client_of(server) as client:
            api = Api(server)
            stores = [SecretStore(client, "kai", "s") for _ in range(4)]
            found = await asyncio.gather(*(store.advance(NOW) for store in stores))
            assert api.writes == 1
            assert len({one.current.certificate for one in found}) == 1

    asyncio.run(scene())


@pytest.mark.parametrize("data", [None, {}, {"ca.crt": "!!", "ca.key": ""}, {"tls.crt": "eA=="}])
def test_a_secret_that_is_missing_empty_or_spoilt_is_filled(data):
    async def scene():
        async with kube_server() as server, client_of(server) as client:
            api = Api(server)
            api.secret = None if data is None else {**api.secret, "data": data}
            store = SecretStore(client, "kai", "s")
            first = await store.advance(NOW)
            assert await store.advance(NOW) == first
            assert base64.b64decode(api.secret["data"]["ca.crt"]) == first.current.certificate

    asyncio.run(scene())


class Running:
    """A webhook under a clock of ours, and a client that trusts what the configurations say."""

    def __init__(self, client, api):
        self.now = NOW
        self.api = api
        self.webhook = Webhook(client, OPTIONS, PLACE, clock=lambda: self.now)
        self.stop = asyncio.Event()
        self.ports = asyncio.get_running_loop().create_future()
        self.task = asyncio.ensure_future(
            self.webhook.run(self.stop, lambda *ports: self.ports.set_result(ports))
        )

    async def __aenter__(self):
        await asyncio.wait({self.task, self.ports}, return_when=asyncio.FIRST_COMPLETED)
        return self

    async def __aexit__(self, *_):
        self.stop.set()
        await self.task

    async def review(self, path="/validate--v1-pod", **request):
        (bundle,) = self.api.bundles()
        trust = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
        port = self.ports.result()[0]
        body = {"request": {"uid": "u", "operation": "CREATE", "kind": {"kind": "Pod"}, **request}}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session,
            session.post(f"https://127.0.0.1:{port}{path}", json=body) as response,
        ):
            return response.status, await response.text()

    async def health(self, path="/readyz"):
        port = self.ports.result()[1]
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}{path}") as response,
        ):
            return response.status, await response.text()


def with_webhook(scene):
    async def run():
        async with kube_server() as server, client_of(server) as client:
            api = Api(server)
            async with Running(client, api) as running:
                await scene(running, api)

    asyncio.run(run())


def test_it_answers_over_tls_that_the_configurations_trust():
    async def scene(running, api):
        assert len(api.bundles()) == 1
        assert (await running.health())[0] == 200
        status, told = await running.review(object=pod(labels={"kai.scheduler/queue": "q"}))
        assert (status, json.loads(told)["response"]["allowed"]) == (200, True)
        status, told = await running.review(object=pod(labels={"kai.scheduler/queue": "x"}))
        assert "There is no queue" in json.loads(told)["response"]["status"]["message"]
        figures = (await running.health("/metrics"))[1]
        assert (
            'kai_admission_reviews_total{outcome="refused",rule="/validate--v1-pod"} 1.0' in figures
        )

    with_webhook(scene)


def test_what_is_no_review_gets_no_answer():
    async def scene(running, _api):
        assert (await running.review(operation=7))[0] == 400
        assert (await running.review("/elsewhere"))[0] == 404

    with_webhook(scene)


def test_a_fact_that_can_not_be_had_is_no_answer_rather_than_a_wrong_one():
    async def scene(running, api):
        api.is_down = True
        status, told = await running.review(object=pod(labels={"kai.scheduler/queue": "new"}))
        assert status == 503
        assert "could not be read" in told
        assert (await running.review(object=pod(labels={"kai.scheduler/queue": "q"})))[0] == 200
        api.is_down = False
        assert (await running.health())[0] == 200

    with_webhook(scene)


def test_months_of_rotation_never_break_a_handshake():
    async def scene(running, api):
        seen = set()
        for _ in range(80):
            running.now += timedelta(hours=12)
            status, _told = await review_at(
                running, object=pod(labels={"kai.scheduler/queue": "q"})
            )
            assert status == 200
            await running.webhook._refresh()
            seen |= api.bundles()
        assert running.now - NOW > AUTHORITY_LIFE
        assert len(seen) >= 3

    async def review_at(running, **request):
        return await running.review(**request)

    with_webhook_unchecked_dates(scene)


def with_webhook_unchecked_dates(scene):
    """The client's clock stands still, so it is told to trust by signature alone."""
    real = ssl.create_default_context

    def without_dates(**given):
        context = real(**given)
        context.verify_flags |= 0x200000  # X509_V_FLAG_NO_CHECK_TIME
        return context

    ssl.create_default_context = without_dates
    try:
        with_webhook(scene)
    finally:
        ssl.create_default_context = real


def test_it_is_not_ready_until_somebody_asks_it():
    async def scene():
        async with kube_server() as server, client_of(server) as client:
            api = Api(server)
            hooks, api.hooks = api.hooks, {}
            async with Running(client, api) as running:
                status, told = await running.health()
                assert (status, (await running.health("/healthz"))[0]) == (503, 200)
                assert "not there yet" in told
                api.hooks = hooks
                await running.webhook._refresh()
                assert (await running.health())[0] == 200

    asyncio.run(scene())


def test_an_api_that_is_away_at_the_start_is_waited_for_and_the_end_is_heeded():
    async def scene():
        async with kube_server() as server, client_of(server) as client:
            api = Api(server)
            api.is_down = True
            running = Running(client, api)
            await server.asked(3)
            running.stop.set()
            await asyncio.wait_for(running.task, 60)
            assert not running.ports.done()

    asyncio.run(scene())


@pytest.mark.parametrize("part", ["_keep", "_world"])
def test_a_part_that_dies_ends_the_process_rather_than_leave_it_blind(part):
    async def scene():
        async with kube_server() as server, client_of(server) as client:
            running = Running(client, Api(server))
            broken = asyncio.Event()

            async def die():
                await broken.wait()
                raise RuntimeError("a bug")

            if part == "_world":
                follow = running.webhook._world.run
                running.webhook._world.run = lambda: both(follow(), die())
            else:
                running.webhook._keep = die
            await asyncio.wait_for(running.ports, 60)
            broken.set()
            with pytest.raises(RuntimeError, match="a bug"):
                await asyncio.wait_for(running.task, 60)

    async def both(*parts):
        await asyncio.gather(*parts)

    asyncio.run(scene())


def test_a_bundle_that_somebody_reset_is_written_again():
    async def scene(running, api):
        (before,) = api.bundles()
        api.hooks[HOOKS[1]]["webhooks"][0]["clientConfig"]["caBundle"] = "b2xk"
        await running.webhook._refresh()
        assert api.bundles() == {before}

    with_webhook(scene)


def test_a_runtime_class_is_asked_for_once_in_a_while():
    async def scene():
        async with kube_server() as server, client_of(server) as client:
            api = Api(server)
            moment = [100.0]
            world = World(client, OPTIONS, clock=lambda: moment[0])
            wants = Wants(runtime_class="nvidia")
            for _ in range(3):
                assert not (await world.gather(wants, "ns")).has_runtime_class
            asked = [one for one in server.seen if "runtimeclasses" in one.path]
            assert len(asked) == 1
            moment[0] += 31
            api.is_down = True
            with pytest.raises(Unavailable):
                await world.gather(wants, "ns")

    asyncio.run(scene())


GROUPS = "/apis/scheduling.run.ai/v2alpha2/podgroups"


def group(name, queue="q", **more):
    return {
        "metadata": {"name": name, "namespace": "ns", **more.pop("meta", {})},
        "spec": {"queue": queue},
        **more,
    }


def counted(**requested):
    return {"resourcesStatus": {"requested": requested}}


def test_live_work_is_what_holds_or_asks_for_something_or_was_not_counted_yet():
    items = [
        group("asks", status=counted(cpu="10m")),
        group("new"),
        group("done", status=counted(cpu="0", memory="0")),
        group("empty", status=counted()),
        group("leaving", meta={"deletionTimestamp": "2030-01-01T00:00:00Z"}),
        group("other", queue="else"),
    ]

    async def scene():
        async with kube_server() as server, client_of(server) as client:
            server.on(GROUPS, Answer({"metadata": {"resourceVersion": "1"}, "items": items}))
            facts = await World(client, OPTIONS).gather(Wants(workloads_of="q"), "")
            assert facts.live_groups == ("ns/asks", "ns/new")

    asyncio.run(scene())
